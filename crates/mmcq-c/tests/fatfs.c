/* fatfs.c: calls the functions of diskio.c as FatFs does, also with memory of any alignment. Prints
 * nothing if all is well. */
#include "../examples/c/diskio.c"
#include "board.h"
#include "expect.h"
#include "wait.h"
#include <stdio.h>

int main(void) {
    static uint8_t out[9 * 512 + 1], in[9 * 512 + 1];
    void *board = board_open("sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    LBA_t count = 0, range[2] = {16384, 24575};
    WORD size = 0;
    EQUALS(disk_initialize(0), STA_NOINIT); /* not open */
    EQUALS(disk_read(0, in, 0, 1), RES_NOTRDY);
    EQUALS(mmcq_open(0, &platform), MMCQ_OK);
    EQUALS(disk_initialize(1), STA_NOINIT);
    EQUALS(disk_initialize(0), 0);
    EQUALS(disk_status(0), 0);
    EQUALS(disk_ioctl(0, GET_SECTOR_COUNT, &count), RES_OK);
    EQUALS(disk_ioctl(0, GET_SECTOR_SIZE, &size), RES_OK);
    EQUALS(count, card.blocks);
    EQUALS(size, 512);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (uint8_t)(i * 31 + i / 512);
    for (int odd = 0; odd < 2; odd++) {
        memset(in, 0, sizeof in);
        EQUALS(disk_write(0, out + odd, 100, 9), RES_OK);
        EQUALS(disk_ioctl(0, CTRL_SYNC, NULL), RES_OK);
        EQUALS(disk_read(0, in + odd, 100, 9), RES_OK);
        EQUALS(memcmp(in + odd, out + odd, 9 * 512), 0);
    }
    EQUALS(disk_ioctl(0, CTRL_TRIM, range), RES_OK);
    EQUALS(disk_read(0, in, count, 1), RES_PARERR);
    EQUALS(disk_read(0, in, 0, 0), RES_PARERR);
    board_remove_or_insert(board);
    EQUALS(disk_read(0, in, 100, 1), RES_NOTRDY);
    EQUALS(disk_status(0), STA_NOINIT | STA_NODISK);
    EQUALS(disk_initialize(0), STA_NOINIT | STA_NODISK);
    board_remove_or_insert(board);
    /* The library waits 50 ms until the card's contacts do not bounce any more. */
    for (uint64_t end_ns = board_now_ns(board) + 100000000; board_now_ns(board) < end_ns;) {
        if (board_sleep(board, board_now_ns(board) + 1000000))
            mmcq_on_irq(0);
        mmcq_poll(0);
    }
    EQUALS(disk_initialize(0), 0);
    EQUALS(disk_read(0, in, 100, 9), RES_OK);
    EQUALS(memcmp(in, out + 1, 9 * 512), 0);
    EQUALS(board_violations(board), 0);
    return wrong;
}
