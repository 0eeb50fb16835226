/* rpmb.c: key, counter, writes and reads of the replay-protected area. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include "wait.h"
#include <string.h>

static uint8_t frames[6 * 512] __attribute__((aligned(64)));
static uint8_t key[32], other_key[32];

/* Numbers that were never used before. A product takes them from a generator. */
static mmcq_rpmb fresh(const uint8_t *with) {
    static uint32_t used;
    mmcq_rpmb rpmb = {.key = with, .memory = frames, .memory_bytes = sizeof frames};
    for (int i = 0; i < 2; i++) {
        used++;
        memcpy(rpmb.nonces[i], &used, sizeof used);
    }
    return rpmb;
}
#define FRESH(with) (rpmb = fresh(with), &rpmb)

int main(void) {
    void *board = board_open("emmc-hs200");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    uint8_t out[512], in[512];
    uint32_t units = 0, write_units = 0, counter = 99;
    mmcq_rpmb rpmb;
    memset(key, 0x5a, sizeof key);
    memset(out, 0x77, sizeof out);
    IS(mmcq_rpmb_counter(0, FRESH(key), &counter), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    IS(mmcq_rpmb_counter(0, NULL, &counter), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_counter(0, FRESH(NULL), &counter), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_counter(0, FRESH(key), NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_counter(0, FRESH(key), &counter), MMCQ_E_NO_KEY);
    IS(mmcq_rpmb_program_key(0, FRESH(key), 1), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_program_key(0, FRESH(key), MMCQ_RPMB_FOR_EVER), MMCQ_OK);
    for (size_t i = 0; i < sizeof frames; i++)
        if (frames[i]) {
            wrong = 1, puts("something is left of the key's frame");
            break;
        }
    IS(mmcq_rpmb_size(0, FRESH(key), &units, &write_units), MMCQ_OK);
    units = 0;
    IS(mmcq_rpmb_size(0, FRESH(NULL), &units, &write_units), MMCQ_OK);
    EQUALS(units, 128 * 1024 / 256);
    EQUALS(write_units >= 1, 1);

    IS(mmcq_rpmb_counter(0, FRESH(key), &counter), MMCQ_OK);
    EQUALS(counter, 0);
    IS(mmcq_rpmb_write(0, FRESH(key), 4, 1, out), MMCQ_OK);
    IS(mmcq_rpmb_write(0, FRESH(key), 5, 1, out + 256), MMCQ_OK);
    IS(mmcq_rpmb_counter(0, FRESH(key), &counter), MMCQ_OK);
    EQUALS(counter, 2);
    memset(in, 0, sizeof in);
    IS(mmcq_rpmb_read(0, FRESH(key), 4, 2, in), MMCQ_OK);
    EQUALS(memcmp(in, out, sizeof in), 0);
    /* Frames of a program that has the key itself: it asks for the counter. */
    static uint8_t relayed[7 * 512];
    mmcq_rpmb_frames counts = {.out = 1, .back = 1};
    relayed[511] = 2, relayed[484] = 0x99;
    IS(mmcq_rpmb_relay(0, FRESH(NULL), &counts, relayed), MMCQ_OK);
    EQUALS(relayed[512 + 510], 2);
    EQUALS(relayed[512 + 511], 0);
    EQUALS(relayed[512 + 484], 0x99);
    EQUALS(relayed[512 + 503], 2);
    IS(mmcq_rpmb_relay(0, FRESH(key), NULL, relayed), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_relay(0, FRESH(key), &counts, NULL), MMCQ_E_ARGUMENT);
    counts = (mmcq_rpmb_frames){0};
    IS(mmcq_rpmb_relay(0, FRESH(key), &counts, relayed), MMCQ_E_UNSUPPORTED);
    counts = (mmcq_rpmb_frames){.out = 1, .back = 6};
    IS(mmcq_rpmb_relay(0, FRESH(key), &counts, relayed), MMCQ_E_ARGUMENT);
    /* The user area is selected again. */
    static uint8_t block[512] __attribute__((aligned(64)));
    IS(mmcq_read(0, 0, 1, block), MMCQ_OK);

    /* With another key, a write is refused, and the response to a read counts as forged. */
    memset(out, 0x88, sizeof out);
    IS(mmcq_rpmb_read(0, FRESH(other_key), 4, 1, in), MMCQ_E_FORGED);
    IS(mmcq_rpmb_write(0, FRESH(other_key), 4, 1, out), MMCQ_E_FORGED);
    IS(mmcq_rpmb_read(0, FRESH(key), 4, 1, in), MMCQ_OK);
    EQUALS(in[0], 0x77);
    IS(mmcq_rpmb_read(0, FRESH(key), 4, 0, in), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_read(0, FRESH(key), 4, 1, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_rpmb_write(0, FRESH(key), 4, 3, out), MMCQ_E_ARGUMENT);
    rpmb = fresh(key), rpmb.memory_bytes = 1024;
    IS(mmcq_rpmb_counter(0, &rpmb, &counter), MMCQ_E_ARGUMENT);
    rpmb = fresh(key), rpmb.memory = frames + 1;
    IS(mmcq_rpmb_counter(0, &rpmb, &counter), MMCQ_E_DMA);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(board_violations(board), 0);
    return wrong;
}
