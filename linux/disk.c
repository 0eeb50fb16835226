// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* disk.c: makes a block device of a card, and removes it. */
#include <linux/delay.h>
#include <linux/module.h>
#include "host.h"
#include "versions.h"

/* Number of tries of a bring-up, and the pause between two tries in ms: a card answers only some
 * milliseconds after it was inserted. FAILED_TRIES: number of tries that a card may answer and then
 * fail; each pause after such a try is twice as long as the one before. */
#define TRIES 20
#define TRY_MS 50
#define FAILED_TRIES 6
/* Number of bring-ups after a sleep before the card counts as another one. */
#define WAKE_TRIES 2
/* Time in ms after which a request is sent again whose memory could not be mapped. */
#define AGAIN_MS 10
/* The block layer's timeout in s. It has no effect (`timed_out` only restarts it), since the
 * library ends every request in bounded time. */
#define TIMEOUT_S 120

blk_status_t mmcq_ko_status(int32_t code)
{
	switch (code) {
	case MMCQ_OK: return BLK_STS_OK;
	/* Linux tries again after some milliseconds. With BLK_STS_DEV_RESOURCE it would wait for the
	 * end of another request of this disk, and there may be none: mappings and slots are also
	 * taken by other devices and by the card's other areas. */
	case MMCQ_E_FULL: return BLK_STS_RESOURCE;
	case MMCQ_E_UNSUPPORTED: return BLK_STS_NOTSUPP;
	case MMCQ_E_TIMEOUT: return BLK_STS_TIMEOUT;
	case MMCQ_E_RANGE: return BLK_STS_TARGET;
	case MMCQ_E_CRC: return BLK_STS_MEDIUM;
	default: return BLK_STS_IOERR;
	}
}

/* Returns the result of a flush for the user of one disk. The library reports a loss of the card's
 * cache to one call only, so the next flush of each other disk of the card reports it as well. */
int32_t mmcq_ko_flushed(struct host *host, int *told, int32_t code)
{
	bool is_loss = code == MMCQ_E_CACHE_LOST || code == MMCQ_E_CARD;
	int losses = is_loss ? atomic_inc_return(&host->losses) : atomic_read(&host->losses);

	if (!code && losses != *told)
		code = MMCQ_E_CACHE_LOST;
	if (is_loss || code == MMCQ_E_CACHE_LOST)
		*told = losses;
	return code;
}

static void done(struct mmcq_request *request, int32_t code)
{
	struct command *command = container_of(request, struct command, request);
	struct request *rq = blk_mq_rq_from_pdu(command);
	struct pci_dev *pci = command->host->pci;
	bool here;

	if (request->op == MMCQ_FLUSH)
		code = mmcq_ko_flushed(command->host, &((struct disk *)rq->q->queuedata)->told, code);
	else if (code == MMCQ_E_CACHE_LOST)
		/* Whoever wrote this knows now. The next flush of each disk reports the loss to the
		 * users of earlier writes. */
		atomic_inc(&command->host->losses);
	mmcq_ko_note(command->host, code);
	if (code)
		dev_warn_ratelimited(&pci->dev, "%s of %u blocks at %llu: %s\n", request->op == MMCQ_READ ? "read" : "request", request->blocks,
				     request->lba, mmcq_error_name(code));
	command->status = mmcq_ko_status(code);
	if (request->op != MMCQ_READ)
		atomic_dec(&command->host->changes);
	mmcq_ko_count_end(command->host, command->polled);
	here = in_hardirq() && !command->entries && command->cpu == raw_smp_processor_id();
	mmcq_ko_unmap_request(rq);
	/* The controller has no descriptors, and there was no room for the mapping: Linux sends the
	 * request again. */
	if (code == MMCQ_E_FULL) {
		blk_mq_requeue_request(rq, false);
		blk_mq_delay_kick_requeue_list(rq->q, AGAIN_MS);
		return;
	}
	if (command->polled) {
		mmcq_ko_complete_polled(command);
		return;
	}
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
	case REQ_OP_SECURE_ERASE: *op = MMCQ_SECURE_ERASE; return true;
	default: return false;
	}
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct request *rq = data->rq;
	struct disk *disk = hctx->queue->queuedata;
	struct command *command = blk_mq_rq_to_pdu(rq);
	int32_t code;

	if (READ_ONCE(disk->refuses) || READ_ONCE(disk->host->went) || READ_ONCE(disk->host->stopped))
		return BLK_STS_IOERR;
	command->request = (struct mmcq_request) { .lba = blk_rq_pos(rq), .blocks = blk_rq_sectors(rq), .done = done };
	command->host = disk->host;
	command->polled = hctx->type == HCTX_TYPE_POLL;
	command->cpu = raw_smp_processor_id();
	command->count = command->entries = 0;
	if (!op_of(rq, &command->request.op))
		return BLK_STS_NOTSUPP;
	if (command->request.op <= MMCQ_WRITE_DURABLE && !mmcq_ko_map_request(disk, rq))
		return BLK_STS_RESOURCE;
	blk_mq_start_request(rq);
	if (command->request.op != MMCQ_READ)
		atomic_inc(&disk->host->changes);
	mmcq_ko_count_begin(disk->host, command->polled);
	code = mmcq_submit(disk->host->number, &command->request);
	if (code) {
		mmcq_ko_note(disk->host, code);
		if (command->request.op != MMCQ_READ)
			atomic_dec(&disk->host->changes);
		mmcq_ko_count_end(disk->host, command->polled);
		mmcq_ko_unmap_request(rq);
	}
	return mmcq_ko_status(code);
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

