/* supervisor.c: what the library does without calls for that purpose when a card loses its state or
 * is taken out. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include "pass.h"
#include <stdio.h>
#include <string.h>

static int locked;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }

int main(int argc, char **argv) {
    static uint8_t out[64 * 512], in[64 * 512] __attribute__((aligned(64)));
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    int alarm = argc > 2 && !strcmp(argv[2], "alarm");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .set_alarm = alarm ? set_alarm : NULL, .wait = wait_for_it, .map = board_map,
        .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_card card;
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    memset(out, 0x5a, sizeof out);
    IS(mmcq_write(0, 1000, 64, out), MMCQ_OK);
    IS(mmcq_flush(0), MMCQ_OK);

    /* After each loss of the supply the library initialises the card again, and no call fails. */
    for (int i = 0; i < 3; i++) {
        board_brown_out(board);
        memset(in, 0, sizeof in);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_OK);
        if (memcmp(in, out, sizeof in))
            wrong = 1, puts("other data than were written");
        if (!card.volatile_cache)
            board_brown_out(board);
        IS(mmcq_write(0, 2000, 64, out), MMCQ_OK);
        IS(mmcq_flush(0), MMCQ_OK);
    }
    /* Data in the card's cache are lost, and one flush reports that. */
    IS(mmcq_write(0, 3000, 64, out), MMCQ_OK);
    board_brown_out(board);
    IS(mmcq_read(0, 1000, 64, in), MMCQ_OK);
    IS(mmcq_flush(0), card.volatile_cache ? MMCQ_E_CACHE_LOST : MMCQ_OK);
    IS(mmcq_flush(0), MMCQ_OK);

    /* The program may call mmcq_bring_up again at any time. */
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    board_brown_out(board);
    IS(mmcq_read(0, 2000, 64, in), MMCQ_OK);

    if (alarm && !card.emmc) {
        /* A card that is taken out and put in again is used only after mmcq_bring_up. */
        board_remove_or_insert(board);
        pass(board, 300000000);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_E_NO_CARD);
        board_remove_or_insert(board);
        pass(board, 300000000);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_E_NO_CARD);
        IS(mmcq_bring_up(0, &card), MMCQ_OK);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_OK);
        board_brown_out(board);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_OK);
    }
    if (locked || board_violations(board))
        wrong = 1, puts("rules were broken");
    return wrong;
}
