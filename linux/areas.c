// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* areas.c: makes disks of an eMMC's boot areas and general purpose partitions.
 *
 * A request for such an area waits in the library until the card's queue is empty, so its disk has
 * a queue that may block. Its data are copied: all areas of a card share one contiguous buffer. */
#include <linux/module.h>
#include "host.h"
#include "versions.h"

/* The block layer's timeout in s. It has no effect, since the library ends every request in bounded
 * time. */
#define TIMEOUT_S 120

/* The disk of one area. It exists until the card is gone and no program has it open; `disk` is used
 * only until the area's disk is removed. */
struct area {
	struct disk *disk;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	/* The area's number in the library, such as MMCQ_BOOT_1. */
	u32 partition;
	/* The card is read-only, so `force_ro` cannot be 0. */
	bool read_only;
	/* The value of host->losses when this disk's user last got an error for a lost cache. */
	int told;
};

static const struct {
	const char *name;
	u32 partition;
} all[AREAS] = {
	{ "boot0", MMCQ_BOOT_1 }, { "boot1", MMCQ_BOOT_2 }, { "gp0", MMCQ_GENERAL_1 },
	{ "gp1", MMCQ_GENERAL_1 + 1 }, { "gp2", MMCQ_GENERAL_1 + 2 }, { "gp3", MMCQ_GENERAL_4 },
};

/* ---- Requests ---- */
static void copy(struct request *rq, char *memory)
{
	struct req_iterator at;
	struct bio_vec piece;

	rq_for_each_segment(piece, rq, at) {
		if (req_op(rq) == REQ_OP_WRITE)
			memcpy_from_bvec(memory, &piece);
		else
			memcpy_to_bvec(&piece, memory);
		memory += piece.bv_len;
	}
}

/* Reads or writes blocks through the areas' buffer. */
static int32_t move(struct area *area, struct request *rq)
{
	struct areas *areas = &area->disk->areas;
	u32 host = area->disk->host->number, lba = blk_rq_pos(rq), blocks = blk_rq_sectors(rq);
	int32_t code;

	mutex_lock(&areas->lock);
	if (req_op(rq) == REQ_OP_WRITE) {
		copy(rq, areas->memory);
		code = mmcq_partition_write(host, area->partition, lba, blocks, areas->memory);
	} else {
		code = mmcq_partition_read(host, area->partition, lba, blocks, areas->memory);
		if (!code)
			copy(rq, areas->memory);
	}
	mutex_unlock(&areas->lock);
	return code;
}

static int32_t carry_out(struct area *area, struct request *rq)
{
	struct host *host = area->disk->host;

	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE: return move(area, rq);
	case REQ_OP_FLUSH: return mmcq_ko_flushed(host, &area->told, mmcq_flush(host->number));
	default: return MMCQ_E_UNSUPPORTED;
	}
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct request *rq = data->rq;
	struct area *area = hctx->queue->queuedata;
	struct host *host = area->disk->host;
	int32_t code;

	/* The controller may have another card when it wakes. */
	mmcq_ko_stay_awake(host);
	if (READ_ONCE(area->disk->refuses) || READ_ONCE(host->went) || READ_ONCE(host->stopped)) {
		mmcq_ko_may_sleep(host);
		return BLK_STS_IOERR;
	}
	blk_mq_start_request(rq);
	code = carry_out(area, rq);
	mmcq_ko_may_sleep(host);
	mmcq_ko_note(host, code);
	if (code)
		dev_warn_ratelimited(&host->pci->dev, "%s: %u blocks at %llu: %s\n", area->gendisk->disk_name, blk_rq_sectors(rq),
				     (u64)blk_rq_pos(rq), mmcq_error_name(code));
	blk_mq_end_request(rq, code == MMCQ_E_FULL ? BLK_STS_TIMEOUT : mmcq_ko_status(code));
	return BLK_STS_OK;
}

static enum blk_eh_timer_return timed_out(struct request *rq)
{
	return BLK_EH_RESET_TIMER;
}

static const struct blk_mq_ops queue_ops = { .queue_rq = queue_rq, .timeout = timed_out };

/* ---- force_ro, as Linux's own driver has it ---- */
static ssize_t force_ro_show(struct device *device, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%d\n", get_disk_ro(dev_to_disk(device)));
}

static ssize_t force_ro_store(struct device *device, struct device_attribute *attribute, const char *text, size_t bytes)
{
	struct gendisk *gendisk = dev_to_disk(device);
	struct area *area = gendisk->private_data;
	unsigned int on;
	int error = kstrtouint(text, 0, &on);

	if (error)
		return error;
	set_disk_ro(gendisk, on != 0 || area->read_only);
	return bytes;
}
static DEVICE_ATTR_RW(force_ro);

static struct attribute *area_attrs[] = { &dev_attr_force_ro.attr, NULL };
ATTRIBUTE_GROUPS(area);