static const struct blk_mq_ops queue_ops = {
	.queue_rq = queue_rq, .complete = complete_rq, .timeout = timed_out, .map_queues = mmcq_ko_map_queues, .poll = mmcq_ko_poll,
};

static void free_disk(struct gendisk *gendisk)
{
	struct disk *disk = gendisk->private_data;

	blk_mq_free_tag_set(&disk->tags);
	kfree(disk);
}

static const struct block_device_operations disk_ops = { .owner = THIS_MODULE, .free_disk = free_disk };

static struct gendisk *alloc_disk(struct disk *disk)
{
	const struct mmcq_card *card = &disk->card;
	/* Only an eMMC's trim makes zeroes, as in Linux's own driver. An SD card's SCR also
	 * declares what erased blocks read as. But the SD card of QEMU declares zeros, and erases
	 * to ones. */
	bool trims = card->emmc && card->discard_blocks == 1;
	const struct mmcq_ko_limits limits = {
		.segments = card->pieces ? SEGMENTS : 1,
		/* If DMA goes through bounce buffers, the size of one mapping is limited. */
		.request_bytes = min_t(size_t, REQUEST_BYTES, dma_max_mapping_size(&disk->host->pci->dev)),
		.cache = card->volatile_cache,
		.fua = card->volatile_cache,
		.discard_blocks = card->discard_blocks,
		.zeroes = trims && card->zeroes,
		.secure_erase = card->secure_erase,
	};

	return mmcq_ko_alloc_disk(&disk->tags, &limits, disk);
}

