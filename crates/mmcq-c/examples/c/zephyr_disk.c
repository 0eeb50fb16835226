/* zephyr_disk.c: controller 0 as a disk of Zephyr with the name "SD". Open the controller before:
 * see card.c. The address of a caller's memory must be a multiple of mmcq_card.align; otherwise a
 * read or write returns -EIO. */
#include "mmcq.h"
#include <errno.h>
#include <zephyr/drivers/disk.h>

static mmcq_card card;

static int result(int32_t code) {
    switch (code) {
    case MMCQ_OK: return 0;
    case MMCQ_E_ARGUMENT:
    case MMCQ_E_RANGE: return -EINVAL;
    case MMCQ_E_UNSUPPORTED: return -ENOTSUP;
    case MMCQ_E_PROTECTED:
    case MMCQ_E_READ_ONLY: return -EROFS;
    case MMCQ_E_NO_CARD:
    case MMCQ_E_REMOVED:
    case MMCQ_E_CHANGED: card.blocks = 0; return -ENODEV;
    case MMCQ_E_TIMEOUT: return -ETIMEDOUT;
    default: return -EIO;
    }
}

static int disk_init(struct disk_info *disk) {
    (void)disk;
    card.blocks = 0;
    return result(mmcq_bring_up(0, &card));
}

static int disk_status(struct disk_info *disk) {
    (void)disk;
    return card.blocks == 0 ? DISK_STATUS_UNINIT : DISK_STATUS_OK;
}

static int disk_read(struct disk_info *disk, uint8_t *memory, uint32_t sector, uint32_t count) {
    (void)disk;
    return result(mmcq_read(0, sector, count, memory));
}

static int disk_write(struct disk_info *disk, const uint8_t *memory, uint32_t sector, uint32_t count) {
    (void)disk;
    return result(mmcq_write(0, sector, count, memory));
}

static int disk_ioctl(struct disk_info *disk, uint8_t command, void *memory) {
    switch (command) {
    case DISK_IOCTL_CTRL_INIT: return disk_init(disk);
    case DISK_IOCTL_CTRL_SYNC: return result(mmcq_flush(0));
    case DISK_IOCTL_CTRL_DEINIT: card.blocks = 0; return result(mmcq_flush(0));
    case DISK_IOCTL_GET_SECTOR_COUNT: /* at most as many as 32 bits can count */
        *(uint32_t *)memory = card.blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)card.blocks;
        return 0;
    case DISK_IOCTL_GET_SECTOR_SIZE: *(uint32_t *)memory = 512; return 0;
    case DISK_IOCTL_GET_ERASE_BLOCK_SZ: *(uint32_t *)memory = 8192; return 0; /* 4 MiB: an allocation unit */
    default: return -EINVAL;
    }
}

static const struct disk_operations operations = {
    .init = disk_init, .status = disk_status, .read = disk_read, .write = disk_write, .ioctl = disk_ioctl,
};

static struct disk_info disk = {.name = "SD", .ops = &operations};

/* Registers the disk; call it from SYS_INIT, for example. */
int zephyr_disk_register(void) { return disk_access_register(&disk); }
