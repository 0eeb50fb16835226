/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* host.h: the structures of one controller and its disk, and the functions that the files of
 * mmcq.ko share. */
#ifndef MMCQ_KO_HOST_H
#define MMCQ_KO_HOST_H

#include <linux/blk-mq.h>
#include <linux/dma-mapping.h>
#include <linux/hrtimer.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/workqueue.h>

#include "mmcq.h"

/* SEGMENTS: largest number of pieces (contiguous ranges) of memory in one request. REQUEST_BYTES:
 * largest number of bytes in one request. A descriptor covers at most 64 KiB, so in the worst case
 * a request needs two descriptors for each piece. */
#define SEGMENTS 128
#define REQUEST_BYTES (512u << 10)

/* The library gets a number instead of an address for a request's memory: the request's tag times
 * NUMBER_BYTES, plus an offset into the request. The tag after the last one, AREAS_TAG, stands for
 * the buffer that the boot areas, general purpose partitions and RPMB share. */
#define NUMBER_BYTES (1u << 21)
#define AREAS_TAG MMCQ_SLOTS

/* AREAS: number of boot areas and general purpose partitions that an eMMC may have. AREA_BYTES:
 * size of the buffer that they and RPMB share. */
#define AREAS 6
#define AREA_BYTES (64u << 10)

struct piece {
	dma_addr_t bus;
	u32 bytes;
};

/* The driver's data for a request of the block layer; Linux places them behind its struct
 * request. */
struct command {
	struct mmcq_request request;
	struct host *host;
	blk_status_t status;
	/* The request came from a polled queue. */
	bool polled;
	/* Its place in the list host->ended. */
	struct llist_node ended;
	/* The CPU that submitted the request. */
	int cpu;
	/* `count`: number of pieces. `entries`: number of scatterlist entries that the pieces were
	 * mapped from; 0 if the request has one range of pages and no scatterlist. */
	u16 count, entries;
	/* `at`: index of the piece that the library asked for last. `before`: number of bytes in
	 * the pieces before that piece. */
	u16 at;
	u32 before;
	struct piece pieces[SEGMENTS];
	struct scatterlist list[SEGMENTS];
};

struct area;
struct rpmb;

/* The other partitions of an eMMC. */
struct areas {
	/* Held while a request or an RPMB exchange uses the buffer `memory`. */
	struct mutex lock;
	void *memory;
	dma_addr_t bus;
	struct area *each[AREAS];
	struct rpmb *rpmb;
};

/* The block device of a card. It exists until the card is gone and no program has it open. */
struct disk {
	struct host *host;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct command *commands[MMCQ_SLOTS];
	struct mmcq_card card;
	struct areas areas;
	struct dentry *report;
	/* The slot is empty or has another card, so this disk refuses all requests. */
	bool refuses;
	/* The value of host->losses when this disk's user last got an error for a lost cache. */
	int told;
};

struct host;

/* What differs between the kinds of controllers. */
struct kind {
	const char *name;
	/* `region`: number of the PCI region (BAR) with the registers. `bytes`: least size of that
	 * region. */
	int region;
	u32 bytes;
	/* `status`: offset of the register of pending events. `enable`: offset of the register that
	 * selects which events interrupt. `events`: the bits of all events in these registers.
	 * `card_events`: the bits of events of the card in the slot, which belong to no request. */
	u16 status, enable;
	u32 events, card_events;
	/* Opens the controller in the library. */
	int32_t (*open)(struct host *host, struct mmcq_platform *platform);
	/* Waits briefly, in the interrupt handler, for the response to a CMD13 of the library.
	 * Returns true if the response came. NULL: a response takes too long on this kind of
	 * controller. */
	bool (*waits_for_status)(struct host *host);
};

