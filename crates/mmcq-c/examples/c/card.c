/* card.c: a card from C. Opens the controller, brings the card up, writes, flushes, reads back. */
#include "board.h"
#include "mmcq.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* With an RTOS: mask the controller's interrupt and take a spin lock, or a critical section. */
static int locked;
static void lock(void *context) { (void)context; locked++; }
static void unlock(void *context) { (void)context; locked--; }

/* The controller's interrupt handler. With an RTOS it then gives the semaphore that wait_for_it takes. */
static void on_interrupt(void) { mmcq_on_irq(0); }

/* Sleeps until the interrupt or the next deadline, for a millisecond at most. With an RTOS it takes
 * a semaphore, with this time-out. This board has one context, so the thread itself calls the
 * handler. */
static void wait_for_it(void *context, const mmcq_idle *idle) {
    (void)idle;
    uint64_t soon_ns = board_now_ns(context) + 1000000, next_ns = mmcq_next_deadline_ns(0);
    if (board_sleep(context, next_ns < soon_ns ? next_ns : soon_ns))
        on_interrupt();
}

static int failed(const char *what, int32_t code) {
    fprintf(stderr, "%s: %s\n", what, mmcq_error_name(code));
    return 1;
}

int main(int argc, char **argv) {
    static uint8_t out[64 * 512], in[64 * 512] __attribute__((aligned(64)));
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_card card;
    int32_t code;
    if (!board)
        return failed("board", MMCQ_E_NO_CARD);
    if ((code = mmcq_open(0, &platform)))
        return failed("open", code);
    if ((code = mmcq_bring_up(0, &card)))
        return failed("bring-up", code);
    printf("%s, %" PRIu64 " blocks, %u lines at %" PRIu32 " Hz\n", card.emmc ? "eMMC" : "SD", card.blocks,
           card.width, card.clock_hz);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (uint8_t)(i * 7 + i / 512);
    if ((code = mmcq_write(0, 1000, 64, out)) || (code = mmcq_flush(0)))
        return failed("write", code);
    if ((code = mmcq_read(0, 1000, 64, in)))
        return failed("read", code);
    if (memcmp(in, out, sizeof in) || locked || board_violations(board))
        return failed("compare", MMCQ_E_CARD);
    printf("64 blocks written, flushed and read back in %" PRIu64 " us of the board's time\n",
           board_now_ns(board) / 1000);
    return 0;
}
