/* secure.c: blocks that are erased with all their copies, and their neighbours. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include "wait.h"
#include <string.h>

static uint8_t out[16 * 512] __attribute__((aligned(64))), in[16 * 512] __attribute__((aligned(64)));
static void *board;
static int32_t ended;
static int begun;

static void done(mmcq_request *request, int32_t code) { (void)request; ended = code, begun = 0; }

static int32_t secure(uint64_t lba, uint32_t blocks) {
    mmcq_request request = {.op = MMCQ_SECURE_ERASE, .lba = lba, .blocks = blocks, .done = done};
    begun = 1;
    int32_t code = mmcq_submit(0, &request);
    while (!code && begun) {
        wait_for_it(board, NULL);
        mmcq_poll(0);
    }
    return code ? code : ended;
}

int main(int count, char **words) {
    board = board_open(count > 1 ? words[1] : "emmc-hs200");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_card card;
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    IS(secure(0, 0), MMCQ_E_ARGUMENT);
    EQUALS(card.secure_erase, card.emmc);
    if (card.emmc) {
        memset(out, 0x5a, sizeof out);
        IS(mmcq_write(0, 100, 16, out), MMCQ_OK);
        IS(secure(103, 5), MMCQ_OK);
        IS(mmcq_read(0, 100, 16, in), MMCQ_OK);
        EQUALS(memcmp(in, out, 3 * 512) || memcmp(in + 8 * 512, out, 8 * 512), 0);
        memset(out, in[3 * 512], sizeof out);
        EQUALS(in[3 * 512] != 0x5a && !memcmp(in + 3 * 512, out, 5 * 512), 1);
        IS(secure(card.blocks - 1, 2), MMCQ_E_RANGE);
    } else {
        IS(secure(103, 5), MMCQ_E_UNSUPPORTED);
    }
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(board_violations(board), 0);
    return wrong;
}
