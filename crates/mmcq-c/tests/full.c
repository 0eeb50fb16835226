/* full.c: a call that finds no free slot, because submitted requests have all of them. Its thread
 * sleeps on a condition variable: it wakes when the handler has run, and only if mmcq_may_sleep has
 * become 0. Prints nothing if the call's second try follows the end of a submitted request. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include <stdio.h>

/* The longest sleep that `wait` may take. */
#define LIMIT_NS 1000000

static unsigned ended, ended_at_wake, wakes, limits;
static uint64_t alarm_ns = UINT64_MAX;
static void nothing(void *context) { (void)context; }
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }
static void done(mmcq_request *request, int32_t code) { (void)request; ended++; IS(code, MMCQ_OK); }

/* Waits for the variable while mmcq_may_sleep. The handler and the alarm notify it. */
static void wait_for_it(void *board, const mmcq_idle *idle) {
    uint64_t limit_ns = board_now_ns(board) + LIMIT_NS;
    while (mmcq_may_sleep(idle)) {
        if (board_sleep(board, alarm_ns < limit_ns ? alarm_ns : limit_ns))
            mmcq_on_irq(0);
        else if (board_now_ns(board) >= alarm_ns)
            mmcq_poll(0);
        else {
            limits++;
            return;
        }
    }
    if (wakes++ == 0)
        ended_at_wake = ended;
}

int main(void) {
    static uint8_t memory[MMCQ_SLOTS + 1][8 * 512] __attribute__((aligned(64)));
    static mmcq_request requests[MMCQ_SLOTS];
    void *board = board_open("sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .set_alarm = set_alarm, .wait = wait_for_it, .map = board_map, .unmap = board_unmap,
        .sync = board_sync,
    };
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    for (unsigned i = 0; i < MMCQ_SLOTS; i++) {
        /* The blocks are not contiguous, so each request has a transfer of its own. */
        requests[i] = (mmcq_request){
            .op = MMCQ_READ, .blocks = 8, .lba = 4096 + 64 * i, .memory = memory[i], .done = done,
        };
        IS(mmcq_submit(0, &requests[i]), MMCQ_OK);
    }
    wakes = limits = 0;
    IS(mmcq_read(0, 0, 1, memory[MMCQ_SLOTS]), MMCQ_OK);
    if (ended_at_wake != 1 || limits)
        wrong = 1, printf("%u requests had ended at the second try, %u sleeps to the limit\n", ended_at_wake, limits);
    EQUALS(ended, MMCQ_SLOTS);
    IS(mmcq_close(0), MMCQ_OK);
    return wrong;
}
