/* mapping.c: calls of `map`, `unmap` and `sync`: how many bytes they get with the lock held or in
 * the interrupt, a `map` without room, and a cache of which whole lines are invalidated. Prints
 * nothing if all is well. */
#include "board.h"
#include "mmcq.h"
#include <stdio.h>
#include <string.h>

#define LINE 64
static uint8_t memory[LINE + 64 * 512 + LINE] __attribute__((aligned(128)));
static int locked, in_irq, refusals, maps, unmaps, wrong;
static size_t biggest_locked;

static void lock(void *c) { (void)c, locked++; }
static void unlock(void *c) { (void)c, locked--; }
static void seen(size_t bytes) {
    if ((locked || in_irq) && bytes > biggest_locked)
        biggest_locked = bytes;
}
static int32_t map(void *c, void *at, size_t bytes, int32_t to_card, uint64_t *bus) {
    seen(bytes);
    maps++;
    if (refusals && bytes > 512) {
        refusals--;
        return MMCQ_E_FULL;
    }
    return board_map(c, at, bytes, to_card, bus);
}
/* The whole cache lines at both ends of memory from the card lose what the CPU has written to
 * them. */
static void unmap(void *c, uint64_t bus, void *at, size_t bytes, int32_t to_card) {
    uint8_t *from = at, *to = from + bytes;
    seen(bytes);
    unmaps++;
    board_unmap(c, bus, at, bytes, to_card);
    if (to_card || from < memory || to > memory + sizeof memory)
        return;
    for (uint8_t *p = memory + (from - memory) / LINE * LINE; p < from; p++)
        *p = 0xdb;
    for (; (to - memory) % LINE; to++)
        *to = 0xdb;
}
static void sync(void *c, uint64_t bus, void *at, size_t bytes) { seen(bytes), board_sync(c, bus, at, bytes); }
static void wait_for_it(void *c, const mmcq_idle *idle) {
    (void)idle;
    uint64_t soon = board_now_ns(c) + 1000000, next = mmcq_next_deadline_ns(0);
    if (board_sleep(c, next < soon ? next : soon)) {
        in_irq = 1;
        mmcq_on_irq(0);
        in_irq = 0;
    }
}
#define IS(what, value)                                                                                       \
    do {                                                                                                      \
        long long got = (what);                                                                               \
        if (got != (value)) {                                                                                 \
            printf("%s: %lld instead of %lld\n", #what, got, (long long)(value));                             \
            wrong = 1;                                                                                        \
        }                                                                                                     \
    } while (0)

int main(void) {
    uint8_t *blocks = memory + LINE;
    void *board = board_open("sdhc-16g-hs");
    mmcq_platform p = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock, .now_ns = board_now_ns,
        .wait = wait_for_it, .map = map, .unmap = unmap, .sync = sync, .cache_line = 48,
    };
    mmcq_card card;
    IS(mmcq_open(0, &p), MMCQ_E_ARGUMENT);
    p.cache_line = 256;
    IS(mmcq_open(0, &p), MMCQ_E_ARGUMENT);
    p.cache_line = LINE;
    IS(mmcq_open(0, &p), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    IS(card.align, LINE);
    biggest_locked = 0;
    memset(blocks, 0x77, 64 * 512);
    IS(mmcq_write(0, 0, 64, blocks), MMCQ_OK);
    memset(memory, 0x11, sizeof memory);
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_OK);
    IS(blocks[0] == 0x77 && blocks[64 * 512 - 1] == 0x77, 1);
    /* The bytes before and after the memory of the read are unchanged. */
    IS(memory[0] == 0x11 && memory[LINE - 1] == 0x11 && memory[LINE + 64 * 512] == 0x11, 1);
    IS(mmcq_read(0, 0, 1, blocks + 4), MMCQ_E_DMA);
    IS(memory[LINE + 3] == 0x77, 1);
    IS(mmcq_write(0, 0, 1, blocks + 4), MMCQ_OK);
    /* With the lock held or in the interrupt, only descriptors and registers are mapped. */
    IS(biggest_locked <= 2048, 1);
    /* A call waits if `map` has no room now. If `map` never has room, the call ends with an
     * error. */
    refusals = 5, maps = 0;
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_OK);
    IS(refusals == 0 && maps >= 6, 1);
    refusals = 1 << 30;
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_E_FULL);
    refusals = 0;
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_OK);
    /* Where mapping is quick, the memory of a request is mapped with the lock held. */
    IS(mmcq_close(0), MMCQ_OK);
    p.flags = MMCQ_QUICK_MAP;
    IS(mmcq_open(0, &p), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    biggest_locked = 0, maps = unmaps = 0;
    memset(blocks, 0x99, 64 * 512);
    IS(mmcq_write(0, 0, 64, blocks), MMCQ_OK);
    memset(memory, 0x11, sizeof memory);
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_OK);
    IS(blocks[0] == 0x99 && blocks[64 * 512 - 1] == 0x99 && memory[LINE - 1] == 0x11, 1);
    IS(biggest_locked, 64 * 512);
    IS(maps, unmaps);
    IS(mmcq_read(0, 0, 1, blocks + 4), MMCQ_E_DMA);
    refusals = 1;
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_OK);
    refusals = 1 << 30;
    IS(mmcq_read(0, 0, 64, blocks), MMCQ_E_FULL);
    IS(locked, 0);
    IS(board_violations(board), 0);
    return wrong;
}
