/* task.h: see FreeRTOS.h. */
#ifndef TASK_DEFINED
#define TASK_DEFINED
UBaseType_t taskENTER_CRITICAL_FROM_ISR(void);
void taskEXIT_CRITICAL_FROM_ISR(UBaseType_t mask);
void vTaskDelay(TickType_t ticks);
#endif
