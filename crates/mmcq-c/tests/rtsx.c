/* rtsx.c: opens Realtek's card reader with wrong and with right arguments, and makes requests
 * larger than its table. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include <string.h>

enum { BLOCKS = 3000 };
static uint8_t memory[BLOCKS * 512] __attribute__((aligned(64)));
static int mapped;

static void nothing(void *context) { (void)context; }
static int32_t map(void *board, void *at, size_t bytes, int32_t to_card, uint64_t *bus) {
    mapped++;
    return board_map(board, at, bytes, to_card, bus);
}
static void unmap(void *board, uint64_t bus, void *at, size_t bytes, int32_t to_card) {
    mapped--;
    board_unmap(board, bus, at, bytes, to_card);
}
static int32_t second_fails(void *board, void *at, size_t bytes, int32_t to_card, uint64_t *bus) {
    return mapped ? MMCQ_E_DMA : map(board, at, bytes, to_card, bus);
}
static void sleep_a_bit(void *board, const mmcq_idle *idle) {
    if (mmcq_may_sleep(idle) && board_sleep(board, board_now_ns(board) + 100000))
        mmcq_on_irq(0);
}
static uint32_t ones(void *context, uint16_t offset, uint8_t bytes) {
    (void)context, (void)offset, (void)bytes;
    return 0xffffffffu;
}

int main(void) {
    void *board = board_open_rtsx("sdxc-128g-uhs");
    mmcq_platform good = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing, .now_ns = board_now_ns,
        .wait = sleep_a_bit, .map = map, .unmap = unmap, .sync = board_sync,
    }, bad = good;
    mmcq_card card;
    bad.quirks = "no-busy-irq";
    IS(mmcq_open_rtsx(0, &bad, 0x10ec, 0x5249), MMCQ_E_ARGUMENT);
    bad = good, bad.flags = MMCQ_EMMC_18;
    IS(mmcq_open_rtsx(0, &bad, 0x10ec, 0x5249), MMCQ_E_ARGUMENT);
    bad = good, bad.lock = NULL;
    IS(mmcq_open_rtsx(0, &bad, 0x10ec, 0x5249), MMCQ_E_ARGUMENT);
    IS(mmcq_open_rtsx(0, NULL, 0x10ec, 0x5249), MMCQ_E_ARGUMENT);
    IS(mmcq_open_rtsx(MMCQ_HOSTS, &good, 0x10ec, 0x5249), MMCQ_E_ARGUMENT);
    IS(mmcq_open_rtsx(0, &good, 0x10ec, 0x5261), MMCQ_E_UNSUPPORTED);
    IS(mmcq_open_rtsx(0, &good, 0x1b36, 0x0007), MMCQ_E_UNSUPPORTED);
    bad = good, bad.read = ones;
    IS(mmcq_open_rtsx(0, &bad, 0x10ec, 0x5249), MMCQ_E_CONTROLLER);
    bad = good, bad.cache_line = 64;
    IS(mmcq_open_rtsx(0, &bad, 0x10ec, 0x5249), MMCQ_E_DMA);
    bad = good, bad.map = second_fails;
    IS(mmcq_open_rtsx(0, &bad, 0x10ec, 0x5249), MMCQ_E_DMA);
    EQUALS(mapped, 0);

    for (int time = 0; time < 2; time++) {
        IS(mmcq_open_rtsx(0, &good, 0x10ec, 0x5249), MMCQ_OK);
        IS(mmcq_open_rtsx(0, &good, 0x10ec, 0x5249), MMCQ_E_STATE);
        EQUALS(mapped, 2); /* list and table */
        IS(mmcq_bring_up(0, &card), MMCQ_OK);
        EQUALS(card.pieces, 1);
        EQUALS(card.width, 4);
        EQUALS(card.clock_hz, 208000000);
        for (uint32_t at = 0; at < sizeof memory; at++)
            memory[at] = (uint8_t)(at * 7 + at / 512 * 13 + time);
        IS(mmcq_write(0, 5000, BLOCKS, memory), MMCQ_OK);
        IS(mmcq_flush(0), MMCQ_OK);
        memset(memory, 0xee, sizeof memory);
        IS(mmcq_read(0, 5000, BLOCKS, memory), MMCQ_OK);
        for (uint32_t at = 0; at < sizeof memory && !wrong; at++)
            EQUALS(memory[at], (uint8_t)(at * 7 + at / 512 * 13 + time));
        IS(mmcq_close(0), MMCQ_OK);
        EQUALS(mapped, 0);
    }
    EQUALS(board_violations(board), 0);
    return wrong;
}
