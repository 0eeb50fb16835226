// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* disk.c: makes a block device of a card, and removes it. */
#include <linux/delay.h>
#include <linux/module.h>
#include "host.h"

/* A card answers only some milliseconds after it was inserted: number of bring-up tries, and the
 * pause between them in ms. */
#define TRIES 20
#define TRY_MS 50
/* The block layer's timeout in s. It has no effect (`timed_out` only restarts it), since the
 * library ends every request in bounded time. */
#define TIMEOUT_S 120

static blk_status_t status_of(int32_t code)
{
	switch (code) {
	case MMCQ_OK: return BLK_STS_OK;
	case MMCQ_E_FULL: return BLK_STS_DEV_RESOURCE;
	case MMCQ_E_UNSUPPORTED: return BLK_STS_NOTSUPP;
	case MMCQ_E_TIMEOUT: return BLK_STS_TIMEOUT;
	case MMCQ_E_RANGE: return BLK_STS_TARGET;
	case MMCQ_E_CRC: return BLK_STS_MEDIUM;
	default: return BLK_STS_IOERR;
	}
}

static void done(struct mmcq_request *request, int32_t code)
{
	struct command *command = container_of(request, struct command, request);
	struct request *rq = blk_mq_rq_from_pdu(command);
	struct pci_dev *pci = command->host->pci;
	bool here;

	if (code == MMCQ_E_DEAD)
		/* No reset stops the controller. The request's memory goes to other users now, so
		 * the controller must not access memory any more. */
		pci_clear_master(pci);
	if (code)
		dev_warn_ratelimited(&pci->dev, "%s of %u blocks at %llu: %s\n", request->op == MMCQ_READ ? "read" : "request", request->blocks,
				     request->lba, mmcq_error_name(code));
	command->status = status_of(code);
	if (request->op != MMCQ_READ)
		atomic_dec(&command->host->changes);
	here = in_hardirq() && !command->entries && command->cpu == raw_smp_processor_id();
	mmcq_ko_unmap_request(rq);
	/* A request of one piece that ends on the CPU that submitted it is completed at once,
	 * without a further interrupt. */
	if (here)
		blk_mq_end_request(rq, command->status);
	else
		blk_mq_complete_request(rq);
}

static bool op_of(struct request *rq, uint32_t *op)
{
	switch (req_op(rq)) {
	case REQ_OP_READ: *op = MMCQ_READ; return true;
	case REQ_OP_WRITE: *op = rq->cmd_flags & REQ_FUA ? MMCQ_WRITE_DURABLE : MMCQ_WRITE; return true;
	case REQ_OP_FLUSH: *op = MMCQ_FLUSH; return true;
	case REQ_OP_DISCARD: *op = MMCQ_DISCARD; return true;
	case REQ_OP_WRITE_ZEROES: *op = MMCQ_ZEROES; return true;
	default: return false;
	}
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct request *rq = data->rq;
	struct disk *disk = hctx->queue->queuedata;
	struct command *command = blk_mq_rq_to_pdu(rq);
	int32_t code;

	if (READ_ONCE(disk->refuses) || READ_ONCE(disk->host->went))
		return BLK_STS_IOERR;
	command->request = (struct mmcq_request) { .lba = blk_rq_pos(rq), .blocks = blk_rq_sectors(rq), .done = done };
	command->host = disk->host;
	command->cpu = raw_smp_processor_id();
	command->count = command->entries = 0;
	if (!op_of(rq, &command->request.op))
		return BLK_STS_NOTSUPP;
	if (command->request.op <= MMCQ_WRITE_DURABLE && !mmcq_ko_map_request(disk, rq))
		return BLK_STS_RESOURCE;
	blk_mq_start_request(rq);
	if (command->request.op != MMCQ_READ)
		atomic_inc(&disk->host->changes);
	code = mmcq_submit(disk->host->number, &command->request);
	if (code) {
		if (command->request.op != MMCQ_READ)
			atomic_dec(&disk->host->changes);
		mmcq_ko_unmap_request(rq);
	}
	return status_of(code);
}

static void complete_rq(struct request *rq)
{
	struct command *command = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, command->status);
}

static enum blk_eh_timer_return timed_out(struct request *rq)
{
	return BLK_EH_RESET_TIMER;
}

static const struct blk_mq_ops queue_ops = { .queue_rq = queue_rq, .complete = complete_rq, .timeout = timed_out };

static void free_disk(struct gendisk *gendisk)
{
	struct disk *disk = gendisk->private_data;

	blk_mq_free_tag_set(&disk->tags);
	kfree(disk);
}

static const struct block_device_operations disk_ops = { .owner = THIS_MODULE, .free_disk = free_disk };

static void set_limits(struct request_queue *queue, struct host *host, const struct mmcq_card *card)
{
	/* If DMA goes through bounce buffers, the size of one mapping is limited. */
	unsigned int bytes = min_t(size_t, REQUEST_BYTES, dma_max_mapping_size(&host->pci->dev));

	blk_queue_logical_block_size(queue, 512);
	blk_queue_dma_alignment(queue, 511);
	blk_queue_max_segments(queue, card->pieces ? SEGMENTS : 1);
	blk_queue_max_segment_size(queue, bytes);
	blk_queue_max_hw_sectors(queue, bytes >> 9);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, queue);
	blk_queue_write_cache(queue, card->volatile_cache, card->volatile_cache);
	if (card->discard_blocks) {
		queue->limits.discard_granularity = card->discard_blocks << 9;
		blk_queue_max_discard_sectors(queue, UINT_MAX >> 9);
	}
	if (card->zeroes)
		blk_queue_max_write_zeroes_sectors(queue, UINT_MAX >> 9);
}

