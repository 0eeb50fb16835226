/* diskio.c: drive 0 of FatFs (elm-chan.org) on controller 0. Open the controller before: see
 * card.c. ff.h and diskio.h are FatFs's headers.
 * FatFs's buffers are byte arrays of any alignment; the controller needs the alignment
 * mmcq_card.align. If a buffer has a smaller alignment, its data are copied through a block on the
 * call stack of the calling thread (640 bytes). The block is not static, because several threads
 * may use volumes of one drive. */
#include "ff.h"
/* After ff.h. */
#include "diskio.h"
#include "mmcq.h"
#include <string.h>

static mmcq_card card;
static DSTATUS status = STA_NOINIT;
#define A_BLOCK(name) uint8_t name[512] __attribute__((aligned(128)))

DSTATUS disk_initialize(BYTE drive) {
    if (drive != 0)
        return STA_NOINIT;
    int32_t code = mmcq_bring_up(0, &card);
    status = code == MMCQ_OK ? 0 : code == MMCQ_E_NO_CARD ? STA_NOINIT | STA_NODISK : STA_NOINIT;
    return status;
}

DSTATUS disk_status(BYTE drive) { return drive == 0 ? status : STA_NOINIT; }

static DRESULT result(int32_t code) {
    switch (code) {
    case MMCQ_OK: return RES_OK;
    case MMCQ_E_ARGUMENT:
    case MMCQ_E_RANGE: return RES_PARERR;
    case MMCQ_E_PROTECTED:
    case MMCQ_E_READ_ONLY: return RES_WRPRT;
    case MMCQ_E_REMOVED:
    case MMCQ_E_CHANGED:
    case MMCQ_E_NO_CARD: status = STA_NOINIT | STA_NODISK; return RES_NOTRDY;
    default: return RES_ERROR;
    }
}

static int fits(const BYTE *memory) { return card.align == 0 || (uintptr_t)memory % card.align == 0; }

DRESULT disk_read(BYTE drive, BYTE *memory, LBA_t sector, UINT count) {
    if (drive != 0 || count == 0)
        return RES_PARERR;
    if (status & STA_NOINIT)
        return RES_NOTRDY;
    if (fits(memory))
        return result(mmcq_read(0, sector, count, memory));
    A_BLOCK(block);
    for (UINT i = 0; i < count; i++) {
        int32_t code = mmcq_read(0, (uint64_t)sector + i, 1, block);
        if (code != MMCQ_OK)
            return result(code);
        memcpy(memory + 512u * i, block, 512);
    }
    return RES_OK;
}

DRESULT disk_write(BYTE drive, const BYTE *memory, LBA_t sector, UINT count) {
    if (drive != 0 || count == 0)
        return RES_PARERR;
    if (status & STA_NOINIT)
        return RES_NOTRDY;
    if (fits(memory))
        return result(mmcq_write(0, sector, count, memory));
    A_BLOCK(block);
    for (UINT i = 0; i < count; i++) {
        memcpy(block, memory + 512u * i, 512);
        int32_t code = mmcq_write(0, (uint64_t)sector + i, 1, block);
        if (code != MMCQ_OK)
            return result(code);
    }
    return RES_OK;
}

DRESULT disk_ioctl(BYTE drive, BYTE command, void *memory) {
    if (drive != 0)
        return RES_PARERR;
    if (status & STA_NOINIT)
        return RES_NOTRDY;
    switch (command) {
    case CTRL_SYNC: return result(mmcq_flush(0));
    case GET_SECTOR_COUNT: /* at most as many as LBA_t can count */
        *(LBA_t *)memory = card.blocks > (LBA_t)-1 ? (LBA_t)-1 : (LBA_t)card.blocks;
        return RES_OK;
    case GET_SECTOR_SIZE: *(WORD *)memory = 512; return RES_OK;
    case GET_BLOCK_SIZE: *(DWORD *)memory = 8192; return RES_OK; /* 4 MiB: an allocation unit of most SD cards */
    case CTRL_TRIM: {
        const LBA_t *range = memory; /* first and last sector */
        if (range[1] < range[0])
            return RES_PARERR;
        uint64_t blocks = (uint64_t)range[1] - range[0] + 1;
        int32_t code = mmcq_discard(0, range[0], blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks);
        return code == MMCQ_E_UNSUPPORTED ? RES_OK : result(code);
    }
    default: return RES_PARERR;
    }
}