struct host {
	u32 number;
	struct pci_dev *pci;
	const struct kind *kind;
	void __iomem *registers;
	int irq;
	/* The spinlock of the library's functions `lock` and `unlock`, and the interrupt flags that
	 * `lock` saved. */
	spinlock_t lock;
	unsigned long flags;
	struct hrtimer timer;
	/* Number of requests under way other than reads. */
	atomic_t changes;
	/* The event of the next interrupt was already handled, so the handler may find nothing to
	 * do in that interrupt. */
	bool served;
	/* The alarm was postponed once because an interrupt is on its way to a CPU. */
	bool waited;
	/* `polls`: the disk has polled queues (poll.c). `quiet`: only the kind's `card_events`
	 * interrupt. `enabled`: the events whose interrupt the library has enabled. `quiet` and
	 * `enabled` are written with the lock held. */
	bool polls, quiet;
	u32 enabled;
	/* With polled queues: number of requests under way that are not polled, and number of polled
	 * requests that have ended. */
	atomic_t others, polled;
	/* Polled requests that have ended in an interrupt, and the work that completes them. */
	struct llist_head ended;
	struct work_struct complete;
	/* The library was asked for the card since it was opened. Before, it leaves the interrupts of
	 * the slot's switch off. */
	bool listens;
	/* When the library has given up the card last, in jiffies; 0: it has not. */
	unsigned long died;
	/* The controller is open in the library. It is not if it has not come back from a sleep. */
	bool open;
	/* Interrupt and timer are off, so a thread that waits must poll the controller. */
	bool silent;
	/* The driver is leaving the controller, or the machine goes to sleep: the work `look` is
	 * not scheduled any more. */
	bool leaving;
	/* A card was removed since the work `look` ran last. Until it runs again, all requests are
	 * refused, so that none reaches another card. */
	bool went;
	/* Number of losses of the card's cache that the library has reported, to any caller. */
	atomic_t losses;
	/* No reset stops the controller, so its access to memory was switched off. All requests are
	 * refused until the driver is bound again. */
	bool stopped;
	/* The disk's queue is frozen because the machine sleeps. */
	bool frozen;
	void *dma;
	dma_addr_t dma_bus;
	/* The first of the numbers that stand for the memory of requests. */
	u32 first_number;
	/* The work that looks at the slot: it brings a card up, and makes or removes the disk. The
	 * mutex lets only one look run at a time, and the controller's own sleep wait for who reads
	 * its state. */
	struct work_struct look;
	struct mutex looking;
	struct disk *disk;
	struct dentry *debug;
};

/* memory.c */
void mmcq_ko_choose_numbers(struct host *host);
int32_t mmcq_ko_map(void *host, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
void mmcq_ko_unmap(void *host, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
void mmcq_ko_sync(void *host, uint64_t bus, void *memory, size_t bytes);
uint32_t mmcq_ko_piece(void *host, uint64_t bus, uint32_t bytes, uint64_t *real);
bool mmcq_ko_map_request(struct disk *disk, struct request *rq);
void mmcq_ko_unmap_request(struct request *rq);

/* rtsx.c */
const struct kind *mmcq_ko_reader(const struct pci_dev *pci);

/* pci.c */
void mmcq_ko_note(struct host *host, int32_t code);
void mmcq_ko_look_soon(struct host *host);
void mmcq_ko_cancel_look(struct host *host);
int32_t mmcq_ko_open(struct host *host);
int32_t mmcq_ko_close(struct host *host);

/* power.c */
extern const struct dev_pm_ops mmcq_ko_pm_ops;
void mmcq_ko_allow_sleep(struct host *host);
void mmcq_ko_forbid_sleep(struct host *host);
void mmcq_ko_stay_awake(struct host *host);
void mmcq_ko_may_sleep(struct host *host);
void mmcq_ko_wake_for(struct host *host, struct request_queue *queue);
void mmcq_ko_shut(struct host *host);

/* poll.c */
void mmcq_ko_prepare_poll(struct host *host, struct mmcq_platform *platform);
void mmcq_ko_add_poll_queues(struct blk_mq_tag_set *tags);
void mmcq_ko_map_queues(struct blk_mq_tag_set *tags);
int mmcq_ko_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch);
void mmcq_ko_count_begin(struct host *host, bool polled);
void mmcq_ko_count_end(struct host *host, bool polled);
void mmcq_ko_listen(struct host *host);
void mmcq_ko_complete_polled(struct command *command);
void mmcq_ko_complete_polled_work(struct work_struct *work);

/* disk.c */
void mmcq_ko_look(struct work_struct *work);
void mmcq_ko_remove_disk(struct host *host);
void mmcq_ko_freeze(struct host *host);
void mmcq_ko_wake(struct host *host);
bool mmcq_ko_is_back(struct host *host);
blk_status_t mmcq_ko_status(int32_t code);
int32_t mmcq_ko_flushed(struct host *host, int *told, int32_t code);

/* areas.c */
void mmcq_ko_add_areas(struct disk *disk);
void mmcq_ko_freeze_areas(struct disk *disk);
void mmcq_ko_thaw_areas(struct disk *disk);
void mmcq_ko_remove_areas(struct disk *disk);
void mmcq_ko_free_areas(struct disk *disk);

/* report.c */
void mmcq_ko_add_report(struct disk *disk);
void mmcq_ko_remove_report(struct disk *disk);

/* rpmb.c */
void mmcq_ko_add_rpmb(struct disk *disk);
void mmcq_ko_remove_rpmb(struct disk *disk);

#endif
