/* semphr.h: see FreeRTOS.h. */
#ifndef SEMAPHORE_DEFINED
#define SEMAPHORE_DEFINED
struct QueueDefinition;
typedef struct QueueDefinition *SemaphoreHandle_t;
SemaphoreHandle_t xSemaphoreCreateBinary(void);
BaseType_t xSemaphoreTake(SemaphoreHandle_t semaphore, TickType_t ticks);
BaseType_t xSemaphoreGive(SemaphoreHandle_t semaphore);
BaseType_t xSemaphoreGiveFromISR(SemaphoreHandle_t semaphore, BaseType_t *woken);
#endif
