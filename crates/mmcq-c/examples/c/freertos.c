/* freertos.c: the library under FreeRTOS. Threads that wait sleep on a semaphore, which the
 * controller's interrupt gives. FreeRTOS's tick is the alarm. A task brings up each card that is
 * inserted. card_move submits a request, and the request's callback gives a semaphore. */
#include "board.h"
#include "mmcq.h"
#include "FreeRTOS.h"
#include "semphr.h"
#include "task.h"

static void *board;
static SemaphoreHandle_t moved, card_changed;
static UBaseType_t mask;
static uint64_t alarm_ns = UINT64_MAX;

/* The lock, for one core: it masks the controller's interrupt and the tick. It is legal in a task,
 * and in an interrupt whose priority may call FreeRTOS. With several cores, also take a spin
 * lock. */
static void lock(void *context) { (void)context; mask = taskENTER_CRITICAL_FROM_ISR(); }
static void unlock(void *context) { (void)context; taskEXIT_CRITICAL_FROM_ISR(mask); }
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }

/* Gives a semaphore. A callback of the library calls this, in a task or in an interrupt. */
static void give(SemaphoreHandle_t semaphore) {
    if (xPortIsInsideInterrupt()) {
        BaseType_t woken = pdFALSE;
        xSemaphoreGiveFromISR(semaphore, &woken);
        portYIELD_FROM_ISR(woken);
    } else {
        xSemaphoreGive(semaphore);
    }
}

/* Sleeps for one tick at most: if several threads wait, the semaphore wakes only one of them. */
static void wait_a_tick(void *context, const mmcq_idle *idle) {
    (void)context, (void)idle;
    xSemaphoreTake(moved, 1);
}

static void card_event(void *context, int32_t present) {
    (void)context, (void)present;
    give(card_changed);
}

/* The controller's interrupt. */
void SDHC_IRQHandler(void) {
    mmcq_on_irq(0);
    give(moved);
}

/* FreeRTOS calls this in each tick, if configUSE_TICK_HOOK is 1. */
void vApplicationTickHook(void) {
    if (board_now_ns(board) >= alarm_ns) {
        mmcq_poll(0);
        give(moved);
    }
}

int32_t card_open(void *of_board) {
    mmcq_platform platform = {
        .context = of_board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .set_alarm = set_alarm, .wait = wait_a_tick, .map = board_map,
        .unmap = board_unmap, .sync = board_sync, .card_event = card_event,
    };
    board = of_board;
    moved = xSemaphoreCreateBinary();
    card_changed = xSemaphoreCreateBinary();
    return mmcq_open(0, &platform);
}

/* A task that xTaskCreate starts: brings up the card in the slot, and each card that is
 * inserted. */
void card_task(void *parameters) {
    (void)parameters;
    for (;;) {
        for (int tries = 0; tries < 5 && mmcq_card_present(0) == 1; tries++) {
            if (mmcq_bring_up(0, NULL) != MMCQ_E_NO_CARD)
                break;
            vTaskDelay(pdMS_TO_TICKS(50)); /* the card was put in a moment ago */
        }
        xSemaphoreTake(card_changed, portMAX_DELAY);
    }
}

struct waiting {
    SemaphoreHandle_t ended;
    int32_t code;
};

static void ended(mmcq_request *request, int32_t code) {
    struct waiting *waiting = request->context;
    waiting->code = code;
    give(waiting->ended);
}

/* Transfers blocks to or from the card. The task sleeps until the callback gives the semaphore; in
 * mmcq_read it would wake at every tick. Each request ends, because the library bounds every
 * wait. */
int32_t card_move(uint32_t op, uint64_t lba, uint32_t blocks, uint8_t *memory, SemaphoreHandle_t semaphore) {
    struct waiting waiting = {.ended = semaphore};
    mmcq_request request = {
        .op = op, .lba = lba, .blocks = blocks, .memory = memory, .done = ended, .context = &waiting,
    };
    int32_t code;
    while ((code = mmcq_submit(0, &request)) == MMCQ_E_FULL)
        vTaskDelay(1);
    if (code != MMCQ_OK)
        return code;
    xSemaphoreTake(semaphore, portMAX_DELAY);
    return waiting.code;
}
