/* suspend.c: what a program calls before and after its machine sleeps. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include "pass.h"
#include <stdio.h>
#include <string.h>

static int locked;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }

static int32_t ended = 1;
static void done(mmcq_request *request, int32_t code) { (void)request; ended = code; }

int main(int argc, char **argv) {
    static uint8_t out[64 * 512] __attribute__((aligned(64))), in[64 * 512] __attribute__((aligned(64)));
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .set_alarm = set_alarm, .wait = wait_for_it, .map = board_map,
        .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_card card;
    IS(mmcq_suspend(0), MMCQ_E_STATE);
    IS(mmcq_resume(0), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    /* Without a card mmcq_suspend has nothing to flush, and succeeds. */
    IS(mmcq_suspend(0), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_E_STATE);
    IS(mmcq_resume(0), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);

    for (int i = 0; i < 3; i++) {
        memset(out, 0x5a + i, sizeof out);
        mmcq_request request = {.op = MMCQ_WRITE, .blocks = 64, .lba = 1000, .memory = out, .done = done};
        ended = 1;
        IS(mmcq_submit(0, &request), MMCQ_OK);
        IS(mmcq_suspend(0), MMCQ_OK);
        IS(ended, MMCQ_OK);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_E_STATE);
        IS(mmcq_flush(0), MMCQ_E_STATE);
        IS(mmcq_submit(0, &request), MMCQ_E_STATE);
        /* The written data are on the medium, also if the card loses its supply during the
         * sleep. */
        if (i == 1)
            board_brown_out(board);
        pass(board, 5000000000);
        IS(mmcq_resume(0), MMCQ_OK);
        memset(in, 0, sizeof in);
        IS(mmcq_read(0, 1000, 64, in), MMCQ_OK);
        if (memcmp(in, out, sizeof in))
            wrong = 1, puts("other data than were written");
        IS(mmcq_flush(0), MMCQ_OK);
    }
    /* A second mmcq_resume does no harm. */
    IS(mmcq_resume(0), MMCQ_OK);
    IS(mmcq_write(0, 2000, 64, out), MMCQ_OK);
    IS(mmcq_suspend(0), MMCQ_OK);
    IS(mmcq_suspend(0), MMCQ_E_STATE);
    IS(mmcq_close(0), MMCQ_OK);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    IS(mmcq_read(0, 2000, 64, in), MMCQ_OK);
    if (memcmp(in, out, sizeof in) || locked || board_violations(board))
        wrong = 1, puts("rules were broken");
    return wrong;
}
