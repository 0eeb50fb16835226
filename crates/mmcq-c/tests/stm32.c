/* stm32.c: what ST's SDMMC is opened with, wrongly and rightly, its data, an eMMC, and a card that
 * is taken out. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include <string.h>

enum { BLOCKS = 300, LINE = 64 };
static uint8_t memory[BLOCKS * 512] __attribute__((aligned(LINE)));
static uint8_t own[MMCQ_DMA_BYTES] __attribute__((aligned(MMCQ_DMA_ALIGN)));
static int mapped, resets, events, present;
static uint64_t alarm_ns = UINT64_MAX;

static void nothing(void *context) { (void)context; }
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }
static int32_t map(void *board, void *at, size_t bytes, int32_t to_card, uint64_t *bus) {
    mapped++;
    return board_map(board, at, bytes, to_card, bus);
}
static void unmap(void *board, uint64_t bus, void *at, size_t bytes, int32_t to_card) {
    mapped--;
    board_unmap(board, bus, at, bytes, to_card);
}
static int32_t refuse(void *board, void *at, size_t bytes, int32_t to_card, uint64_t *bus) {
    (void)board, (void)at, (void)bytes, (void)to_card, (void)bus;
    return -1;
}
static uint32_t piece(void *board, uint64_t bus, uint32_t bytes, uint64_t *real) {
    (void)board, (void)bus, (void)real;
    return bytes < 512 ? bytes : 512; /* the next block is somewhere else */
}
static void step(void *board) {
    uint64_t soon_ns = board_now_ns(board) + 1000000;
    if (board_sleep(board, alarm_ns < soon_ns ? alarm_ns : soon_ns))
        mmcq_on_irq(0);
    else if (board_now_ns(board) >= alarm_ns)
        mmcq_poll(0);
}
static void wait_for_it(void *board, const mmcq_idle *idle) {
    if (mmcq_may_sleep(idle))
        step(board);
}
static uint32_t read(void *board, uint16_t offset, uint8_t bytes) {
    EQUALS(bytes == 4 && offset % 4 == 0 && offset < 128, 1);
    return board_read(board, offset, bytes);
}
static void write(void *board, uint16_t offset, uint8_t bytes, uint32_t value) {
    EQUALS(bytes == 4 && offset % 4 == 0 && offset < 128, 1);
    board_write(board, offset, bytes, value);
}
static uint32_t ones(void *context, uint16_t offset, uint8_t bytes) {
    (void)context, (void)offset, (void)bytes;
    return 0xffffffffu;
}
static uint32_t zeros(void *context, uint16_t offset, uint8_t bytes) {
    (void)context, (void)offset, (void)bytes;
    return 0;
}
static int32_t reset(void *board) {
    resets++;
    return board_reset(board);
}

static void card_event(void *board, int32_t now) {
    (void)board;
    events++, present = now;
}

static mmcq_platform platform_of(void *board) {
    return (mmcq_platform) {
        .context = board, .read = read, .write = write, .lock = nothing, .unlock = nothing, .now_ns = board_now_ns,
        .set_alarm = set_alarm, .wait = wait_for_it, .map = map, .unmap = unmap, .sync = board_sync, .card_event = card_event,
        .cache_line = LINE,
    };
}

static uint8_t expected(uint32_t at, int time) { return (uint8_t)(at * 7 + at / 512 * 13 + (uint32_t)time); }

/* Writes and reads blocks, and compares them. */
static void blocks(uint64_t lba, int time) {
    for (uint32_t at = 0; at < sizeof memory; at++)
        memory[at] = expected(at, time);
    IS(mmcq_write(0, lba, BLOCKS, memory), MMCQ_OK);
    IS(mmcq_flush(0), MMCQ_OK);
    memset(memory, 0xee, sizeof memory);
    IS(mmcq_read(0, lba, BLOCKS, memory), MMCQ_OK);
    for (uint32_t at = 0; at < sizeof memory && !wrong; at++)
        EQUALS(memory[at], expected(at, time));
}

static void arguments(void) {
    void *board = board_open_stm32("sdhc-16g-hs");
    mmcq_platform good = platform_of(board), bad = good;
    mmcq_stm32 around = {.kernel_hz = 200000000, .busy_after_data = 1}, odd = around;
    bad.quirks = "no-busy-irq";
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_ARGUMENT);
    bad = good, bad.flags = 4;
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_ARGUMENT);
    bad = good, bad.lock = NULL;
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, NULL, &around), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, &good, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, &good, (const mmcq_stm32 *)((const char *)&around + 1)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(MMCQ_HOSTS, &good, &around), MMCQ_E_ARGUMENT);
#define ODD(member, value) (odd = around, odd.member = value, &odd)
    IS(mmcq_open_stm32(0, &good, ODD(kernel_hz, 0)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, &good, ODD(max_hz, 1000)), MMCQ_E_ARGUMENT); /* slower than the slowest clock */
    IS(mmcq_open_stm32(0, &good, ODD(width, 2)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, &good, ODD(fixed, 2)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, &good, ODD(busy_after_data, 2)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_stm32(0, &good, ODD(falling_edge, 2)), MMCQ_E_ARGUMENT);
    odd = around, odd.dma_first = 2, odd.dma_last = 1;
    IS(mmcq_open_stm32(0, &good, &odd), MMCQ_E_ARGUMENT);
    odd.dma_first = 0, odd.dma_last = 1; /* not the bounce buffer */
    IS(mmcq_open_stm32(0, &good, &odd), MMCQ_E_DMA);
    bad = good, bad.map = refuse;
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_DMA);
    bad = good, bad.read = ones;
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_CONTROLLER);
    bad = good, bad.read = zeros; /* no DMA of its own */
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_CONTROLLER);
    EQUALS(mapped, 0);

    /* Memory of the program's own: not one byte more than is needed. */
    bad = good, bad.dma = own, bad.dma_bytes = sizeof own - 1, bad.dma_bus = 0x20000000;
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_E_ARGUMENT);
    bad.dma_bytes = sizeof own, bad.map = refuse;
    IS(mmcq_open_stm32(0, &bad, &around), MMCQ_OK);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(board_violations(board), 0);
}

