/* zephyr.c: calls the functions of zephyr_disk.c as Zephyr does. Prints nothing if all is well. */
#include "../examples/c/zephyr_disk.c"
#include "board.h"
#include "expect.h"
#include "wait.h"
#include <stdio.h>
#include <string.h>

static struct disk_info *registered;
int disk_access_register(struct disk_info *info) { registered = info; return 0; }

int main(void) {
    static uint8_t out[8 * 512] __attribute__((aligned(64))), in[8 * 512] __attribute__((aligned(64)));
    void *board = board_open("emmc-hs200");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    uint32_t count = 0, size = 0;
    EQUALS(zephyr_disk_register(), 0);
    const struct disk_operations *ops = registered->ops;
    EQUALS(strcmp(registered->name, "SD"), 0);
    EQUALS(ops->init(registered), -EIO); /* not open */
    EQUALS(ops->status(registered), DISK_STATUS_UNINIT);
    EQUALS(mmcq_open(0, &platform), MMCQ_OK);
    EQUALS(ops->init(registered), 0);
    EQUALS(ops->status(registered), DISK_STATUS_OK);
    EQUALS(ops->ioctl(registered, DISK_IOCTL_GET_SECTOR_COUNT, &count), 0);
    EQUALS(ops->ioctl(registered, DISK_IOCTL_GET_SECTOR_SIZE, &size), 0);
    EQUALS(count, card.blocks);
    EQUALS(size, 512);
    memset(out, 0x77, sizeof out);
    EQUALS(ops->write(registered, out, 64, 8), 0);
    EQUALS(ops->ioctl(registered, DISK_IOCTL_CTRL_SYNC, NULL), 0);
    EQUALS(ops->read(registered, in, 64, 8), 0);
    EQUALS(memcmp(in, out, sizeof in), 0);
    EQUALS(ops->read(registered, in, count, 8), -EINVAL);
    EQUALS(ops->read(registered, in + 1, 64, 1), -EIO);
    EQUALS(ops->ioctl(registered, 99, NULL), -EINVAL);
    EQUALS(ops->ioctl(registered, DISK_IOCTL_CTRL_DEINIT, NULL), 0);
    EQUALS(ops->status(registered), DISK_STATUS_UNINIT);
    EQUALS(ops->init(registered), 0);
    EQUALS(ops->status(registered), DISK_STATUS_OK);
    /* For a card with more blocks than 32 bits can count, the disk has UINT32_MAX sectors. */
    card.blocks = 1ull << 33;
    EQUALS(ops->ioctl(registered, DISK_IOCTL_GET_SECTOR_COUNT, &count), 0);
    EQUALS(count, UINT32_MAX);
    /* After a failed bring-up the disk has no card, also if it had one before. */
    EQUALS(mmcq_close(0), MMCQ_OK);
    EQUALS(ops->init(registered), -EIO);
    EQUALS(ops->status(registered), DISK_STATUS_UNINIT);
    EQUALS(board_violations(board), 0);
    return wrong;
}
