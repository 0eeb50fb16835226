/* diskio.h: FatFs's interface to a disk, written from FatFs's documentation, so that the tests can
 * compile diskio.c. */
#ifndef DISKIO_DEFINED
#define DISKIO_DEFINED
typedef BYTE DSTATUS;
typedef enum { RES_OK = 0, RES_ERROR, RES_WRPRT, RES_NOTRDY, RES_PARERR } DRESULT;
DSTATUS disk_initialize(BYTE drive);
DSTATUS disk_status(BYTE drive);
DRESULT disk_read(BYTE drive, BYTE *memory, LBA_t sector, UINT count);
DRESULT disk_write(BYTE drive, const BYTE *memory, LBA_t sector, UINT count);
DRESULT disk_ioctl(BYTE drive, BYTE command, void *memory);
#define STA_NOINIT 0x01
#define STA_NODISK 0x02
#define STA_PROTECT 0x04
#define CTRL_SYNC 0
#define GET_SECTOR_COUNT 1
#define GET_SECTOR_SIZE 2
#define GET_BLOCK_SIZE 3
#define CTRL_TRIM 4
#endif
