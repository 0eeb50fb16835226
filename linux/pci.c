// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* pci.c: controllers behind PCI: SDHCI, and Realtek's readers (rtsx.c). The driver takes no
 * controller by itself: `ids`, `new_id` or `driver_override` must name one. */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pm_runtime.h>
#include <linux/seq_file.h>
#include "host.h"

/* SDHCI registers: Normal and Error Interrupt Status with two of its bits, and Interrupt Signal
 * Enable, which says which status bits interrupt. */
#define STATUS 0x30
#define COMMAND_COMPLETE BIT(0)
#define ERROR BIT(15)
#define SIGNAL_ENABLE 0x38
/* Status bits of the card in the slot: inserted, removed, card interrupt, re-tuning wanted. */
#define CARD_EVENTS 0x11c0
#define REGISTER_BYTES 256
/* The SDHCI Command register; its upper byte is the index of the last command. CMD13 asks for the
 * card's status; STATUS_LOOKS is the largest number of polls for its response. */
#define COMMAND 0x0e
#define ASK_STATUS 13
#define STATUS_LOOKS 8
/* Least time in s between two bring-ups of a card that the library has given up. */
#define DEAD_S 60
/* Longest time in ms that an interrupt may take from the controller to a CPU. */
#define LATE_IRQ_MS 4

static char *ids = "";
module_param(ids, charp, 0444);
MODULE_PARM_DESC(ids, "controllers to take, as VENDOR:DEVICE in hexadecimal, with commas between");
static char *quirks = "";
module_param(quirks, charp, 0444);
MODULE_PARM_DESC(quirks, "departures of the controllers from the standard, by their names in mmcq_platform.quirks");
static bool emmc_18;
module_param(emmc_18, bool, 0444);
MODULE_PARM_DESC(emmc_18, "the slots hold soldered eMMCs with 1.8 V signalling");

/* The library's controller numbers that are in use, one bit each. */
static unsigned long numbers;
/* The controllers that no reset has stopped, by these numbers. */
static const struct pci_dev *wild[MMCQ_HOSTS];
static struct dentry *debug_root;

/* ---- Functions that the library calls ---- */
static void lock(void *context)
{
	struct host *host = context;
	unsigned long flags;

	spin_lock_irqsave(&host->lock, flags);
	host->flags = flags;
}

static void unlock(void *context)
{
	struct host *host = context;

	spin_unlock_irqrestore(&host->lock, host->flags);
}

static uint64_t now_ns(void *context)
{
	return ktime_get_ns();
}

static void set_alarm(void *context, uint64_t at_ns)
{
	struct host *host = context;

	if (READ_ONCE(host->silent))
		return;
	if (at_ns >= KTIME_MAX)
		hrtimer_try_to_cancel(&host->timer);
	else
		hrtimer_start(&host->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS_SOFT);
}

static void wait(void *context, const mmcq_idle *idle)
{
	struct host *host = context;

	mmcq_ko_listen(host);
	if (READ_ONCE(host->silent)) {
		mmcq_on_irq(host->number);
		mmcq_poll(host->number);
	}
	if (mmcq_may_sleep(idle))
		usleep_range(20, 100);
}

/* Schedules the work mmcq_ko_look, which finds out whether a card is in the slot. Any context may
 * call this. While the machine goes to sleep or wakes up, the work does not run: it may remove a
 * disk, and that waits for threads that are frozen then. */
void mmcq_ko_look_soon(struct host *host)
{
	if (READ_ONCE(host->leaving))
		return;
	/* The scheduled work keeps the controller awake. */
	pm_runtime_get(&host->pci->dev);
	if (!queue_work(system_freezable_wq, &host->look))
		pm_runtime_put_noidle(&host->pci->dev);
}

/* Cancels the work mmcq_ko_look, or waits until it has ended. Must not be called by runtime_suspend
 * and runtime_resume, because that work waits for them. */
