/* layout.c: prints what the C compiler makes of the header, for the test to compare. */
#include "mmcq.h"
#include <stdio.h>
#define FIELD(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))
#define CODE(code) printf(#code " %d\n", code)

int main(void) {
    printf("mmcq_platform %zu\nmmcq_card %zu\n", sizeof(mmcq_platform), sizeof(mmcq_card));
    FIELD(mmcq_platform, context); FIELD(mmcq_platform, base); FIELD(mmcq_platform, read);
    FIELD(mmcq_platform, write); FIELD(mmcq_platform, lock); FIELD(mmcq_platform, unlock);
    FIELD(mmcq_platform, now_ns); FIELD(mmcq_platform, set_alarm); FIELD(mmcq_platform, wait);
    FIELD(mmcq_platform, map); FIELD(mmcq_platform, unmap); FIELD(mmcq_platform, sync);
    FIELD(mmcq_platform, quirks); FIELD(mmcq_platform, flags); FIELD(mmcq_platform, cache_line);
    FIELD(mmcq_card, blocks); FIELD(mmcq_card, clock_hz); FIELD(mmcq_card, transfer_blocks);
    FIELD(mmcq_card, align); FIELD(mmcq_card, cid); FIELD(mmcq_card, csd); FIELD(mmcq_card, emmc);
    FIELD(mmcq_card, width); FIELD(mmcq_card, volatile_cache); FIELD(mmcq_card, reserved);
    printf("mmcq_request %zu\n", sizeof(mmcq_request));
    FIELD(mmcq_request, op); FIELD(mmcq_request, blocks); FIELD(mmcq_request, lba);
    FIELD(mmcq_request, memory); FIELD(mmcq_request, done); FIELD(mmcq_request, context);
    printf("ops %d %d %d %d\n", MMCQ_READ, MMCQ_WRITE, MMCQ_WRITE_DURABLE, MMCQ_FLUSH);
    CODE(MMCQ_OK); CODE(MMCQ_E_ARGUMENT); CODE(MMCQ_E_STATE); CODE(MMCQ_E_CONTROLLER); CODE(MMCQ_E_NO_CARD);
    CODE(MMCQ_E_REMOVED); CODE(MMCQ_E_RANGE); CODE(MMCQ_E_DMA); CODE(MMCQ_E_TIMEOUT); CODE(MMCQ_E_CRC);
    CODE(MMCQ_E_HOST); CODE(MMCQ_E_CARD); CODE(MMCQ_E_FULL); CODE(MMCQ_E_UNSUPPORTED); CODE(MMCQ_E_DEAD);
    CODE(MMCQ_E_READ_ONLY); CODE(MMCQ_E_PROTECTED); CODE(MMCQ_E_CACHE_LOST); CODE(MMCQ_E_CHANGED);
    CODE(MMCQ_E_LOCKED);
    printf("MMCQ_EMMC_18 %u\n", MMCQ_EMMC_18);
    return 0;
}
