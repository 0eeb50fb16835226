/* freertos.c: runs the example for FreeRTOS. The functions of FreeRTOS are imitated in one thread,
 * in the board's time. Prints nothing if all is well. */
#include "../examples/c/freertos.c"
#include "expect.h"
#include <setjmp.h>
#include <string.h>

struct QueueDefinition {
    int given;
};
static struct QueueDefinition semaphores[8];
static int created, masked, inside;
static jmp_buf out_of_the_task;
static int running_task;

SemaphoreHandle_t xSemaphoreCreateBinary(void) { return &semaphores[created++]; }
BaseType_t xPortIsInsideInterrupt(void) { return inside; }
UBaseType_t taskENTER_CRITICAL_FROM_ISR(void) {
    if (masked)
        wrong = 1, puts("the lock is nested");
    masked = 1;
    return 0x60;
}
void taskEXIT_CRITICAL_FROM_ISR(UBaseType_t before) {
    EQUALS(before, 0x60);
    masked = 0;
}
BaseType_t xSemaphoreGive(SemaphoreHandle_t semaphore) {
    if (inside || masked)
        wrong = 1, puts("a task's function in an interrupt, or with the lock held");
    semaphore->given = 1;
    return pdTRUE;
}
BaseType_t xSemaphoreGiveFromISR(SemaphoreHandle_t semaphore, BaseType_t *woken) {
    if (!inside)
        wrong = 1, puts("an interrupt's function in a task");
    semaphore->given = 1;
    *woken = pdTRUE;
    return pdTRUE;
}

/* Lets one tick pass, with the interrupts that come during the tick. */
static void tick(void) {
    uint64_t end_ns = board_now_ns(board) + 1000000;
    inside = 1;
    while (board_now_ns(board) < end_ns)
        if (board_sleep(board, end_ns))
            SDHC_IRQHandler();
    vApplicationTickHook();
    inside = 0;
}
void vTaskDelay(TickType_t ticks) {
    while (ticks--)
        tick();
}
BaseType_t xSemaphoreTake(SemaphoreHandle_t semaphore, TickType_t ticks) {
    for (TickType_t i = 0; !semaphore->given && i < ticks; i++) {
        if (running_task && semaphore == card_changed)
            longjmp(out_of_the_task, 1); /* another task's turn */
        if (i > 20000)
            return wrong = 1, puts("asleep for 20 s"), pdFALSE;
        tick();
    }
    BaseType_t taken = semaphore->given;
    semaphore->given = 0;
    return taken;
}

/* Runs the card's task until the task sleeps. */
static void run_card_task(void) {
    running_task = 1;
    if (!setjmp(out_of_the_task))
        card_task(NULL);
    running_task = 0;
}

int main(void) {
    static uint8_t memory[8 * 512], in[8 * 512] __attribute__((aligned(64)));
    void *of_board = board_open("sdhc-16g-hs");
    IS(card_open(of_board), MMCQ_OK);
    SemaphoreHandle_t mine = xSemaphoreCreateBinary();
    IS(card_move(MMCQ_READ, 0, 8, in, mine), MMCQ_E_NO_CARD);
    run_card_task();
    memset(memory, 0x3c, sizeof memory);
    IS(card_move(MMCQ_WRITE, 500, 8, memory, mine), MMCQ_OK);
    IS(card_move(MMCQ_FLUSH, 0, 0, NULL, mine), MMCQ_OK);
    IS(card_move(MMCQ_READ, 500, 8, in, mine), MMCQ_OK);
    EQUALS(memcmp(in, memory, sizeof in), 0);
    IS(mmcq_read(0, 500, 8, in), MMCQ_OK); /* a call that waits works, too */

    board_remove_or_insert(of_board);
    vTaskDelay(300);
    IS(card_move(MMCQ_READ, 500, 8, in, mine), MMCQ_E_NO_CARD);
    board_remove_or_insert(of_board);
    vTaskDelay(300);
    EQUALS(card_changed->given, 1); /* the card's task is woken */
    run_card_task();
    IS(card_move(MMCQ_READ, 500, 8, in, mine), MMCQ_OK);
    EQUALS(memcmp(in, memory, sizeof in), 0);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(masked || board_violations(of_board), 0);
    return wrong;
}