void mmcq_ko_cancel_look(struct host *host)
{
	if (cancel_work_sync(&host->look))
		pm_runtime_put_noidle(&host->pci->dev);
}

/* Handles results of the library that concern the whole slot. */
void mmcq_ko_note(struct host *host, int32_t code)
{
	switch (code) {
	case MMCQ_E_MEMORY:
		/* No reset stops the controller. The memory of its request goes to other users now,
		 * so the controller must not access memory any more. */
		WRITE_ONCE(host->stopped, true);
		pci_clear_master(host->pci);
		dev_err(&host->pci->dev, "no reset stops the controller: all requests are refused until the driver is bound again\n");
		break;
	case MMCQ_E_DEAD:
		/* The library has given the card up. A bring-up may help, but not again and again. */
		if (host->died && time_before(jiffies, host->died + DEAD_S * HZ))
			break;
		host->died = jiffies ?: 1;
		fallthrough;
	case MMCQ_E_REMOVED:
	case MMCQ_E_NO_CARD:
	case MMCQ_E_CHANGED:
		/* The library has lost the card, perhaps without an event of the slot's switch. */
		WRITE_ONCE(host->went, true);
		mmcq_ko_look_soon(host);
		break;
	default:
		break;
	}
}

static void card_event(void *context, int32_t present)
{
	struct host *host = context;

	if (!present)
		WRITE_ONCE(host->went, true);
	mmcq_ko_look_soon(host);
}

void mmcq_panic(void)
{
	panic("mmcq: a mistake of its own");
}

/* ---- SDHCI controllers ---- */
static int32_t open_sdhci(struct host *host, struct mmcq_platform *platform)
{
	return mmcq_open(host->number, platform);
}

/* After a write the library sends CMD13 for its status. The answer comes sooner than an interrupt
 * would reach the CPU, so the handler polls for it. */
static bool waits_for_status(struct host *host)
{
	int looks;

	if (readw(host->registers + COMMAND) >> 8 != ASK_STATUS)
		return false;
	for (looks = 0; looks < STATUS_LOOKS; looks++)
		if (readl(host->registers + STATUS) & (COMMAND_COMPLETE | ERROR))
			return true;
	return false;
}

static const struct kind sdhci = {
	.name = "SDHCI controller", .bytes = REGISTER_BYTES, .open = open_sdhci, .status = STATUS, .enable = SIGNAL_ENABLE, .events = U32_MAX,
	.card_events = CARD_EVENTS, .waits_for_status = waits_for_status,
};

/* ---- Interrupt and alarm ---- */
/* Returns true if the controller interrupts now. */
static bool interrupts(struct host *host)
{
	u32 pending = readl(host->registers + host->kind->status);

	/* A controller that is off the bus reads as all ones. */
	return pending != U32_MAX && pending & readl(host->registers + host->kind->enable) & host->kind->events;
}

static irqreturn_t on_irq(int irq, void *context)
{
	struct host *host = context;
	bool served = READ_ONCE(host->served);
	int32_t ours;

	if (READ_ONCE(host->silent))
		return IRQ_NONE;
	ours = mmcq_on_irq(host->number);
	host->served = ours && host->kind->waits_for_status && atomic_read(&host->changes) && host->kind->waits_for_status(host);
	if (host->served)
		mmcq_on_irq(host->number);
	/* An MSI always belongs to this controller; a pin may be shared. */
	return host->pci->msi_enabled || host->pci->msix_enabled ? IRQ_HANDLED : IRQ_RETVAL(ours || served);
}

/* Returns true if the controller has interrupted and the interrupt is still on its way to a CPU,
 * which may take some milliseconds in a virtual machine. The alarm is then set again, so that the
 * library does not count the interrupt as lost. */
