/* borders.c: wrong arguments of the functions, and the result of each. Prints nothing if all
 * results are right. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include <stdio.h>
#include <string.h>
#if MMCQ_VERSION < MMCQ_VERSION_OF(0, 1, 0) || MMCQ_VERSION >= MMCQ_VERSION_OF(1, 0, 0)
#error "the version macros do not compare"
#endif

static void nothing(void *context) { (void)context; }
static void sleep_a_bit(void *context, const mmcq_idle *idle) {
    if (!mmcq_may_sleep(idle))
        return;
    if (board_sleep(context, board_now_ns(context) + 100000))
        mmcq_on_irq(1);
}
static uint32_t ones(void *context, uint16_t offset, uint8_t bytes) {
    (void)context, (void)offset;
    return bytes == 4 ? 0xffffffffu : (1u << 8 * bytes) - 1;
}
static void nowhere(void *context, uint16_t offset, uint8_t bytes, uint32_t value) {
    (void)context, (void)offset, (void)bytes, (void)value;
}
static int32_t refuse(void *c, void *m, size_t n, int32_t d, uint64_t *bus) {
    (void)c, (void)m, (void)n, (void)d, (void)bus;
    return -1;
}



int main(void) {
    static uint8_t memory[2 * 512] __attribute__((aligned(64)));
    void *board = board_open("sdhc-16g-hs");
    mmcq_platform good = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = sleep_a_bit, .map = board_map, .unmap = board_unmap, .sync = board_sync,
        .quirks = "no-busy-irq, no-dat0-level",
    }, bad;
    mmcq_card card;

    IS(mmcq_open(2, &good), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, (const mmcq_platform *)((const char *)&good + 1)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, (bad = good, bad.flags = 0xff, &bad)), MMCQ_E_ARGUMENT);
#define WITHOUT(field) (bad = good, bad.field = NULL, &bad)
    IS(mmcq_open(1, WITHOUT(lock)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, WITHOUT(unlock)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, WITHOUT(now_ns)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, WITHOUT(read)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, WITHOUT(write)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, WITHOUT(map)), MMCQ_E_ARGUMENT);
    IS(mmcq_open(1, WITHOUT(sync)), MMCQ_E_ARGUMENT);
    bad = good, bad.read = NULL, bad.write = NULL; /* and no base */
    IS(mmcq_open(1, &bad), MMCQ_E_ARGUMENT);
    bad = good, bad.quirks = "no-busy-irq, no-such-quirk";
    IS(mmcq_open(1, &bad), MMCQ_E_ARGUMENT);
    bad = good, bad.read = ones, bad.write = nowhere;
    IS(mmcq_open(1, &bad), MMCQ_E_CONTROLLER);
    bad = good, bad.map = refuse;
    IS(mmcq_open(1, &bad), MMCQ_E_DMA);

    IS(mmcq_bring_up(1, &card), MMCQ_E_STATE);
    IS(mmcq_read(1, 0, 1, memory), MMCQ_E_STATE);
    IS(mmcq_flush(1), MMCQ_E_STATE);
    mmcq_on_irq(1);
    mmcq_poll(77);
    if (mmcq_next_deadline_ns(9) != UINT64_MAX)
        wrong = 1, puts("a deadline without a controller");

    IS(mmcq_open(1, &good), MMCQ_OK);
    IS(mmcq_open(1, &good), MMCQ_E_STATE);
    IS(mmcq_read(1, 0, 1, memory), MMCQ_E_NO_CARD);
    IS(mmcq_bring_up(1, (mmcq_card *)((char *)&card + 1)), MMCQ_E_ARGUMENT);
    IS(mmcq_bring_up(1, NULL), MMCQ_OK);
    IS(mmcq_bring_up(1, &card), MMCQ_OK);
    IS(mmcq_read(0, 0, 1, memory), MMCQ_E_STATE);
    IS(mmcq_read(2, 0, 1, memory), MMCQ_E_ARGUMENT);
    IS(mmcq_read(1, 0, 1, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_write(1, 0, 1, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_read(1, 0, 0, memory), MMCQ_E_ARGUMENT);
    IS(mmcq_read(1, 0, UINT32_MAX, memory), MMCQ_E_ARGUMENT);
    IS(mmcq_read(1, card.blocks - 1, 2, memory), MMCQ_E_RANGE);
    IS(mmcq_write(1, UINT64_MAX, 1, memory), MMCQ_E_RANGE);
    IS(mmcq_read(1, 0, 1, memory + 1), MMCQ_E_DMA);
    IS(mmcq_read(1, card.blocks - 2, 2, memory), MMCQ_OK);
    if (mmcq_may_sleep(NULL))
        wrong = 1, puts("asleep without a call");
    if (strcmp(mmcq_error_name(12345), "unknown code"))
        wrong = 1, puts("a name for nothing");
    return wrong;
}
