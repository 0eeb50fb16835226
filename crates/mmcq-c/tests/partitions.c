/* partitions.c: the boot areas of an eMMC beside its user data. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mapped.h"
#include "mmcq.h"
#include "wait.h"
#include <string.h>

static uint8_t out[64 * 512], in[64 * 512] __attribute__((aligned(64)));

int main(void) {
    void *board = board_open("emmc-hs200");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = map, .unmap = unmap, .sync = board_sync,
    };
    uint32_t blocks = 0;
    (void)nothing;
    IS(mmcq_partition_blocks(0, MMCQ_BOOT_1, &blocks), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_partition_blocks(0, MMCQ_BOOT_1, &blocks), MMCQ_E_NO_CARD);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    IS(mmcq_partition_blocks(0, MMCQ_BOOT_1, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_partition_blocks(0, 0, &blocks), MMCQ_E_ARGUMENT);
    IS(mmcq_partition_blocks(0, 3, &blocks), MMCQ_E_ARGUMENT); /* RPMB has its own calls */
    IS(mmcq_partition_blocks(0, 8, &blocks), MMCQ_E_ARGUMENT);
    IS(mmcq_partition_blocks(0, MMCQ_GENERAL_4, &blocks), MMCQ_E_UNSUPPORTED);
    IS(mmcq_partition_blocks(0, MMCQ_BOOT_1, &blocks), MMCQ_OK);
    if (blocks < 256)
        wrong = 1, printf("a boot area of %u blocks\n", (unsigned)blocks);

    /* Blocks with the same numbers have their own content in the user area and in each boot
     * area. */
    memset(out, 0x11, sizeof out);
    IS(mmcq_write(0, 8, 64, out), MMCQ_OK);
    memset(out, 0x22, sizeof out);
    IS(mmcq_partition_write(0, MMCQ_BOOT_1, 8, 64, out), MMCQ_OK);
    memset(out, 0x33, sizeof out);
    IS(mmcq_partition_write(0, MMCQ_BOOT_2, 8, 64, out), MMCQ_OK);
    IS(mmcq_flush(0), MMCQ_OK);
    board_brown_out(board);
    IS(mmcq_read(0, 8, 64, in), MMCQ_OK);
    EQUALS(in[0] == 0x11 && !memcmp(in, in + 1, sizeof in - 1), 1);
    IS(mmcq_partition_read(0, MMCQ_BOOT_1, 8, 64, in), MMCQ_OK);
    EQUALS(in[0] == 0x22 && !memcmp(in, in + 1, sizeof in - 1), 1);
    IS(mmcq_partition_read(0, MMCQ_BOOT_2, 8, 64, in), MMCQ_OK);
    EQUALS(!memcmp(in, out, sizeof in), 1);

    IS(mmcq_partition_read(0, MMCQ_BOOT_1, blocks - 1, 2, in), MMCQ_E_RANGE);
    IS(mmcq_partition_read(0, MMCQ_BOOT_1, 0, 0, in), MMCQ_E_ARGUMENT);
    IS(mmcq_partition_read(0, MMCQ_BOOT_1, 0, 1, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_partition_read(0, MMCQ_BOOT_1, 0, 1, in + 1), MMCQ_E_DMA);
    IS(mmcq_close(0), MMCQ_OK);
    /* mmcq_close has also unmapped the descriptor table. */
    if (locked || mapped || board_violations(board))
        wrong = 1, printf("locked %d, mapped %d, broken rules %d\n", locked, mapped, (int)board_violations(board));

    /* An SD card has no partitions. */
    void *other = board_open("sdhc-16g-hs");
    platform.context = other;
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    IS(mmcq_partition_read(0, MMCQ_BOOT_1, 0, 1, in), MMCQ_E_UNSUPPORTED);
    return wrong;
}
