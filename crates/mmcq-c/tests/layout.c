/* layout.c: prints sizes, offsets and constants of the header as the C compiler has them, for the
 * test to compare. */
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
    FIELD(mmcq_platform, card_event); FIELD(mmcq_platform, patience_ms);
    FIELD(mmcq_platform, piece); FIELD(mmcq_platform, dma); FIELD(mmcq_platform, dma_bus); FIELD(mmcq_platform, dma_bytes);
    FIELD(mmcq_card, blocks); FIELD(mmcq_card, clock_hz); FIELD(mmcq_card, transfer_blocks);
    FIELD(mmcq_card, align); FIELD(mmcq_card, cid); FIELD(mmcq_card, csd); FIELD(mmcq_card, emmc);
    FIELD(mmcq_card, width); FIELD(mmcq_card, volatile_cache); FIELD(mmcq_card, pieces);
    FIELD(mmcq_card, discard_blocks); FIELD(mmcq_card, zeroes); FIELD(mmcq_card, read_only);
    FIELD(mmcq_card, secure_erase); FIELD(mmcq_card, reserved);
    printf("mmcq_request %zu\n", sizeof(mmcq_request));
    FIELD(mmcq_request, op); FIELD(mmcq_request, blocks); FIELD(mmcq_request, lba);
    FIELD(mmcq_request, memory); FIELD(mmcq_request, done); FIELD(mmcq_request, context);
    printf("ops %d %d %d %d %d %d %d\n", MMCQ_READ, MMCQ_WRITE, MMCQ_WRITE_DURABLE, MMCQ_FLUSH, MMCQ_DISCARD, MMCQ_ZEROES,
           MMCQ_SECURE_ERASE);
    printf("mmcq_statistics %zu\n", sizeof(mmcq_statistics));
    FIELD(mmcq_statistics, requests); FIELD(mmcq_statistics, transfers); FIELD(mmcq_statistics, merged);
    FIELD(mmcq_statistics, commands); FIELD(mmcq_statistics, interrupts); FIELD(mmcq_statistics, spurious);
    FIELD(mmcq_statistics, lost_interrupts); FIELD(mmcq_statistics, faults); FIELD(mmcq_statistics, busy_polls);
    FIELD(mmcq_statistics, status_asked); FIELD(mmcq_statistics, durable_flushes); FIELD(mmcq_statistics, cache_lost);
    FIELD(mmcq_statistics, erase_pieces); FIELD(mmcq_statistics, recovery_steps);
    printf("mmcq_rpmb %zu\nmmcq_io_card %zu\n", sizeof(mmcq_rpmb), sizeof(mmcq_io_card));
    printf("mmcq_registers %zu\n", sizeof(mmcq_registers));
    FIELD(mmcq_registers, ocr); FIELD(mmcq_registers, scr); FIELD(mmcq_registers, ssr); FIELD(mmcq_registers, ext_csd);
    printf("mmcq_step %zu\n", sizeof(mmcq_step));
    FIELD(mmcq_step, at_ns); FIELD(mmcq_step, status); FIELD(mmcq_step, step);
    printf("mmcq_rpmb_frames %zu\n", sizeof(mmcq_rpmb_frames));
    FIELD(mmcq_rpmb_frames, out); FIELD(mmcq_rpmb_frames, back); FIELD(mmcq_rpmb_frames, reliable); FIELD(mmcq_rpmb_frames, ask);
    FIELD(mmcq_rpmb, key); FIELD(mmcq_rpmb, nonces); FIELD(mmcq_rpmb, memory); FIELD(mmcq_rpmb, memory_bytes);
    FIELD(mmcq_io_card, blocks); FIELD(mmcq_io_card, clock_hz); FIELD(mmcq_io_card, vendor);
    FIELD(mmcq_io_card, product); FIELD(mmcq_io_card, max_block_bytes); FIELD(mmcq_io_card, interface_code);
    FIELD(mmcq_io_card, functions); FIELD(mmcq_io_card, width);
    printf("mmcq_io_request %zu\n", sizeof(mmcq_io_request));
    FIELD(mmcq_io_request, function); FIELD(mmcq_io_request, op); FIELD(mmcq_io_request, address);
    FIELD(mmcq_io_request, how); FIELD(mmcq_io_request, bytes); FIELD(mmcq_io_request, memory);
    FIELD(mmcq_io_request, done); FIELD(mmcq_io_request, context);
    printf("partitions %d %d %d %d\n", MMCQ_BOOT_1, MMCQ_BOOT_2, MMCQ_GENERAL_1, MMCQ_GENERAL_4);
    printf("io %d %d, for ever %u\n", MMCQ_IO_FIFO, MMCQ_IO_INCREMENT, MMCQ_RPMB_FOR_EVER);
    CODE(MMCQ_OK); CODE(MMCQ_E_ARGUMENT); CODE(MMCQ_E_STATE); CODE(MMCQ_E_CONTROLLER); CODE(MMCQ_E_NO_CARD);
    CODE(MMCQ_E_REMOVED); CODE(MMCQ_E_RANGE); CODE(MMCQ_E_DMA); CODE(MMCQ_E_TIMEOUT); CODE(MMCQ_E_CRC);
    CODE(MMCQ_E_HOST); CODE(MMCQ_E_CARD); CODE(MMCQ_E_FULL); CODE(MMCQ_E_UNSUPPORTED); CODE(MMCQ_E_DEAD);
    CODE(MMCQ_E_READ_ONLY); CODE(MMCQ_E_PROTECTED); CODE(MMCQ_E_CACHE_LOST); CODE(MMCQ_E_CHANGED);
    CODE(MMCQ_E_LOCKED); CODE(MMCQ_E_NO_KEY); CODE(MMCQ_E_FORGED); CODE(MMCQ_E_AMBIGUOUS);
    CODE(MMCQ_E_MEMORY);
    printf("mmcq_usdhc %zu\n", sizeof(mmcq_usdhc));
    FIELD(mmcq_usdhc, root_hz); FIELD(mmcq_usdhc, max_hz); FIELD(mmcq_usdhc, width); FIELD(mmcq_usdhc, fixed);
    FIELD(mmcq_usdhc, reserved);
    printf("mmcq_stm32 %zu\n", sizeof(mmcq_stm32));
    FIELD(mmcq_stm32, kernel_hz); FIELD(mmcq_stm32, max_hz); FIELD(mmcq_stm32, dma_first); FIELD(mmcq_stm32, dma_last);
    FIELD(mmcq_stm32, power_up_us); FIELD(mmcq_stm32, width); FIELD(mmcq_stm32, fixed);
    FIELD(mmcq_stm32, busy_after_data); FIELD(mmcq_stm32, falling_edge); FIELD(mmcq_stm32, reset);
    printf("MMCQ_EMMC_18 %u\n", MMCQ_EMMC_18);
    printf("MMCQ_QUICK_MAP %u\n", MMCQ_QUICK_MAP);
    return 0;
}