static void data(void) {
    static const struct { uint32_t max_hz, clock_hz; uint8_t width, lines; } boards[] = {
        {0, 25000000, 0, 4}, {50000000, 50000000, 4, 4}, {20000000, 20000000, 1, 1},
    };
    for (unsigned n = 0; n < sizeof boards / sizeof *boards; n++) {
        void *board = board_open_stm32("sdhc-16g-hs");
        mmcq_platform platform = platform_of(board);
        mmcq_stm32 around = {.kernel_hz = 200000000, .max_hz = boards[n].max_hz, .width = boards[n].width,
                             .busy_after_data = n != 1, .power_up_us = n == 1 ? 200000 : 0, .reset = reset};
        mmcq_card card;
        mmcq_statistics counts;
        resets = 0;
        IS(mmcq_open_stm32(0, &platform, &around), MMCQ_OK);
        IS(mmcq_open_stm32(0, &platform, &around), MMCQ_E_STATE);
        EQUALS(mapped, 0); /* the bounce buffer is mapped when it is used */
        uint64_t from_ns = board_now_ns(board);
        IS(mmcq_bring_up(0, &card), MMCQ_OK);
        EQUALS(board_now_ns(board) - from_ns > 200000000, n == 1);
        EQUALS(card.clock_hz, boards[n].clock_hz);
        EQUALS(card.width, boards[n].lines);
        EQUALS(card.emmc, 0);
        EQUALS(card.pieces, 0);
        EQUALS(card.align, LINE);
        EQUALS(mmcq_card_present(0), 1);
        blocks(5000, (int)n);
        for (int i = 0; i < 4; i++)
            IS(mmcq_write(0, 6000 + 2 * i, 1, memory), MMCQ_OK);
        IS(mmcq_read(0, 5000, 1, memory + 4), MMCQ_E_DMA);
        IS(mmcq_read(0, card.blocks, 1, memory), MMCQ_E_RANGE);
        IS(mmcq_stats(0, &counts), MMCQ_OK);
        EQUALS(counts.busy_polls > 0, n == 1);
        EQUALS(counts.lost_interrupts + counts.faults, 0);
        IS(mmcq_close(0), MMCQ_OK);
        EQUALS(mapped, 0);
        EQUALS(resets > 0, 1);
        EQUALS(board_violations(board), 0);
    }
}

/* Memory in pieces is refused, and the next request is not concerned. */
static void pieces(void) {
    void *board = board_open_stm32("sdhc-16g-hs");
    mmcq_platform platform = platform_of(board);
    mmcq_stm32 around = {.kernel_hz = 200000000, .busy_after_data = 1, .reset = reset};
    platform.piece = piece;
    IS(mmcq_open_stm32(0, &platform, &around), MMCQ_OK);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    IS(mmcq_read(0, 0, 2, memory), MMCQ_E_DMA);
    IS(mmcq_read(0, 0, 1, memory), MMCQ_OK);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(mapped, 0);
    EQUALS(board_violations(board), 0);
}

static void emmc(void) {
    void *board = board_open_stm32("emmc-hs200");
    mmcq_platform platform = platform_of(board);
    mmcq_stm32 around = {.kernel_hz = 200000000, .max_hz = 52000000, .width = 8, .busy_after_data = 1, .reset = reset};
    mmcq_card card;
    platform.flags = MMCQ_EMMC_18;
    IS(mmcq_open_stm32(0, &platform, &around), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    EQUALS(card.emmc, 1);
    EQUALS(card.width, 8);
    EQUALS(card.clock_hz, 52000000);
    blocks(9000, 3);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(mapped, 0);
    EQUALS(board_violations(board), 0);
}

/* A card that is taken out: requests end with errors, and the slot takes the card again. */
static void removed(int with_reset) {
    void *board = board_open_stm32("sdhc-16g-hs");
    mmcq_platform platform = platform_of(board);
    mmcq_stm32 around = {.kernel_hz = 200000000, .max_hz = 50000000, .busy_after_data = 1, .reset = with_reset ? reset : NULL};
    IS(mmcq_open_stm32(0, &platform, &around), MMCQ_OK);
    events = 0;
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    blocks(100, 4);
    board_remove_or_insert(board);
    IS(mmcq_read(0, 100, 1, memory), MMCQ_E_DEAD);
    IS(mmcq_bring_up(0, NULL), MMCQ_E_NO_CARD);
    IS(mmcq_io_bring_up(0, NULL), MMCQ_E_NO_CARD);
    IS(mmcq_read(0, 100, 1, memory), MMCQ_E_NO_CARD);
    EQUALS(mapped, 0);
    board_remove_or_insert(board);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    blocks(100, 5);
    EQUALS(events == 1 && present == 1, 1); /* the controller sees neither removal nor insertion */
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(mapped, 0);
    EQUALS(board_violations(board), 0);
}

int main(void) {
    arguments();
    data();
    pieces();
    emmc();
    removed(1);
    removed(0);
    return wrong;
}