/* ---- Disks ---- */
static void free_disk(struct gendisk *gendisk)
{
	struct area *area = gendisk->private_data;

	blk_mq_free_tag_set(&area->tags);
	kfree(area);
}

static const struct block_device_operations disk_ops = { .owner = THIS_MODULE, .free_disk = free_disk };

static int add_area(struct disk *disk, int which, u32 blocks)
{
	const struct mmcq_ko_limits limits = { .segments = SEGMENTS, .request_bytes = AREA_BYTES, .cache = disk->card.volatile_cache };
	struct area *area = kzalloc(sizeof(*area), GFP_KERNEL);
	bool boot = all[which].partition <= MMCQ_BOOT_2;
	int error;

	if (!area)
		return -ENOMEM;
	area->disk = disk;
	area->partition = all[which].partition;
	area->read_only = disk->card.read_only;
	area->told = atomic_read(&disk->host->losses);
	area->tags = (struct blk_mq_tag_set) {
		.ops = &queue_ops, .nr_hw_queues = 1, .queue_depth = 2, .numa_node = NUMA_NO_NODE, .timeout = TIMEOUT_S * HZ,
		.flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT | BLK_MQ_F_BLOCKING,
	};
	error = blk_mq_alloc_tag_set(&area->tags);
	if (error)
		goto no_tags;
	area->gendisk = mmcq_ko_alloc_disk(&area->tags, &limits, area);
	if (IS_ERR(area->gendisk)) {
		error = PTR_ERR(area->gendisk);
		goto no_disk;
	}
	snprintf(area->gendisk->disk_name, DISK_NAME_LEN, "%s%s", disk->gendisk->disk_name, all[which].name);
	/* As soon as the disk is added, free_disk frees the tag set and the area. */
	area->gendisk->private_data = area;
	area->gendisk->fops = &disk_ops;
	set_disk_ro(area->gendisk, area->read_only || boot);
	set_capacity(area->gendisk, blocks);
	error = device_add_disk(&disk->host->pci->dev, area->gendisk, area_groups);
	if (error)
		goto not_added;
	disk->areas.each[which] = area;
	return 0;
not_added:
	put_disk(area->gendisk);
no_disk:
	blk_mq_free_tag_set(&area->tags);
no_tags:
	kfree(area);
	return error;
}

/* Adds the areas that the card has, and its RPMB. An area that cannot be added is reported, and the
 * others are added nevertheless. */
void mmcq_ko_add_areas(struct disk *disk)
{
	struct areas *areas = &disk->areas;
	struct device *device = &disk->host->pci->dev;
	int which;

	if (!disk->card.emmc)
		return;
	areas->memory = dma_alloc_coherent(device, AREA_BYTES, &areas->bus, GFP_KERNEL);
	if (!areas->memory) {
		dev_err(device, "no memory for boot areas, partitions and RPMB\n");
		return;
	}
	for (which = 0; which < AREAS; which++) {
		u32 blocks;
		int32_t code = mmcq_partition_blocks(disk->host->number, all[which].partition, &blocks);
		int error;

		if (code == MMCQ_E_UNSUPPORTED)
			continue;
		if (code) {
			mmcq_ko_note(disk->host, code);
			dev_err(device, "%s: %s\n", all[which].name, mmcq_error_name(code));
			continue;
		}
		error = add_area(disk, which, blocks);
		if (error)
			dev_err(device, "no disk of %s: %d\n", all[which].name, error);
	}
	mmcq_ko_add_rpmb(disk);
}

/* Waits until all requests of the areas have ended. No request begins until mmcq_ko_thaw_areas. */
void mmcq_ko_freeze_areas(struct disk *disk)
{
	int which;

	for (which = 0; which < AREAS; which++)
		if (disk->areas.each[which])
			blk_mq_freeze_queue(disk->areas.each[which]->gendisk->queue);
}

void mmcq_ko_thaw_areas(struct disk *disk)
{
	int which;

	for (which = 0; which < AREAS; which++)
		if (disk->areas.each[which])
			blk_mq_unfreeze_queue(disk->areas.each[which]->gendisk->queue);
}

/* Removes the areas' disks and the RPMB; nothing uses their buffer afterwards. */
void mmcq_ko_remove_areas(struct disk *disk)
{
	int which;

	mmcq_ko_remove_rpmb(disk);
	for (which = 0; which < AREAS; which++) {
		struct area *area = disk->areas.each[which];

		if (!area)
			continue;
		del_gendisk(area->gendisk);
		disk->areas.each[which] = NULL;
		put_disk(area->gendisk);
	}
}

/* Frees the areas' buffer. Called after the last request of the card's own disk has ended, too. */
void mmcq_ko_free_areas(struct disk *disk)
{
	if (disk->areas.memory)
		dma_free_coherent(&disk->host->pci->dev, AREA_BYTES, disk->areas.memory, disk->areas.bus);
	disk->areas.memory = NULL;
}
