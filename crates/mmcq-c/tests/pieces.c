/* pieces.c: requests whose memory is in pieces, with descriptors in memory of the program's own. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include <string.h>

/* Requests whose `memory` is a number instead of an address. The memory consists of pieces of one,
 * two, three... blocks, which do not lie in the order of the request. */
enum { REQUESTS = 4, BLOCKS = 90, NUMBERS = 0x70000000, NUMBER_BYTES = 1 << 20 };
typedef struct {
    mmcq_request request;
    uint8_t memory[2 * BLOCKS * 512] __attribute__((aligned(64)));
    uint32_t skip, count, begins[BLOCKS], bytes[BLOCKS]; /* offset of each piece in `memory` */
    uint64_t bus;                                        /* bus address of `memory` */
    int wrong_after;                                     /* blocks that `piece` knows; 0: all */
    int32_t code;
} scattered;
static scattered all[REQUESTS];
static uint8_t own[MMCQ_DMA_BYTES + MMCQ_DMA_ALIGN] __attribute__((aligned(MMCQ_DMA_ALIGN)));
static int locked, ended, asked, other_maps;
static uint64_t alarm_ns = UINT64_MAX;

static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }
static void set_alarm(void *context, uint64_t at_ns) { (void)context; alarm_ns = at_ns; }
static scattered *numbered(uint64_t number) {
    uint64_t index = (number - NUMBERS) / NUMBER_BYTES;
    return number >= NUMBERS && index < REQUESTS ? &all[index] : NULL;
}
static int32_t map(void *board, void *memory, size_t bytes, int32_t to_card, uint64_t *bus) {
    scattered *its = numbered((uintptr_t)memory);
    if (!its) {
        other_maps++;
        return board_map(board, memory, bytes, to_card, bus);
    }
    *bus = (uintptr_t)memory;
    return board_map(board, its->memory, sizeof its->memory, to_card, &its->bus);
}
static void unmap(void *board, uint64_t bus, void *memory, size_t bytes, int32_t to_card) {
    scattered *its = numbered((uintptr_t)memory);
    if (its)
        board_unmap(board, its->bus, its->memory, sizeof its->memory, to_card);
    else
        board_unmap(board, bus, memory, bytes, to_card);
}
static uint32_t piece(void *board, uint64_t bus, uint32_t bytes, uint64_t *real) {
    scattered *its = numbered(bus);
    uint32_t at = (uint32_t)((bus - NUMBERS) % NUMBER_BYTES);
    (void)board;
    if (!its)
        return bytes;
    asked++;
    if (its->wrong_after && at >= (uint32_t)its->wrong_after * 512)
        return 0;
    for (uint32_t i = 0; i < its->count; at -= its->bytes[i++])
        if (at < its->bytes[i]) {
            *real = its->bus + its->begins[i] + at;
            return bytes < its->bytes[i] - at ? bytes : its->bytes[i] - at;
        }
    return 0;
}
static void step(void *board) {
    uint64_t soon_ns = board_now_ns(board) + 1000000;
    if (board_sleep(board, alarm_ns < soon_ns ? alarm_ns : soon_ns))
        EQUALS(mmcq_on_irq(0), 1);
    else if (board_now_ns(board) >= alarm_ns)
        mmcq_poll(0);
}
static void wait_for_it(void *board, const mmcq_idle *idle) { (void)idle; step(board); }
static void done(mmcq_request *request, int32_t code) {
    ((scattered *)request)->code = code;
    ended++;
}

/* Divides the `blocks` blocks of a request into pieces of at most `most` blocks. The first piece
 * has the highest address, and every second piece is followed by a gap of one block. */
static void scatter(scattered *its, uint32_t blocks, uint32_t most) {
    uint32_t end = sizeof its->memory;
    its->count = 0;
    for (uint32_t left = blocks; left != 0; its->count++) {
        uint32_t here = its->count % most + 1 < left ? its->count % most + 1 : left;
        end -= (here + (its->count % 2)) * 512;
        its->begins[its->count] = end;
        its->bytes[its->count] = here * 512;
        left -= here;
    }
}
/* Returns the address of byte `at` of a request. */
static uint8_t *byte(scattered *its, uint32_t at) {
    uint32_t i = 0;
    for (; at >= its->bytes[i]; i++)
        at -= its->bytes[i];
    return its->memory + its->begins[i] + at;
}
static uint8_t expected(uint32_t n, uint32_t at) { return (uint8_t)(at * 7 + at / 512 * 13 + n * 31 + 5); }

/* Submits all requests before the first has ended. They are contiguous, so the library may merge
 * them. */
