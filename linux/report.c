// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* report.c: the registers of a card, the counters and the last steps of recovery, as one file of
 * debugfs. The registers are in the form of zoo/README.md, which `mmcq card` reads; everything else
 * is comments of that form. */
#include <linux/debugfs.h>
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/utsname.h>
#include "host.h"

/* LINE_BYTES: number of bytes of a register in one line. STEPS: largest number of steps of recovery
 * in the report. */
#define LINE_BYTES 32
#define STEPS 16

static void put_bytes(struct seq_file *file, const char *key, const u8 *bytes, int count)
{
	seq_printf(file, "%s = %*phN\n", key, count, bytes);
}

static void put_words(struct seq_file *file, const char *key, const u32 *words)
{
	seq_printf(file, "%s = %08x%08x%08x%08x\n", key, words[0], words[1], words[2], words[3]);
}

static void put_registers(struct seq_file *file, const struct disk *disk, const struct mmcq_registers *registers)
{
	int at;

	seq_printf(file, "ocr = %08x\n", registers->ocr);
	if (!disk->card.emmc) {
		put_bytes(file, "scr", registers->scr, sizeof(registers->scr));
		put_bytes(file, "ssr", registers->ssr, sizeof(registers->ssr));
		return;
	}
	for (at = 0; at < sizeof(registers->ext_csd); at += LINE_BYTES)
		seq_printf(file, "ext_csd@%d = %*phN\n", at, LINE_BYTES, registers->ext_csd + at);
}

static void put_counters(struct seq_file *file, u32 host)
{
	struct mmcq_statistics s;

	if (mmcq_stats(host, &s))
		return;
	seq_printf(file, "# requests %llu, transfers %llu, merged %llu, commands %llu\n", s.requests, s.transfers, s.merged, s.commands);
	seq_printf(file, "# interrupts %llu, spurious %llu, lost %llu, busy polls %llu, status asked %llu\n", s.interrupts, s.spurious,
		   s.lost_interrupts, s.busy_polls, s.status_asked);
	seq_printf(file, "# faults %llu, steps of recovery %llu, durable flushes %llu, cache lost %llu, erase pieces %llu\n", s.faults,
		   s.recovery_steps, s.durable_flushes, s.cache_lost, s.erase_pieces);
}

static void put_steps(struct seq_file *file, u32 host)
{
	struct mmcq_step steps[STEPS];
	int32_t count = mmcq_last_steps(host, steps, STEPS);
	int i;

	for (i = 0; i < count; i++)
		seq_printf(file, "# step at %llu ms: %s, status %08x\n", div_u64(steps[i].at_ns, NSEC_PER_MSEC), mmcq_step_name(steps[i].step),
			   steps[i].status);
}

static int report_show(struct seq_file *file, void *unused)
{
	struct disk *disk = file->private;
	struct host *host = disk->host;
	struct mmcq_registers *registers = kzalloc(sizeof(*registers), GFP_KERNEL);
	int32_t code;

	if (!registers)
		return -ENOMEM;
	seq_printf(file, "# Registers of a card, by mmcq.ko of mmcq %u.%u.%u in Linux %s, on %04x:%04x; `mmcq card FILE` reads this file.\n",
		   MMCQ_VERSION_MAJOR, MMCQ_VERSION_MINOR, MMCQ_VERSION_PATCH, utsname()->release, host->pci->vendor, host->pci->device);
	seq_printf(file, "# %llu blocks, %u lines at %u Hz\n", disk->card.blocks, disk->card.width, disk->card.clock_hz);
	seq_printf(file, "kind = %s\n", disk->card.emmc ? "emmc" : "sd");
	put_words(file, "cid", disk->card.cid);
	put_words(file, "csd", disk->card.csd);
	mmcq_ko_stay_awake(host);
	code = READ_ONCE(disk->refuses) ? MMCQ_E_NO_CARD : mmcq_card_registers(host->number, registers);
	if (code)
		seq_printf(file, "# no other registers: %s\n", mmcq_error_name(code));
	else
		put_registers(file, disk, registers);
	put_counters(file, host->number);
	put_steps(file, host->number);
	mmcq_ko_may_sleep(host);
	kfree(registers);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(report);

/* Adds the file N.card beside the file N, which has the controller's state; N is the controller's
 * number. */
void mmcq_ko_add_report(struct disk *disk)
{
	struct dentry *folder = debugfs_lookup("mmcq", NULL);
	char name[16];

	if (!folder)
		return;
	snprintf(name, sizeof(name), "%u.card", disk->host->number);
	disk->report = debugfs_create_file(name, 0400, folder, disk, &report_fops);
	dput(folder);
}

/* Removes the file, after all reads of it have ended. */
void mmcq_ko_remove_report(struct disk *disk)
{
	debugfs_remove(disk->report);
	disk->report = NULL;
}
