// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* poll.c: polled queues, for programs that poll for the end of their requests themselves (io_uring
 * with IORING_SETUP_IOPOLL).
 *
 * A controller has one interrupt for all requests. While all requests under way are polled, the
 * controller is "quiet": only events of the card interrupt. As soon as a request that is not polled
 * is submitted, or a thread waits in the library, all events interrupt again. If no program polls
 * for the end of a polled request, the library's alarm ends the request, and all events interrupt
 * again.
 *
 * Linux completes polled requests in threads only. A polled request that ends in an interrupt or in
 * the alarm is put into a list. The next poll completes the requests of the list; if no program
 * polls, a work does. */
#include <linux/module.h>
#include "host.h"

static unsigned int poll_queues;
module_param(poll_queues, uint, 0444);
MODULE_PARM_DESC(poll_queues, "number of polled queues of each card's disk");

static uint32_t read_register(void *context, uint16_t offset, uint8_t bytes)
{
	const struct host *host = context;

	switch (bytes) {
	case 1: return readb(host->registers + offset);
	case 2: return readw(host->registers + offset);
	default: return readl(host->registers + offset);
	}
}

static void write_register(void *context, uint16_t offset, uint8_t bytes, uint32_t value)
{
	struct host *host = context;

	/* The library writes this register as a whole, with its lock held. */
	if (offset == host->kind->enable) {
		WRITE_ONCE(host->enabled, value);
		if (host->quiet)
			value &= host->kind->card_events;
	}
	switch (bytes) {
	case 1: writeb(value, host->registers + offset); break;
	case 2: writew(value, host->registers + offset); break;
	default: writel(value, host->registers + offset);
	}
}

/* Prepares a controller for polled queues, if its disk is to have some, before the library opens it:
 * then the library's accesses to registers go through this file. */
void mmcq_ko_prepare_poll(struct host *host, struct mmcq_platform *platform)
{
	host->polls = poll_queues != 0;
	host->quiet = false;
	host->enabled = 0;
	if (!host->polls)
		return;
	platform->base = NULL;
	platform->read = read_register;
	platform->write = write_register;
}

static void set_quiet(struct host *host, bool quiet)
{
	unsigned long flags;

	spin_lock_irqsave(&host->lock, flags);
	if (host->quiet != quiet && !host->silent) {
		WRITE_ONCE(host->quiet, quiet);
		writel(quiet ? host->enabled & host->kind->card_events : host->enabled, host->registers + host->kind->enable);
	}
	spin_unlock_irqrestore(&host->lock, flags);
}

/* Ends the quiet state: all events that the library has enabled interrupt again. */
void mmcq_ko_listen(struct host *host)
{
	if (READ_ONCE(host->quiet))
		set_quiet(host, false);
}

/* Counts a request of the disk before it is submitted. */
void mmcq_ko_count_begin(struct host *host, bool polled)
{
	if (!host->polls)
		return;
	if (!polled) {
		atomic_inc(&host->others);
		/* Pairs with the barrier below: one of the two sees what the other has written. */
		smp_mb__after_atomic();
		mmcq_ko_listen(host);
	} else if (!READ_ONCE(host->quiet) && !atomic_read(&host->others)) {
		set_quiet(host, true);
		smp_mb();
		if (atomic_read(&host->others))
			mmcq_ko_listen(host);
	}
}

/* Counts a request of the disk that has ended, or that the library refused. */
void mmcq_ko_count_end(struct host *host, bool polled)
{
	if (!host->polls)
		return;
	if (polled)
		atomic_inc(&host->polled);
	else
		atomic_dec(&host->others);
}

/* Completes the polled requests that have ended in an interrupt. */
static void complete_list(struct host *host)
{
	struct command *command, *next;

	llist_for_each_entry_safe(command, next, llist_del_all(&host->ended), ended)
		blk_mq_end_request(blk_mq_rq_from_pdu(command), command->status);
}

void mmcq_ko_complete_polled_work(struct work_struct *work)
{
	complete_list(container_of(work, struct host, complete));
}

/* Completes a polled request that has ended. */
void mmcq_ko_complete_polled(struct command *command)
{
	struct host *host = command->host;

	if (!in_interrupt())
		blk_mq_end_request(blk_mq_rq_from_pdu(command), command->status);
	else if (llist_add(&command->ended, &host->ended))
		queue_work(system_highpri_wq, &host->complete);
}

/* Polls for the end of requests. Returns the number of polled requests that have ended meanwhile,
 * no matter in which context. */
int mmcq_ko_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch)
{
	struct host *host = ((struct disk *)hctx->queue->queuedata)->host;
	unsigned int before = atomic_read(&host->polled);
	u32 status;

	if (!llist_empty(&host->ended)) {
		complete_list(host);
		return 1;
	}
	if (READ_ONCE(host->silent))
		return 0;
	status = readl(host->registers + host->kind->status);
	/* The status is all ones if the controller was taken off the PCI bus; then the alarm ends
	 * the requests. */
	if (status != U32_MAX && status & READ_ONCE(host->enabled) & host->kind->events && mmcq_on_irq(host->number))
		/* The interrupt of this event may be on its way. */
		WRITE_ONCE(host->served, true);
	return (unsigned int)atomic_read(&host->polled) - before;
}

/* The first queue has the requests that end by interrupts, reads and others. All other queues are
 * polled. */
void mmcq_ko_map_queues(struct blk_mq_tag_set *tags)
{
	if (tags->nr_maps > HCTX_TYPE_POLL) {
		tags->map[HCTX_TYPE_DEFAULT].nr_queues = 1;
		tags->map[HCTX_TYPE_POLL].nr_queues = tags->nr_hw_queues - 1;
		tags->map[HCTX_TYPE_POLL].queue_offset = 1;
		blk_mq_map_queues(&tags->map[HCTX_TYPE_POLL]);
	}
	blk_mq_map_queues(&tags->map[HCTX_TYPE_DEFAULT]);
}

/* Adds the polled queues to a disk's tags before they are allocated. */
void mmcq_ko_add_poll_queues(struct blk_mq_tag_set *tags)
{
	if (!poll_queues)
		return;
	tags->nr_maps = HCTX_MAX_TYPES;
	tags->nr_hw_queues = 1 + min(poll_queues, nr_cpu_ids);
	/* The library has one set of slots, and a tag is the number of a request's memory. */
	tags->flags |= BLK_MQ_F_TAG_HCTX_SHARED;
}
