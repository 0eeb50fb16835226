/* durable.c: durable writes, discards and zeroes by requests that end in a callback. Prints nothing if all is well. */
#include "expect.h"
#include "step.h"
#include <string.h>

static int ended;
static int32_t ended_as;
static uint8_t memory[64 * 512] __attribute__((aligned(64)));

static int locked;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }
/* mmcq.h promises the lock for each alarm, also for the last one, in mmcq_close. */
static void alarm_with_lock(void *context, uint64_t at_ns) {
    if (!locked)
        wrong = 1, puts("an alarm was set without the lock");
    set_alarm(context, at_ns);
}
static void done(mmcq_request *request, int32_t code) { (void)request; ended = 1, ended_as = code; }

static int32_t submitted(void *board, uint32_t op, uint64_t lba, uint32_t blocks) {
    mmcq_request request = { .op = op, .lba = lba, .blocks = blocks, .memory = op <= MMCQ_WRITE_DURABLE ? memory : NULL, .done = done };
    int32_t code = mmcq_submit(0, &request);
    for (ended = code != MMCQ_OK; !ended;)
        step(board);
    return code == MMCQ_OK ? ended_as : code;
}
static void reads(void *board, uint64_t lba, uint32_t blocks, int byte) {
    memset(memory, ~byte, sizeof memory);
    IS(submitted(board, MMCQ_READ, lba, blocks), MMCQ_OK);
    for (uint32_t at = 0; at < blocks * 512; at++)
        if (memory[at] != (uint8_t)byte) {
            printf("block %u is %02x instead of %02x\n", (unsigned)lba + at / 512, memory[at], byte);
            wrong = 1;
            return;
        }
}

int main(int argc, char **argv) {
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock, .now_ns = board_now_ns,
        .set_alarm = alarm_with_lock,
        .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_card card;
    mmcq_statistics before, after;
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(submitted(board, MMCQ_DISCARD, 0, 8), MMCQ_E_NO_CARD);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);

    /* Durable writes are the first calls after bring-up. None of them needs a flush, because the
     * cards of this test that have a cache also have reliable writes. */
    memset(memory, 0x11, sizeof memory);
    IS(mmcq_stats(0, &before), MMCQ_OK);
    for (uint32_t n = 0; n < 8; n++)
        IS(submitted(board, MMCQ_WRITE_DURABLE, 1000 + 8 * n, 8), MMCQ_OK);
    IS(mmcq_write_durable(0, 1064, 8, memory), MMCQ_OK);
    IS(mmcq_stats(0, &after), MMCQ_OK);
    EQUALS(after.transfers - before.transfers, 9);
    EQUALS(after.durable_flushes - before.durable_flushes, 0);
    board_brown_out(board);
    reads(board, 1000, 64, 0x11);

    /* A discard of whole units is sent to the card. */
    IS(submitted(board, MMCQ_DISCARD, 0, 0), MMCQ_E_ARGUMENT);
    EQUALS(card.discard_blocks != 0, 1);
    IS(submitted(board, MMCQ_WRITE, 65536, 64), MMCQ_OK);
    IS(mmcq_stats(0, &before), MMCQ_OK);
    IS(submitted(board, MMCQ_DISCARD, 65536, 65536), MMCQ_OK);
    IS(mmcq_stats(0, &after), MMCQ_OK);
    EQUALS(after.erase_pieces > before.erase_pieces, 1);
    /* A discard of less than one unit: the card keeps the block, and the request succeeds. */
    if (card.discard_blocks > 1)
        IS(submitted(board, MMCQ_DISCARD, card.discard_blocks + 1, 1), MMCQ_OK);

    /* The blocks read as zeros afterwards, or the request is refused and they keep their data. */
    memset(memory, 0x22, sizeof memory);
    IS(submitted(board, MMCQ_WRITE, 65536, 64), MMCQ_OK);
    IS(submitted(board, MMCQ_ZEROES, 65536, 0), MMCQ_E_ARGUMENT);
    IS(submitted(board, MMCQ_ZEROES, 65536, 65536), card.zeroes ? MMCQ_OK : MMCQ_E_UNSUPPORTED);
    reads(board, 65536, 64, card.zeroes ? 0 : 0x22);
    IS(submitted(board, 7, 0, 8), MMCQ_E_ARGUMENT);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(board_violations(board), 0);
    return wrong;
}
