/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* versions.h: what differs between the kernels that mmcq.ko is built for. No other file asks for
 * the kernel's version. */
#ifndef MMCQ_KO_VERSIONS_H
#define MMCQ_KO_VERSIONS_H

#include <linux/blk-mq.h>
#include <linux/version.h>

/* What a disk's queue can do; the limits come from the card. */
struct mmcq_ko_limits {
	unsigned int segments;
	unsigned int request_bytes;
	/* `cache`: the card has a volatile cache. `fua`: a write can go past that cache. */
	bool cache;
	bool fua;
	/* Number of blocks that a discard frees as one; 0: no discards. */
	unsigned int discard_blocks;
	bool zeroes;
	bool secure_erase;
};

/* Linux cuts a secure erase into pieces of this number of sectors. Erase groups are powers of two, so
 * a piece is whole groups. */
#define SECURE_ERASE_SECTORS (1u << 22)

/* Makes a disk whose queue has these limits. */
static inline struct gendisk *mmcq_ko_alloc_disk(struct blk_mq_tag_set *tags, const struct mmcq_ko_limits *limits, void *data)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	struct queue_limits all = {
		.logical_block_size = 512,
		.dma_alignment = 511,
		.max_segments = limits->segments,
		.max_segment_size = limits->request_bytes,
		.max_hw_sectors = limits->request_bytes >> 9,
		.features = (limits->cache ? BLK_FEAT_WRITE_CACHE : 0) | (limits->fua ? BLK_FEAT_FUA : 0),
		.discard_granularity = limits->discard_blocks << 9,
		.max_hw_discard_sectors = limits->discard_blocks ? UINT_MAX >> 9 : 0,
		.max_write_zeroes_sectors = limits->zeroes ? UINT_MAX >> 9 : 0,
		.max_secure_erase_sectors = limits->secure_erase ? SECURE_ERASE_SECTORS : 0,
	};

	return blk_mq_alloc_disk(tags, &all, data);
#else
	struct gendisk *disk = blk_mq_alloc_disk(tags, data);
	struct request_queue *queue;

	if (IS_ERR(disk))
		return disk;
	queue = disk->queue;
	blk_queue_logical_block_size(queue, 512);
	blk_queue_dma_alignment(queue, 511);
	blk_queue_max_segments(queue, limits->segments);
	blk_queue_max_segment_size(queue, limits->request_bytes);
	blk_queue_max_hw_sectors(queue, limits->request_bytes >> 9);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, queue);
	blk_queue_write_cache(queue, limits->cache, limits->fua);
	queue->limits.discard_granularity = limits->discard_blocks << 9;
	blk_queue_max_discard_sectors(queue, limits->discard_blocks ? UINT_MAX >> 9 : 0);
	blk_queue_max_write_zeroes_sectors(queue, limits->zeroes ? UINT_MAX >> 9 : 0);
	blk_queue_max_secure_erase_sectors(queue, limits->secure_erase ? SECURE_ERASE_SECTORS : 0);
	return disk;
#endif
}

#endif
