/* waits.c: a thread that sleeps until an interrupt or the alarm comes; no tick wakes it. Prints
 * nothing if no sleep lasts for ever. */
#include "board.h"
#include "mmcq.h"
#include <stdio.h>
#include <string.h>

static int served, wrong;
static unsigned sleeps, asked_in_vain;
static uint64_t alarm_ns = UINT64_MAX;
static void nothing(void *context) { (void)context; }
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }

/* Sleeps until the interrupt or the alarm. A sleep of a second without either counts as a sleep for
 * ever. */
static int sleeps_until_something(void *board) {
    uint64_t now_ns = board_now_ns(board), for_ever_ns = now_ns + 1000000000;
    int irq = board_sleep(board, alarm_ns < for_ever_ns ? alarm_ns : for_ever_ns);
    sleeps++;
    if (!irq && board_now_ns(board) >= for_ever_ns)
        wrong = 1, puts("asleep for ever");
    return irq;
}
/* Imitates two platforms. In one, interrupts are masked all the time, and WFI ends the sleep. In
 * the other (`served`), a handler runs between the caller's check and the sleep, and completes the
 * request. */
static void wait_for_it(void *board, const mmcq_idle *idle) {
    if (!mmcq_may_sleep(idle))
        wrong = 1, puts("told to wait for nothing");
    while (served && mmcq_may_sleep(idle)) {
        if (sleeps_until_something(board))
            mmcq_on_irq(0);
        else
            mmcq_poll(0);
    }
    if (mmcq_may_sleep(idle))
        sleeps_until_something(board);
    else
        asked_in_vain++;
}

int main(int argc, char **argv) {
    static uint8_t memory[64 * 512] __attribute__((aligned(64)));
    void *board = board_open("sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .set_alarm = set_alarm, .wait = wait_for_it, .map = board_map, .unmap = board_unmap,
        .sync = board_sync,
    };
    served = argc > 1 && !strcmp(argv[1], "served");
    if (mmcq_open(0, &platform) || mmcq_bring_up(0, NULL))
        return 1;
    for (uint32_t i = 0; i < 50; i++)
        wrong |= mmcq_write(0, i, 1 + i % 64, memory) || mmcq_read(0, i, 1 + i % 64, memory);
    wrong |= mmcq_flush(0) || mmcq_bring_up(0, NULL) || mmcq_read(0, 0, 1, memory);
    if (sleeps < 100 || (served && asked_in_vain < 100))
        wrong = 1, printf("%u sleeps, %u in vain\n", sleeps, asked_in_vain);
    return wrong;
}