static bool waits_for_irq(struct host *host)
{
	unsigned long flags;

	if (host->waited || !interrupts(host))
		return false;
	spin_lock_irqsave(&host->lock, flags);
	if (!hrtimer_is_queued(&host->timer))
		hrtimer_start(&host->timer, ktime_add_ms(ktime_get(), LATE_IRQ_MS), HRTIMER_MODE_ABS_SOFT);
	spin_unlock_irqrestore(&host->lock, flags);
	return true;
}

static enum hrtimer_restart on_alarm(struct hrtimer *timer)
{
	struct host *host = container_of(timer, struct host, timer);

	/* No program has polled for the end of a polled request in time: no interrupt is lost. */
	if (READ_ONCE(host->quiet)) {
		mmcq_ko_listen(host);
		mmcq_on_irq(host->number);
	}
	host->waited = waits_for_irq(host);
	if (!host->waited)
		mmcq_poll(host->number);
	return HRTIMER_NORESTART;
}

/* ---- The state file in debugfs ---- */
static int state_show(struct seq_file *file, void *unused)
{
	struct host *host = file->private;
	struct mmcq_statistics s;

	mutex_lock(&host->looking);
	if (host->disk) {
		const struct mmcq_card *card = &host->disk->card;

		seq_printf(file, "card %s%s\nblocks %llu\nclock_hz %u\nlines %u\n", card->emmc ? "emmc" : "sd", host->disk->refuses ? ", out" : "",
			   card->blocks, card->clock_hz, card->width);
		seq_printf(file, "cid %08x%08x%08x%08x\ncsd %08x%08x%08x%08x\n", card->cid[0], card->cid[1], card->cid[2], card->cid[3],
			   card->csd[0], card->csd[1], card->csd[2], card->csd[3]);
		seq_printf(file, "pieces %u\ncache %u\ndiscard_blocks %u\nzeroes %u\n", card->pieces, card->volatile_cache, card->discard_blocks,
			   card->zeroes);
	} else {
		seq_puts(file, "card none\n");
	}
	if (!mmcq_stats(host->number, &s)) {
		seq_printf(file, "requests %llu\ntransfers %llu\nmerged %llu\ncommands %llu\n", s.requests, s.transfers, s.merged, s.commands);
		seq_printf(file, "interrupts %llu\nspurious %llu\nlost_interrupts %llu\nfaults %llu\n", s.interrupts, s.spurious,
			   s.lost_interrupts, s.faults);
		seq_printf(file, "durable_flushes %llu\ncache_lost %llu\nrecovery_steps %llu\n", s.durable_flushes, s.cache_lost, s.recovery_steps);
	}
	mutex_unlock(&host->looking);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(state);

/* ---- Probe, remove, shutdown ---- */
/* Opens the controller in the library. */
int32_t mmcq_ko_open(struct host *host)
{
	struct mmcq_platform platform = {
		.context = host, .base = (void __force *)host->registers, .lock = lock, .unlock = unlock, .now_ns = now_ns, .set_alarm = set_alarm,
		.wait = wait, .map = mmcq_ko_map, .unmap = mmcq_ko_unmap, .sync = mmcq_ko_sync, .piece = mmcq_ko_piece, .card_event = card_event,
		.quirks = quirks, .flags = MMCQ_QUICK_MAP | (emmc_18 ? MMCQ_EMMC_18 : 0),
		.dma = host->dma, .dma_bus = host->dma_bus, .dma_bytes = MMCQ_DMA_BYTES,
	};
	int32_t code;

	mmcq_ko_prepare_poll(host, &platform);
	code = host->kind->open(host, &platform);
	if (!code)
		host->open = true;
	host->listens = false;
	return code;
}

/* Lets the controller use its interrupt pin, or not. */
static void set_line(struct host *host, bool on)
{
	if (!host->pci->msi_enabled && !host->pci->msix_enabled)
		pci_intx(host->pci, on);
}

/* Switches interrupt and alarm off, and then closes the controller in the library, if it is open
 * there. MMCQ_E_STATE: it could not be closed. */
int32_t mmcq_ko_close(struct host *host)
{
	int32_t code = MMCQ_OK;

	/* Other devices may share the interrupt line, so only this controller's interrupt is switched
	 * off. */
	WRITE_ONCE(host->silent, true);
	set_line(host, false);
	synchronize_irq(host->irq);
	hrtimer_cancel(&host->timer);
	if (host->open)
		code = mmcq_close(host->number);
	host->open = code == MMCQ_E_STATE;
	/* If the library is still open, it may go on, and knows the register. */
	if (!host->open)
		writel(0, host->registers + host->kind->enable);
	set_line(host, true);
	if (code)
		dev_warn(&host->pci->dev, "closed with %s\n", mmcq_error_name(code));
	return code;
}

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct device *device = &pci->dev;
	struct host *host = devm_kzalloc(device, sizeof(*host), GFP_KERNEL);
	const struct kind *kind = mmcq_ko_reader(pci) ?: &sdhci;
	int error, i;
	int32_t code = MMCQ_OK;
	char name[8];

	if (!host)
		return -ENOMEM;
	for (i = 0; i < MMCQ_HOSTS; i++)
		if (wild[i] == pci)
			return dev_err_probe(device, -EIO, "no reset has stopped the controller: the machine must restart\n");
	host->pci = pci;
	host->kind = kind;
	error = pcim_enable_device(pci);
	if (error)
		return dev_err_probe(device, error, "the controller cannot be enabled\n");
	if (!(pci_resource_flags(pci, kind->region) & IORESOURCE_MEM) || pci_resource_len(pci, kind->region) < kind->bytes)
		return dev_err_probe(device, -ENODEV, "no %s: its region %d is no %u bytes of memory\n", kind->name, kind->region, kind->bytes);
	error = pcim_iomap_regions(pci, BIT(kind->region), KBUILD_MODNAME);
	if (error == -EBUSY)
		return dev_err_probe(device, error, "the registers are another driver's\n");
	if (error)
		return dev_err_probe(device, error, "the registers cannot be mapped\n");
	host->registers = pcim_iomap_table(pci)[kind->region];
	error = dma_set_mask_and_coherent(device, DMA_BIT_MASK(32));
	if (error)
		return dev_err_probe(device, error, "no memory below 4 GiB\n");
	dma_set_max_seg_size(device, REQUEST_BYTES);
	host->dma = dmam_alloc_coherent(device, MMCQ_DMA_BYTES, &host->dma_bus, GFP_KERNEL);
	if (!host->dma)
		return dev_err_probe(device, -ENOMEM, "no memory for descriptors\n");
	mmcq_ko_choose_numbers(host);
	do {
		host->number = find_first_zero_bit(&numbers, MMCQ_HOSTS);
		if (host->number >= MMCQ_HOSTS)
			return dev_err_probe(device, -EBUSY, "%u controllers are taken, and the library has room for no more\n", MMCQ_HOSTS);
	} while (test_and_set_bit(host->number, &numbers));
	spin_lock_init(&host->lock);
	mutex_init(&host->looking);
	INIT_WORK(&host->look, mmcq_ko_look);
	INIT_WORK(&host->complete, mmcq_ko_complete_polled_work);
	hrtimer_init(&host->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	host->timer.function = on_alarm;
	pci_set_master(pci);
	pci_set_drvdata(pci, host);
	error = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_ALL_TYPES);
	if (error < 0) {
		dev_err(device, "no interrupt: %d\n", error);
		goto no_irq;
	}
	host->irq = pci_irq_vector(pci, 0);
	/* A line that other devices share would interrupt without end before the handler is there. */
	set_line(host, false);
	/* No look before the interrupt is there; the first one is scheduled below. */
	host->leaving = true;
	code = mmcq_ko_open(host);
	if (code) {
		error = -ENODEV;
		if (code == MMCQ_E_ARGUMENT)
			dev_err(device, "quirks=%s: not a list of their names\n", quirks);
		else
			dev_err(device, "no %s that answers or is known: %s\n", kind->name, mmcq_error_name(code));
		goto not_open;
	}
	error = request_irq(host->irq, on_irq, IRQF_SHARED, KBUILD_MODNAME, host);
	if (error) {
		dev_err(device, error == -EBUSY ? "the interrupt is another driver's\n" : "the interrupt cannot be had: %d\n", error);
		code = mmcq_ko_close(host);
		writel(0, host->registers + kind->enable);
		goto not_open;
	}
	set_line(host, true);
	snprintf(name, sizeof(name), "%u", host->number);
	host->debug = debugfs_create_file(name, 0444, debug_root, host, &state_fops);
	WRITE_ONCE(host->leaving, false);
	mmcq_ko_look_soon(host);
	mmcq_ko_allow_sleep(host);
	return 0;
not_open:
	pci_free_irq_vectors(pci);
no_irq:
	/* As in `gone`; the memory for descriptors is freed before the device is disabled. */
	pci_clear_master(pci);
	if (code != MMCQ_E_STATE)
		clear_bit(host->number, &numbers);
	return error;
}

