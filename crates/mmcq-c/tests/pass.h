/* pass.h: lets time pass on the board, with the controller's interrupt and the alarm. */
#include "board.h"
#include "mmcq.h"

static uint64_t alarm_ns = UINT64_MAX;
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }

static void pass(void *board, uint64_t ns) {
    uint64_t end_ns = board_now_ns(board) + ns;
    while (board_now_ns(board) < end_ns) {
        if (board_sleep(board, alarm_ns < end_ns ? alarm_ns : end_ns))
            mmcq_on_irq(0);
        else if (board_now_ns(board) >= alarm_ns)
            mmcq_poll(0);
    }
}
static void wait_for_it(void *board, const mmcq_idle *idle) { (void)idle; pass(board, 100000); }
