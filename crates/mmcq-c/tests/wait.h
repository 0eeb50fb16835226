/* wait.h: the `wait` function of test programs, and a lock for a program with one thread. */
static void nothing(void *context) { (void)context; }
static void wait_for_it(void *board, const mmcq_idle *idle) {
    (void)idle;
    if (board_sleep(board, board_now_ns(board) + 100000))
        mmcq_on_irq(0);
}