static void gone(struct pci_dev *pci)
{
	struct host *host = pci_get_drvdata(pci);
	int32_t code;

	mmcq_ko_forbid_sleep(host);
	WRITE_ONCE(host->leaving, true);
	debugfs_remove(host->debug);
	mmcq_ko_cancel_look(host);
	mutex_lock(&host->looking);
	mmcq_ko_remove_disk(host);
	mutex_unlock(&host->looking);
	code = mmcq_ko_close(host);
	writel(0, host->registers + host->kind->enable);
	/* An interrupt may have scheduled a look before. */
	mmcq_ko_cancel_look(host);
	/* Its list is empty: all requests have ended. */
	cancel_work_sync(&host->complete);
	free_irq(host->irq, host);
	pci_free_irq_vectors(pci);
	/* From here on the controller cannot access memory, even if no reset stops it. If the
	 * library could not close it, its number is not used again. */
	pci_clear_master(pci);
	if (code != MMCQ_E_STATE)
		clear_bit(host->number, &numbers);
	else if (__pci_reset_function_locked(pci))
		/* Nothing has stopped it: it must not become a bus master again. */
		wild[host->number] = pci;
}

/* The machine is switched off or restarts. */
static void shutdown(struct pci_dev *pci)
{
	struct host *host = pci_get_drvdata(pci);

	debugfs_remove(host->debug);
	host->debug = NULL;
	mmcq_ko_shut(host);
}

