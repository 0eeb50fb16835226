/* extended.c: durable writes, discards, erases and mmcq_close. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include <stdio.h>
#include <string.h>

static int locked;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }
static void wait_for_it(void *board, const mmcq_idle *idle) {
    (void)idle;
    if (board_sleep(board, board_now_ns(board) + 100000))
        mmcq_on_irq(0);
}


static uint8_t out[64 * 512], in[64 * 512] __attribute__((aligned(64)));

static void reads(uint64_t lba, uint32_t blocks, int byte, const char *what) {
    memset(in, ~byte, sizeof in);
    IS(mmcq_read(0, lba, blocks, in), MMCQ_OK);
    for (size_t i = 0; i < blocks * 512u; i++)
        if (in[i] != (uint8_t)byte) {
            printf("%s: byte %zu is %02x instead of %02x\n", what, i, in[i], byte);
            wrong = 1;
            return;
        }
}

int main(int argc, char **argv) {
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_card card;
    IS(mmcq_write_durable(0, 0, 1, out), MMCQ_E_STATE);
    IS(mmcq_erase(0, 0, 1), MMCQ_E_STATE);
    IS(mmcq_close(0), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_erase(0, 0, 1), MMCQ_E_NO_CARD);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);

    /* What is durable survives the loss of the supply; the library initialises the card again. */
    memset(out, 0x11, sizeof out);
    IS(mmcq_write_durable(0, 1000, 64, out), MMCQ_OK);
    board_brown_out(board);
    reads(1000, 64, 0x11, "durable, after a loss of the supply");
    IS(mmcq_write_durable(0, card.blocks, 1, out), MMCQ_E_RANGE);
    IS(mmcq_write_durable(0, 0, 0, out), MMCQ_E_ARGUMENT);
    IS(mmcq_write_durable(0, 0, 1, NULL), MMCQ_E_ARGUMENT);

    IS(mmcq_discard(0, 0, 0), MMCQ_E_ARGUMENT);
    IS(mmcq_erase(0, 0, 0), MMCQ_E_ARGUMENT);
    IS(mmcq_discard(0, 1000, 8), MMCQ_OK);
    reads(1008, 56, 0x11, "beside what was discarded");
    /* These blocks are whole erase groups on each card of these tests. */
    IS(mmcq_write(0, 65536, 64, out), MMCQ_OK);
    IS(mmcq_erase(0, 65536, 65536), MMCQ_OK);
    IS(mmcq_read(0, 65536, 1, in), MMCQ_OK);
    if (in[0] != 0 && in[0] != 0xff)
        wrong = 1, puts("neither zeros nor ones after an erase");
    reads(65536, 64, in[0], "erased");
    reads(1008, 56, 0x11, "beside what was erased");

    /* mmcq_close with writes in the cache: the data are on the card when it is opened again. */
    memset(out, 0x22, sizeof out);
    IS(mmcq_write(0, 2000, 64, out), MMCQ_OK);
    for (int round = 0; round < 3; round++) {
        IS(mmcq_close(0), MMCQ_OK);
        mmcq_on_irq(0);
        mmcq_poll(0);
        IS(mmcq_read(0, 2000, 1, in), MMCQ_E_STATE);
        IS(mmcq_close(0), MMCQ_E_STATE);
        IS(mmcq_open(0, &platform), MMCQ_OK);
        IS(mmcq_read(0, 2000, 1, in), MMCQ_E_NO_CARD);
        if (round == 1)
            continue; /* the next mmcq_close comes before a card was brought up */
        IS(mmcq_bring_up(0, &card), MMCQ_OK);
        reads(2000, 64, 0x22, "written before the end");
        IS(mmcq_erase(0, card.blocks, 1), MMCQ_E_RANGE);
    }
    if (locked || board_violations(board))
        wrong = 1, printf("locked %d, broken rules %d\n", locked, (int)board_violations(board));
    return wrong;
}
