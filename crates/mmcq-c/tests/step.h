/* step.h: advances the board to its next interrupt or alarm, by a millisecond at most. */
#include "board.h"
#include "mmcq.h"

static uint64_t alarm_ns = UINT64_MAX;
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }

static void step(void *board) {
    uint64_t soon_ns = board_now_ns(board) + 1000000;
    if (board_sleep(board, alarm_ns < soon_ns ? alarm_ns : soon_ns))
        mmcq_on_irq(0);
    else if (board_now_ns(board) >= alarm_ns)
        mmcq_poll(0);
}
static void wait_for_it(void *board, const mmcq_idle *idle) { (void)idle; step(board); }