static int add_disk_of(struct host *host, const struct mmcq_card *card)
{
	struct disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	int error;

	if (!disk)
		return -ENOMEM;
	disk->host = host;
	disk->card = *card;
	disk->tags = (struct blk_mq_tag_set) {
		.ops = &queue_ops, .nr_hw_queues = 1, .queue_depth = MMCQ_SLOTS, .numa_node = NUMA_NO_NODE, .timeout = TIMEOUT_S * HZ,
		/* The library schedules requests itself, so no Linux scheduler is the default; the
		 * user may still choose one. */
		.cmd_size = sizeof(struct command), .flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT,
	};
	error = blk_mq_alloc_tag_set(&disk->tags);
	if (error)
		goto no_tags;
	disk->gendisk = blk_mq_alloc_disk(&disk->tags, disk);
	if (IS_ERR(disk->gendisk)) {
		error = PTR_ERR(disk->gendisk);
		goto no_disk;
	}
	snprintf(disk->gendisk->disk_name, DISK_NAME_LEN, "mmcqblk%u", host->number);
	/* From here on free_disk frees the tag set and the disk. */
	disk->gendisk->private_data = disk;
	disk->gendisk->fops = &disk_ops;
	set_limits(disk->gendisk->queue, host, card);
	set_disk_ro(disk->gendisk, card->read_only);
	set_capacity(disk->gendisk, card->blocks);
	WRITE_ONCE(host->disk, disk);
	error = device_add_disk(&host->pci->dev, disk->gendisk, NULL);
	if (error) {
		WRITE_ONCE(host->disk, NULL);
		put_disk(disk->gendisk);
	}
	return error;
no_disk:
	blk_mq_free_tag_set(&disk->tags);
no_tags:
	kfree(disk);
	return error;
}

/* Lets the disk's queue run again after the machine slept. */
void mmcq_ko_thaw(struct host *host)
{
	if (host->frozen && host->disk)
		blk_mq_unfreeze_queue(host->disk->gendisk->queue);
	host->frozen = false;
}

/* Removes the disk: another card is in its place, or the driver leaves the controller. */
void mmcq_ko_remove_disk(struct host *host)
{
	struct disk *disk = host->disk;

	if (!disk)
		return;
	del_gendisk(disk->gendisk);
	/* No request is under way any more, so the library does not call mmcq_ko_piece for this
	 * disk. */
	WRITE_ONCE(host->disk, NULL);
	put_disk(disk->gendisk);
}

static int32_t bring_up(struct host *host, struct mmcq_card *card)
{
	int32_t code = MMCQ_E_NO_CARD;
	int i;

	for (i = 0; i < TRIES && code == MMCQ_E_NO_CARD && mmcq_card_present(host->number) == 1; i++) {
		code = mmcq_bring_up(host->number, card);
		if (code == MMCQ_E_NO_CARD)
			msleep(TRY_MS);
	}
	return code;
}

/* Brings up the card in the slot. If it is the same card as before, its disk is used again;
 * otherwise the old disk is removed and a new one made. */
static void card_came(struct host *host)
{
	struct mmcq_card *card = kzalloc(sizeof(*card), GFP_KERNEL);
	struct disk *disk = host->disk;
	int32_t code;
	int error;

	if (!card)
		return;
	/* Requests for the previous card must not reach the new one. */
	if (disk)
		blk_mq_freeze_queue(disk->gendisk->queue);
	code = bring_up(host, card);
	if (disk) {
		bool same = !code && !memcmp(card->cid, disk->card.cid, sizeof(card->cid)) && card->blocks == disk->card.blocks;

		WRITE_ONCE(disk->refuses, !same);
		mmcq_ko_thaw(host);
		blk_mq_unfreeze_queue(disk->gendisk->queue);
		if (same) {
			set_capacity_and_notify(disk->gendisk, card->blocks);
			dev_info(&host->pci->dev, "the card is back\n");
			goto out;
		}
		mmcq_ko_remove_disk(host);
	}
	if (code) {
		dev_err(&host->pci->dev, "no card could be brought up: %s\n", mmcq_error_name(code));
		goto out;
	}
	dev_info(&host->pci->dev, "%s, %llu blocks, %u lines at %u Hz%s%s\n", card->emmc ? "eMMC" : "SD", card->blocks, card->width, card->clock_hz,
		 card->volatile_cache ? ", with a cache" : "", card->read_only ? ", read-only" : "");
	error = add_disk_of(host, card);
	if (error)
		dev_err(&host->pci->dev, "no disk: %d\n", error);
out:
	kfree(card);
}

static void card_went(struct host *host)
{
	struct disk *disk = host->disk;

	if (!disk || disk->refuses)
		return;
	WRITE_ONCE(disk->refuses, true);
	set_capacity_and_notify(disk->gendisk, 0);
	dev_info(&host->pci->dev, "the card is out\n");
}

void mmcq_ko_look(struct work_struct *work)
{
	struct host *host = container_of(work, struct host, look);

	mutex_lock(&host->looking);
	if (READ_ONCE(host->went) || mmcq_card_present(host->number) != 1)
		card_went(host);
	WRITE_ONCE(host->went, false);
	if (mmcq_card_present(host->number) == 1 && (!host->disk || host->disk->refuses))
		card_came(host);
	mutex_unlock(&host->looking);
}
