/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* host.h: one controller and its disk, as the parts of mmcq.ko see them. */
#ifndef MMCQ_KO_HOST_H
#define MMCQ_KO_HOST_H

#include <linux/blk-mq.h>
#include <linux/dma-mapping.h>
#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/workqueue.h>

#include "mmcq.h"

/* Pieces of one request. With 64 KiB each at most, 512 KiB are two descriptors a piece in the worst case. */
#define SEGMENTS 128
#define REQUEST_BYTES (512u << 10)

/* What a request's memory is called: a number that means its tag and an offset. No memory of the library's lies there. */
#define NUMBERS 0x40000000u
#define NUMBER_BYTES (1u << 21)

struct piece {
	dma_addr_t bus;
	u32 bytes;
};

/* A request of the block layer, behind its struct request. */
struct command {
	struct mmcq_request request;
	struct host *host;
	blk_status_t status;
	/* That sent it. */
	int cpu;
	/* Pieces, and entries of the list that they came from; 0 entries: one page range. */
	u16 count, entries;
	/* The piece that was asked for last, and the bytes before it. */
	u16 at;
	u32 before;
	struct piece pieces[SEGMENTS];
	struct scatterlist list[SEGMENTS];
};

/* A disk lives as long as its card, and as long as it is open somewhere. */
struct disk {
	struct host *host;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct command *commands[MMCQ_SLOTS];
	struct mmcq_card card;
	/* Another card is in the slot, or none: nothing reaches it by this disk. */
	bool refuses;
};

struct host {
	u32 number;
	struct pci_dev *pci;
	void __iomem *registers;
	int irq;
	/* Held between `lock` and `unlock`, with what it found. */
	spinlock_t lock;
	unsigned long flags;
	struct hrtimer timer;
	/* Requests under way that change the card. */
	atomic_t changes;
	/* The handler has served an interrupt before the line told of it: it may come for nothing. */
	bool served;
	/* The alarm has waited for an interrupt that is on its way. */
	bool waited;
	/* The interrupt and the timer are off: who waits looks by itself. */
	bool silent;
	/* No new look at the slot begins. */
	bool leaving;
	/* A card went since the last look: nothing reaches the next one before that. */
	bool went;
	/* The disk's queue stands still, since the machine sleeps. */
	bool frozen;
	void *dma;
	dma_addr_t dma_bus;
	/* Bring-up, and the disk that it makes: one at a time. */
	struct work_struct look;
	struct mutex looking;
	struct disk *disk;
	struct dentry *debug;
};

/* memory.c */
int32_t mmcq_ko_map(void *host, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
void mmcq_ko_unmap(void *host, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
void mmcq_ko_sync(void *host, uint64_t bus, void *memory, size_t bytes);
uint32_t mmcq_ko_piece(void *host, uint64_t bus, uint32_t bytes, uint64_t *real);
bool mmcq_ko_map_request(struct disk *disk, struct request *rq);
void mmcq_ko_unmap_request(struct request *rq);

/* disk.c */
void mmcq_ko_look(struct work_struct *work);
void mmcq_ko_remove_disk(struct host *host);
void mmcq_ko_thaw(struct host *host);

#endif
