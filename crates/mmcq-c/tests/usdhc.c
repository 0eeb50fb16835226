/* usdhc.c: what NXP's uSDHC is opened with, wrongly and rightly, on registers that only keep what
 * was written. Prints nothing if all is well. */
#include "expect.h"
#include "mmcq.h"

enum { PRESENT = 0x24 / 4, SYSTEM = 0x2c / 4, ABLE = 0x40 / 4 };
static uint32_t words[64];
static uint64_t time_ns;

static void nothing(void *context) { (void)context; }
static uint64_t now_ns(void *context) { (void)context; return time_ns += 1000; }
static uint32_t read(void *context, uint16_t offset, uint8_t bytes) {
    (void)context;
    EQUALS(bytes == 4 && offset % 4 == 0 && offset < 256, 1);
    return words[offset / 4 % 64];
}
static void write(void *context, uint16_t offset, uint8_t bytes, uint32_t value) {
    (void)context;
    EQUALS(bytes == 4 && offset % 4 == 0 && offset < 256, 1);
    /* A software reset has ended when it is read. */
    words[offset / 4 % 64] = offset / 4 == SYSTEM ? value & ~(7u << 24) : value;
}
static uint32_t ones(void *context, uint16_t offset, uint8_t bytes) {
    (void)context, (void)offset, (void)bytes;
    return 0xffffffffu;
}
static int32_t refuse(void *context, void *at, size_t bytes, int32_t to_card, uint64_t *bus) {
    (void)context, (void)at, (void)bytes, (void)to_card, (void)bus;
    return -1;
}
static void unmap(void *context, uint64_t bus, void *at, size_t bytes, int32_t to_card) {
    (void)context, (void)bus, (void)at, (void)bytes, (void)to_card;
}
static void sync(void *context, uint64_t bus, void *at, size_t bytes) {
    (void)context, (void)bus, (void)at, (void)bytes;
}

int main(void) {
    mmcq_platform good = {.read = read, .write = write, .lock = nothing, .unlock = nothing, .now_ns = now_ns}, bad = good;
    mmcq_usdhc around = {.root_hz = 198000000}, odd = around;
    /* The clock is stable; no card. High speed and 3.3 V, no DMA. */
    words[PRESENT] = 8, words[ABLE] = 1u << 21 | 1u << 24;
    bad.quirks = "no-such-quirk";
    IS(mmcq_open_usdhc(0, &bad, &around), MMCQ_E_ARGUMENT);
    bad = good, bad.flags = MMCQ_EMMC_18;
    IS(mmcq_open_usdhc(0, &bad, &around), MMCQ_E_ARGUMENT);
    bad = good, bad.lock = NULL;
    IS(mmcq_open_usdhc(0, &bad, &around), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(0, NULL, &around), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(0, &good, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(0, &good, (const mmcq_usdhc *)((const char *)&around + 1)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(MMCQ_HOSTS, &good, &around), MMCQ_E_ARGUMENT);
#define ODD(member, value) (odd = around, odd.member = value, &odd)
    IS(mmcq_open_usdhc(0, &good, ODD(root_hz, 0)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(0, &good, ODD(width, 3)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(0, &good, ODD(fixed, 2)), MMCQ_E_ARGUMENT);
    IS(mmcq_open_usdhc(0, &good, ODD(reserved[1], 1)), MMCQ_E_ARGUMENT);
    bad = good, bad.read = ones;
    IS(mmcq_open_usdhc(0, &bad, &around), MMCQ_E_CONTROLLER);
    words[ABLE] |= 1u << 20; /* DMA by a list of descriptors */
    bad = good, bad.map = refuse, bad.unmap = unmap, bad.sync = sync;
    IS(mmcq_open_usdhc(0, &bad, &around), MMCQ_E_DMA);
    words[ABLE] &= ~(1u << 20);

    good.quirks = "no-auto-cmd23";
    IS(mmcq_open_usdhc(0, &good, &around), MMCQ_OK);
    IS(mmcq_open_usdhc(0, &good, &around), MMCQ_E_STATE);
    EQUALS(mmcq_card_present(0), 0);
    IS(mmcq_bring_up(0, NULL), MMCQ_E_NO_CARD);
    IS(mmcq_close(0), MMCQ_OK);
    return wrong;
}