static int add_disk_of(struct host *host, const struct mmcq_card *card)
{
	struct disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	int error;

	if (!disk)
		return -ENOMEM;
	disk->host = host;
	disk->card = *card;
	disk->told = atomic_read(&host->losses);
	mutex_init(&disk->areas.lock);
	disk->tags = (struct blk_mq_tag_set) {
		.ops = &queue_ops, .nr_hw_queues = 1, .queue_depth = MMCQ_SLOTS, .numa_node = NUMA_NO_NODE, .timeout = TIMEOUT_S * HZ,
		/* The library schedules requests itself, so no Linux scheduler is the default; the
		 * user may still choose one. */
		.cmd_size = sizeof(struct command), .flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT,
	};
	mmcq_ko_add_poll_queues(&disk->tags);
	error = blk_mq_alloc_tag_set(&disk->tags);
	if (error)
		goto no_tags;
	disk->gendisk = alloc_disk(disk);
	if (IS_ERR(disk->gendisk)) {
		error = PTR_ERR(disk->gendisk);
		goto no_disk;
	}
	snprintf(disk->gendisk->disk_name, DISK_NAME_LEN, "mmcqblk%u", host->number);
	/* As soon as the disk is added, free_disk frees the tag set and the disk. */
	disk->gendisk->private_data = disk;
	disk->gendisk->fops = &disk_ops;
	set_disk_ro(disk->gendisk, card->read_only);
	set_capacity(disk->gendisk, card->blocks);
	mmcq_ko_wake_for(host, disk->gendisk->queue);
	WRITE_ONCE(host->disk, disk);
	error = device_add_disk(&host->pci->dev, disk->gendisk, NULL);
	if (error)
		goto not_added;
	mmcq_ko_add_areas(disk);
	mmcq_ko_add_report(disk);
	return 0;
not_added:
	WRITE_ONCE(host->disk, NULL);
	/* As in mmcq_ko_remove_disk: the library may be in mmcq_ko_piece. */
	synchronize_rcu();
	put_disk(disk->gendisk);
no_disk:
	blk_mq_free_tag_set(&disk->tags);
no_tags:
	kfree(disk);
	return error;
}

static void freeze(struct disk *disk)
{
	blk_mq_freeze_queue(disk->gendisk->queue);
	mmcq_ko_freeze_areas(disk);
}

static void thaw(struct disk *disk)
{
	mmcq_ko_thaw_areas(disk);
	blk_mq_unfreeze_queue(disk->gendisk->queue);
}

/* Lets all requests end before the machine sleeps. Afterwards the disk refuses requests until a
 * look at the slot has found the same card. */
void mmcq_ko_freeze(struct host *host)
{
	struct disk *disk = host->disk;

	if (!disk)
		return;
	freeze(disk);
	host->frozen = true;
	WRITE_ONCE(disk->refuses, true);
	/* An exchange with RPMB that has begun ends as well. */
	mutex_lock(&disk->areas.lock);
	mutex_unlock(&disk->areas.lock);
}

/* Removes the disk: another card is in its place, or the driver leaves the controller. */
void mmcq_ko_remove_disk(struct host *host)
{
	struct disk *disk = host->disk;

	if (!disk)
		return;
	mmcq_ko_remove_report(disk);
	mmcq_ko_remove_areas(disk);
	del_gendisk(disk->gendisk);
	/* No request is under way any more, so the library does not call mmcq_ko_piece for this
	 * disk. */
	WRITE_ONCE(host->disk, NULL);
	/* The library may be in mmcq_ko_piece for a transfer of its own, with its lock held. */
	synchronize_rcu();
	mmcq_ko_free_areas(disk);
	put_disk(disk->gendisk);
}

/* `fails_most`: number of tries in which the card may answer and then fail. */
static int32_t bring_up(struct host *host, struct mmcq_card *card, int fails_most)
{
	int32_t code = MMCQ_E_NO_CARD;
	int tries = 0, failed = 0;

	while (tries < TRIES && failed < fails_most && !READ_ONCE(host->leaving) && mmcq_card_present(host->number) == 1) {
		code = mmcq_bring_up(host->number, card);
		switch (code) {
		/* Another try gives the same. */
		case MMCQ_OK:
		case MMCQ_E_UNSUPPORTED:
		case MMCQ_E_MEMORY:
			return code;
		case MMCQ_E_NO_CARD:
		/* Another call, for the report in debugfs, say, is at the card's registers. */
		case MMCQ_E_STATE:
			tries++;
			msleep(TRY_MS);
			break;
		default:
			msleep(TRY_MS << failed++);
		}
	}
	return code;
}

/* Returns true if this is the disk's card, and the disk's limits are still right. */
static bool is_same(const struct mmcq_card *card, const struct disk *disk)
{
	const struct mmcq_card *before = &disk->card;

	return !memcmp(card->cid, before->cid, sizeof(card->cid)) && card->blocks == before->blocks && card->read_only == before->read_only &&
	       card->volatile_cache == before->volatile_cache && card->discard_blocks == before->discard_blocks && card->zeroes == before->zeroes;
}

