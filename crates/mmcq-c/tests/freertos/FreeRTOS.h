/* FreeRTOS.h: what freertos.c needs of FreeRTOS, written from FreeRTOS's documentation, so that the
 * tests can compile freertos.c. */
#ifndef FREERTOS_DEFINED
#define FREERTOS_DEFINED
#include <stdint.h>
typedef long BaseType_t;
typedef unsigned long UBaseType_t;
typedef uint32_t TickType_t;
#define pdFALSE ((BaseType_t)0)
#define pdTRUE ((BaseType_t)1)
#define portMAX_DELAY ((TickType_t)0xffffffff)
#define configTICK_RATE_HZ 1000
#define pdMS_TO_TICKS(ms) ((TickType_t)((uint64_t)(ms) * configTICK_RATE_HZ / 1000))
#define portYIELD_FROM_ISR(woken) ((void)(woken))
BaseType_t xPortIsInsideInterrupt(void);
#endif