static void go(void *board, uint32_t op, uint32_t blocks, int32_t code) {
    ended = 0;
    for (uint32_t n = 0; n < REQUESTS; n++) {
        all[n].request = (mmcq_request) {
            .op = op, .blocks = blocks, .lba = 1000 + n * blocks, .memory = (uint8_t *)(uintptr_t)(NUMBERS + n * NUMBER_BYTES), .done = done,
        };
        all[n].code = 1;
        IS(mmcq_submit(0, &all[n].request), MMCQ_OK);
    }
    while (ended < REQUESTS && board_now_ns(board) < UINT64_MAX / 2)
        step(board);
    for (uint32_t n = 0; n < REQUESTS; n++)
        IS(all[n].code, code);
}

int main(int argc, char **argv) {
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    mmcq_platform p = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock, .now_ns = board_now_ns, .set_alarm = set_alarm,
        .wait = wait_for_it, .map = map, .unmap = unmap, .sync = board_sync, .piece = piece, .dma = own, .dma_bytes = MMCQ_DMA_BYTES,
        .dma_bus = board_coherent(board, own, sizeof own),
    };
    mmcq_platform bad = p;
    mmcq_card card;
    mmcq_statistics before, after;
    /* mmcq_open refuses memory `dma` that is too small or not aligned, and `piece` without
     * `map`. */
    bad.dma_bytes--;
    IS(mmcq_open(0, &bad), MMCQ_E_ARGUMENT);
    bad = p, bad.dma = own + MMCQ_DMA_ALIGN / 2;
    IS(mmcq_open(0, &bad), MMCQ_E_ARGUMENT);
    bad = p, bad.dma_bus += MMCQ_DMA_ALIGN / 2;
    IS(mmcq_open(0, &bad), MMCQ_E_ARGUMENT);
    bad = p, bad.map = NULL, bad.unmap = NULL, bad.sync = NULL;
    IS(mmcq_open(0, &bad), MMCQ_E_ARGUMENT);
    IS(mmcq_stats(0, &before), MMCQ_E_STATE);
    EQUALS(mmcq_on_irq(0), 0);

    IS(mmcq_open(0, &p), MMCQ_OK);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    EQUALS(card.pieces, 1);
    IS(mmcq_stats(0, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_stats(0, &before), MMCQ_OK);
    uint64_t faults = before.faults;

    for (uint32_t most = 1; most <= 4; most++)
        for (uint32_t blocks = 1; blocks <= 41; blocks += 8) {
            for (uint32_t n = 0; n < REQUESTS; n++) {
                scatter(&all[n], blocks, most);
                for (uint32_t at = 0; at < blocks * 512; at++)
                    *byte(&all[n], at) = expected(n, at);
            }
            IS(mmcq_stats(0, &before), MMCQ_OK);
            go(board, MMCQ_WRITE, blocks, MMCQ_OK);
            IS(mmcq_stats(0, &after), MMCQ_OK);
            EQUALS(after.requests - before.requests, REQUESTS);
            /* The first request goes alone, and some of the others are merged. */
            EQUALS(after.transfers - before.transfers < REQUESTS, 1);
            /* The data are read back into other pieces. */
            for (uint32_t n = 0; n < REQUESTS; n++) {
                memset(all[n].memory, 0xee, sizeof all[n].memory);
                scatter(&all[n], blocks, 5 - most);
            }
            go(board, MMCQ_READ, blocks, MMCQ_OK);
            for (uint32_t n = 0; n < REQUESTS && !wrong; n++)
                for (uint32_t at = 0; at < blocks * 512; at++)
                    if (*byte(&all[n], at) != expected(n, at)) {
                        printf("pieces of %u, %u blocks: byte %u of request %u\n", most, blocks, at, n);
                        wrong = 1;
                        break;
                    }
        }
    EQUALS(asked > 0, 1);

    /* `piece` does not know the second half of a request: this request fails, and later ones
     * work. */
    all[2].wrong_after = 10;
    ended = 0, all[2].code = 1;
    all[2].request = (mmcq_request) {
        .op = MMCQ_READ, .blocks = 20, .lba = 1000, .memory = (uint8_t *)(uintptr_t)(NUMBERS + 2 * NUMBER_BYTES), .done = done,
    };
    scatter(&all[2], 20, 1);
    IS(mmcq_submit(0, &all[2].request), MMCQ_OK);
    while (!ended)
        step(board);
    IS(all[2].code, MMCQ_E_UNSUPPORTED);
    all[2].wrong_after = 0;
    go(board, MMCQ_READ, 20, MMCQ_OK);

    /* An interrupt of another device on the same line. */
    EQUALS(mmcq_on_irq(0), 0);
    IS(mmcq_stats(0, &after), MMCQ_OK);
    EQUALS(after.spurious > 0 && after.interrupts > 0, 1);
    EQUALS(after.faults - faults, 0);
    /* The memory `dma` was used for descriptors and registers, so nothing else was mapped. */
    EQUALS(other_maps, 0);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(locked, 0);
    EQUALS(board_violations(board), 0);
    return wrong;
}