/* Brings up the card after the controller was closed. Returns true if it is the disk's card. */
bool mmcq_ko_is_back(struct host *host)
{
	struct disk *disk = host->disk;
	struct mmcq_card card = {};
	int i;

	/* Card detection may take some milliseconds after the controller was off. */
	for (i = 0; i < TRIES && mmcq_card_present(host->number) == 0; i++)
		msleep(TRY_MS);
	/* A disk whose card was out before has no blocks, and stays out: the look makes a new one. */
	if (!get_capacity(disk->gendisk) || READ_ONCE(host->stopped))
		return false;
	/* Damage on the wires may also hide what the card can do, so that it looks like another one. */
	for (i = 0; i < WAKE_TRIES; i++)
		if (!bring_up(host, &card, 1) && is_same(&card, disk)) {
			/* Card events up to here came from the bring-up of this card, so no look is
			 * needed. */
			WRITE_ONCE(host->went, false);
			return true;
		}
	return false;
}

/* Brings up the card after the machine slept. If it is the same card as before, its disk is used
 * again. Otherwise the disk goes on refusing requests, and the work mmcq_ko_look removes it. */
void mmcq_ko_wake(struct host *host)
{
	struct disk *disk = host->disk;

	mutex_lock(&host->looking);
	if (disk && host->frozen) {
		if (mmcq_ko_is_back(host)) {
			WRITE_ONCE(disk->refuses, false);
			dev_info(&host->pci->dev, "the card is back\n");
		}
		thaw(disk);
	}
	host->frozen = false;
	mutex_unlock(&host->looking);
}

/* Brings up the card in the slot, and makes a disk of it. Removes an earlier disk first, even if
 * its card is the same one: the card may have been written in another machine meanwhile. */
static void card_came(struct host *host)
{
	struct mmcq_card card = {};
	int32_t code;
	int error;

	mmcq_ko_remove_disk(host);
	/* All requests of the old disk have ended, and have set this once more. */
	WRITE_ONCE(host->went, false);
	code = bring_up(host, &card, FAILED_TRIES);
	if (code) {
		dev_err(&host->pci->dev, "no card could be brought up: %s\n", mmcq_error_name(code));
		return;
	}
	/* What an earlier card has lost does not concern this one, which has no writes yet. */
	mmcq_flush(host->number);
	dev_info(&host->pci->dev, "%s, %llu blocks, %u lines at %u Hz%s%s\n", card.emmc ? "eMMC" : "SD", card.blocks, card.width, card.clock_hz,
		 card.volatile_cache ? ", with a cache" : "", card.read_only ? ", read-only" : "");
	error = add_disk_of(host, &card);
	if (error)
		dev_err(&host->pci->dev, "no disk: %d\n", error);
}

static void card_went(struct host *host)
{
	struct disk *disk = host->disk;

	if (!disk || !get_capacity(disk->gendisk))
		return;
	WRITE_ONCE(disk->refuses, true);
	set_capacity_and_notify(disk->gendisk, 0);
	dev_info(&host->pci->dev, "the card is out\n");
}

static void look(struct host *host)
{
	if (READ_ONCE(host->leaving))
		return;
	if (READ_ONCE(host->went) || mmcq_card_present(host->number) != 1) {
		card_went(host);
		/* The disk itself refuses requests from here on. A removal that comes after the
		 * question above leaves the mark for the next look. */
		WRITE_ONCE(host->went, false);
	}
	if (READ_ONCE(host->stopped))
		return;
	if (!host->listens) {
		host->listens = true;
		if (mmcq_card_present(host->number) != 1)
			mmcq_bring_up(host->number, NULL);
	}
	if (mmcq_card_present(host->number) == 1 && (!host->disk || host->disk->refuses))
		card_came(host);
}

void mmcq_ko_look(struct work_struct *work)
{
	struct host *host = container_of(work, struct host, look);

	/* Before the mutex, which runtime_resume takes. */
	mmcq_ko_stay_awake(host);
	mutex_lock(&host->looking);
	look(host);
	mutex_unlock(&host->looking);
	mmcq_ko_may_sleep(host);
	/* For mmcq_ko_look_soon. */
	mmcq_ko_may_sleep(host);
}
