// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* power.c: sleep of the machine, and sleep of the controller alone while it has no work (runtime
 * power management).
 *
 * For both kinds of sleep the driver closes the library. mmcq_close flushes, notifies the card of
 * power-off, and switches its supply off. After the sleep the card is brought up again. If it is
 * the same card, it keeps its disk.
 *
 * The controller does not sleep alone while the slot is empty, because it must detect a new card. A
 * controller with polled queues does not sleep alone either. Code that uses the library outside of
 * the disk's queue keeps the controller awake meanwhile (mmcq_ko_stay_awake). For requests of the
 * queue the block layer does this: it sends no request to a controller that sleeps. */
#include <linux/blk-pm.h>
#include <linux/pm_runtime.h>
#include "host.h"

/* Time in ms without use after which the controller sleeps. */
#define AUTOSUSPEND_MS 2000

/* Allows the controller to sleep, once the user has written "auto" to power/control. */
void mmcq_ko_allow_sleep(struct host *host)
{
	struct device *device = &host->pci->dev;

	pm_runtime_set_autosuspend_delay(device, AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(device);
	pm_runtime_mark_last_busy(device);
	/* The PCI core has kept the controller awake until here. */
	pm_runtime_put_noidle(device);
}

/* Forbids the controller to sleep alone. It is awake now, because the PCI core has woken it. */
void mmcq_ko_forbid_sleep(struct host *host)
{
	pm_runtime_get_noresume(&host->pci->dev);
	pm_runtime_dont_use_autosuspend(&host->pci->dev);
}

/* Wakes the controller, and keeps it awake until mmcq_ko_may_sleep. Threads only. */
void mmcq_ko_stay_awake(struct host *host)
{
	pm_runtime_get_sync(&host->pci->dev);
}

void mmcq_ko_may_sleep(struct host *host)
{
	pm_runtime_mark_last_busy(&host->pci->dev);
	pm_runtime_put_autosuspend(&host->pci->dev);
}

/* Lets the block layer wake the controller for the requests of a disk that is not added yet. */
void mmcq_ko_wake_for(struct host *host, struct request_queue *queue)
{
	struct device *device = &host->pci->dev;
	int delay_ms = READ_ONCE(device->power.autosuspend_delay);

	blk_pm_runtime_init(queue, device);
	/* The call above has switched autosuspend off. */
	pm_runtime_set_autosuspend_delay(device, delay_ms);
}

/* Whether a flush that ends with this code may have lost writes that were reported as good. */
static bool may_lose(const struct host *host, int32_t code)
{
	switch (code) {
	case MMCQ_OK:
	/* The library is closed, because the controller has not come back from an earlier sleep. */
	case MMCQ_E_STATE:
		return false;
	/* The card was taken out. If it is in the slot again after the sleep, it keeps its disk; what
	 * its cache had is lost. */
	case MMCQ_E_NO_CARD:
	case MMCQ_E_REMOVED:
		return host->disk && host->disk->card.volatile_cache;
	default:
		return true;
	}
}

/* Flushes the card. Returns false if the flush may have lost writes; then the next flush of each
 * disk reports a loss. */
static bool flush(struct host *host)
{
	if (!may_lose(host, mmcq_flush(host->number)))
		return true;
	atomic_inc(&host->losses);
	return false;
}

/* Flushes the card and closes the library, which forgets all else. If the flush fails, the last
 * writes may be lost; then the next flush reports a loss. A power-off notification that fails loses
 * nothing. */
static int32_t close_for_sleep(struct host *host)
{
	bool flushed = flush(host);
	int32_t code = mmcq_ko_close(host);

	if (flushed && code == MMCQ_E_CACHE_LOST)
		atomic_inc(&host->losses);
	return code;
}

/* Lets all requests end, flushes the card, notifies it of power-off, and closes the library.
 * Requests that come later wait. */
static int32_t stop(struct host *host)
{
	int32_t code;

	WRITE_ONCE(host->leaving, true);
	mmcq_ko_cancel_look(host);
	mmcq_ko_freeze(host);
	code = close_for_sleep(host);
	/* An interrupt may have scheduled a look before. */
	mmcq_ko_cancel_look(host);
	return code;
}

/* The machine is switched off or restarts: the card loses its supply, as in a sleep. Programs still
 * run, and must not read the card's registers meanwhile. */
void mmcq_ko_shut(struct host *host)
{
	WRITE_ONCE(host->leaving, true);
	mmcq_ko_cancel_look(host);
	if (host->disk)
		mmcq_ko_remove_report(host->disk);
	stop(host);
}

/* Goes on with a library that could not be closed. */
static void go_on(struct host *host)
{
	WRITE_ONCE(host->silent, false);
	mmcq_poll(host->number);
}

static int suspend(struct device *device)
{
	struct host *host = dev_get_drvdata(device);

	mmcq_ko_listen(host);
	if (stop(host) != MMCQ_E_STATE)
		return 0;
	/* All requests are refused, and the controller is no bus master: it may sleep as it is. */
	if (READ_ONCE(host->stopped)) {
		writel(0, host->registers + host->kind->enable);
		return 0;
	}
	go_on(host);
	WRITE_ONCE(host->leaving, false);
	mmcq_ko_wake(host);
	mmcq_ko_look_soon(host);
	return -EBUSY;
}

static void open_again(struct host *host)
{
	int32_t code;

	if (READ_ONCE(host->stopped))
		return;
	WRITE_ONCE(host->silent, false);
	code = mmcq_ko_open(host);
	if (code)
		dev_err(&host->pci->dev, "the controller has not come back: %s\n", mmcq_error_name(code));
}

static int resume(struct device *device)
{
	struct host *host = dev_get_drvdata(device);

	open_again(host);
	WRITE_ONCE(host->leaving, false);
	/* If another card or none is in the slot, the work mmcq_ko_look handles that when the
	 * machine is awake. */
	mmcq_ko_wake(host);
	mmcq_ko_look_soon(host);
	return 0;
}

#ifdef CONFIG_PM
/* Puts the controller alone to sleep. host->disk does not change meanwhile, because the work
 * mmcq_ko_look and the driver's removal keep the controller awake. If that work is scheduled now,
 * it waits for the end of this function, and then wakes the controller. */
static int runtime_suspend(struct device *device)
{
	struct host *host = dev_get_drvdata(device);
	struct disk *disk = host->disk;
	int error;

	/* A polled request does not wait until the controller is awake, and so does not wake it. */
	if (host->polls || !disk || READ_ONCE(disk->refuses) || READ_ONCE(host->went) || READ_ONCE(host->stopped))
		return -EBUSY;
	error = blk_pre_runtime_suspend(disk->gendisk->queue);
	if (error)
		return error;
	mmcq_ko_listen(host);
	/* The state file in debugfs reads the library. */
	mutex_lock(&host->looking);
	if (!flush(host)) {
		/* The card keeps its supply: a later flush may write what this one has not. */
		error = -EBUSY;
	} else if (close_for_sleep(host) == MMCQ_E_STATE) {
		/* The library is still open: the controller goes on. */
		error = -EBUSY;
		go_on(host);
	}
	mutex_unlock(&host->looking);
	blk_post_runtime_suspend(disk->gendisk->queue, error);
	return error;
}

static int runtime_resume(struct device *device)
{
	struct host *host = dev_get_drvdata(device);
	struct disk *disk = host->disk;

	blk_pre_runtime_resume(disk->gendisk->queue);
	mutex_lock(&host->looking);
	open_again(host);
	if (!mmcq_ko_is_back(host)) {
		/* The disk's requests end with an error, and the work mmcq_ko_look removes the
		 * disk. */
		WRITE_ONCE(disk->refuses, true);
		mmcq_ko_look_soon(host);
	}
	mutex_unlock(&host->looking);
	blk_post_runtime_resume(disk->gendisk->queue);
	return 0;
}
#endif

const struct dev_pm_ops mmcq_ko_pm_ops = { SYSTEM_SLEEP_PM_OPS(suspend, resume) RUNTIME_PM_OPS(runtime_suspend, runtime_resume, NULL) };
