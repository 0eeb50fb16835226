/* disk.h: what zephyr_disk.c needs of Zephyr's header, written from Zephyr's documentation, so that
 * the tests can compile zephyr_disk.c. */
#ifndef ZEPHYR_DISK_H
#define ZEPHYR_DISK_H
#include <stdint.h>
#define DISK_IOCTL_GET_SECTOR_COUNT 1
#define DISK_IOCTL_GET_SECTOR_SIZE 2
#define DISK_IOCTL_GET_ERASE_BLOCK_SZ 4
#define DISK_IOCTL_CTRL_SYNC 5
#define DISK_IOCTL_CTRL_INIT 6
#define DISK_IOCTL_CTRL_DEINIT 7
#define DISK_STATUS_OK 0x00
#define DISK_STATUS_UNINIT 0x01
struct disk_operations;
struct disk_info {
    const char *name;
    const struct disk_operations *ops;
};
struct disk_operations {
    int (*init)(struct disk_info *disk);
    int (*status)(struct disk_info *disk);
    int (*read)(struct disk_info *disk, uint8_t *memory, uint32_t sector, uint32_t count);
    int (*write)(struct disk_info *disk, const uint8_t *memory, uint32_t sector, uint32_t count);
    int (*ioctl)(struct disk_info *disk, uint8_t command, void *memory);
};
int disk_access_register(struct disk_info *disk);
#endif
