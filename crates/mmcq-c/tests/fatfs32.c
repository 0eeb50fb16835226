/* fatfs32.c: a card with more blocks than FatFs can count if FatFs was built with an LBA_t of 32
 * bits. Prints nothing if all is well. */
#define FF_LBA32
#include "../examples/c/diskio.c"
#include "board.h"
#include "expect.h"
#include "wait.h"
#include <stdio.h>

int main(void) {
    static uint8_t out[2 * 512 + 1], in[512] __attribute__((aligned(64)));
    void *board = board_open("sduc-4t");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    LBA_t count = 0;
    EQUALS(mmcq_open(0, &platform), MMCQ_OK);
    EQUALS(disk_initialize(0), 0);
    EQUALS(card.blocks > UINT32_MAX, 1);
    EQUALS(disk_ioctl(0, GET_SECTOR_COUNT, &count), RES_OK);
    EQUALS(count, UINT32_MAX);
    memset(out, 0x11, sizeof out);
    EQUALS(disk_write(0, out + 1, 0, 1), RES_OK);
    /* Unaligned memory goes block by block. The block after block UINT32_MAX must not become block
     * 0. */
    memset(out, 0x22, sizeof out);
    EQUALS(disk_write(0, out + 1, UINT32_MAX, 2), RES_OK);
    EQUALS(disk_read(0, in, 0, 1), RES_OK);
    EQUALS(in[0], 0x11);
    EQUALS(mmcq_read(0, 1ull << 32, 1, in), MMCQ_OK);
    EQUALS(in[0], 0x22);
    EQUALS(board_violations(board), 0);
    return wrong;
}