static const struct pci_device_id no_ids[] = { {} };

static struct pci_driver driver = {
	.name = "mmcq", .id_table = no_ids, .probe = probe, .remove = gone, .shutdown = shutdown, .driver.pm = pm_ptr(&mmcq_ko_pm_ops),
};

static int add_ids(const char *text)
{
	while (*text) {
		unsigned int vendor, device;
		int used = 0, error;

		if (sscanf(text, "%4x:%4x%n", &vendor, &device, &used) != 2 || (text[used] && text[used] != ',')) {
			pr_err("mmcq: ids=%s: not VENDOR:DEVICE in hexadecimal, with commas between\n", ids);
			return -EINVAL;
		}
		error = pci_add_dynid(&driver, vendor, device, PCI_ANY_ID, PCI_ANY_ID, 0, 0, 0);
		if (error)
			return error;
		text += used + (text[used] == ',');
	}
	return 0;
}

static int __init begin(void)
{
	int error;

	debug_root = debugfs_create_dir("mmcq", NULL);
	error = pci_register_driver(&driver);
	if (!error) {
		error = add_ids(ids);
		if (error)
			pci_unregister_driver(&driver);
	}
	if (error)
		debugfs_remove(debug_root);
	return error;
}

static void __exit end(void)
{
	pci_unregister_driver(&driver);
	debugfs_remove(debug_root);
}
module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("SD cards and eMMCs by the mmcq stack");
