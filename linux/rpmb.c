// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* rpmb.c: the replay-protected area (RPMB) of an eMMC as a character device, for programs that have
 * the area's key. They send frames by the ioctls of Linux's own driver, as mmc-utils does. The
 * module passes frames for this area, and no other command. */
#include <linux/compat.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mmc/ioctl.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include "host.h"

#define FRAME_BYTES 512
/* Most frames of one ioctl: the areas' buffer holds all of them. */
#define FRAMES (AREA_BYTES / FRAME_BYTES)
/* Most commands of one ioctl: frames, the request for the result, the card's frames. */
#define COMMANDS 3
/* The eMMC's commands that write and read several blocks, and the flag of a reliable write in
 * mmc_ioc_cmd.write_flag. */
#define WRITE_BLOCKS 25
#define READ_BLOCKS 18
#define RELIABLE BIT(31)

/* The device of one card. It exists until the card is gone and no program has it open. */
struct rpmb {
	struct miscdevice misc;
	struct kref uses;
	/* Held during an ioctl, and while `disk` is changed. */
	struct mutex lock;
	/* NULL: the card is gone. */
	struct disk *disk;
	char name[DISK_NAME_LEN + 4];
};

/* One ioctl: its frames in the order of the exchange, and the program's memory for the frames of
 * the card. */
struct exchange {
	struct mmcq_rpmb_frames counts;
	u32 count;
	u8 *frames;
	void __user *answer;
};

static void free_rpmb(struct kref *uses)
{
	kfree(container_of(uses, struct rpmb, uses));
}

static int error_of(int32_t code)
{
	switch (code) {
	case MMCQ_OK: return 0;
	case MMCQ_E_NO_CARD:
	case MMCQ_E_REMOVED:
	case MMCQ_E_CHANGED: return -ENOMEDIUM;
	case MMCQ_E_FULL: return -EBUSY;
	case MMCQ_E_TIMEOUT: return -ETIMEDOUT;
	case MMCQ_E_CRC: return -EILSEQ;
	case MMCQ_E_UNSUPPORTED: return -EOPNOTSUPP;
	default: return -EIO;
	}
}

/* Adds a command of the program to the exchange. Returns false if it is no frame of RPMB, or not in
 * the order of an exchange: frames to the card, the request for the result, frames from it. */
static bool add_command(struct exchange *exchange, const struct mmc_ioc_cmd *command)
{
	struct mmcq_rpmb_frames *counts = &exchange->counts;

	if (command->blksz != FRAME_BYTES || !command->blocks || command->blocks > FRAMES - exchange->count || command->arg ||
	    command->is_acmd || counts->back)
		return false;
	if (command->opcode == READ_BLOCKS && !command->write_flag) {
		counts->back = command->blocks;
		exchange->answer = (void __user *)(uintptr_t)command->data_ptr;
	} else if (command->opcode != WRITE_BLOCKS || !command->write_flag) {
		return false;
	} else if (!counts->out) {
		counts->out = command->blocks;
		counts->reliable = !!(command->write_flag & RELIABLE);
	} else if (!counts->ask && command->blocks == 1 && !(command->write_flag & RELIABLE)) {
		counts->ask = 1;
	} else {
		return false;
	}
	exchange->count += command->blocks;
	return true;
}

static int refused(const struct rpmb *rpmb)
{
	pr_notice_ratelimited("mmcq: %s: commands are refused that are no exchange of RPMB frames\n", rpmb->name);
	return -EOPNOTSUPP;
}

/* Carries an exchange out. The card is switched to the RPMB once, and back at the end. */
static int carry_out(struct disk *disk, struct exchange *exchange)
{
	static const u8 no_key[32];
	struct areas *areas = &disk->areas;
	struct mmcq_rpmb rpmb = { .key = no_key, .memory = areas->memory, .memory_bytes = AREA_BYTES };
	int32_t code;

	mmcq_ko_stay_awake(disk->host);
	mutex_lock(&areas->lock);
	code = MMCQ_E_NO_CARD;
	if (!READ_ONCE(disk->refuses) && !READ_ONCE(disk->host->went) && !READ_ONCE(disk->host->stopped)) {
		code = mmcq_rpmb_relay(disk->host->number, &rpmb, &exchange->counts, exchange->frames);
		mmcq_ko_note(disk->host, code);
	}
	mutex_unlock(&areas->lock);
	mmcq_ko_may_sleep(disk->host);
	if (code)
		dev_warn_ratelimited(&disk->host->pci->dev, "RPMB: %s\n", mmcq_error_name(code));
	return error_of(code);
}

static int exchange_of(struct rpmb *rpmb, const struct mmc_ioc_cmd *commands, int count)
{
	struct exchange exchange = {};
	u32 sent;
	int error = 0, i;
	u8 *at;

	for (i = 0; i < count; i++)
		if (!add_command(&exchange, &commands[i]))
			return refused(rpmb);
	exchange.frames = at = kvzalloc(exchange.count * FRAME_BYTES, GFP_KERNEL);
	if (!at)
		return -ENOMEM;
	sent = (exchange.counts.out + exchange.counts.ask) * FRAME_BYTES;
	for (i = 0; i < count && at < exchange.frames + sent; i++) {
		if (copy_from_user(at, (void __user *)(uintptr_t)commands[i].data_ptr, commands[i].blocks * FRAME_BYTES))
			error = -EFAULT;
		at += commands[i].blocks * FRAME_BYTES;
	}
	if (!error) {
		mutex_lock(&rpmb->lock);
		error = rpmb->disk ? carry_out(rpmb->disk, &exchange) : -ENODEV;
		mutex_unlock(&rpmb->lock);
	}
	if (!error && copy_to_user(exchange.answer, exchange.frames + sent, exchange.counts.back * FRAME_BYTES))
		error = -EFAULT;
	kvfree(exchange.frames);
	return error;
}

static long rpmb_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	struct mmc_ioc_multi_cmd __user *several = (void __user *)argument;
	struct mmc_ioc_cmd commands[COMMANDS];
	u64 count = 1;

	switch (request) {
	case MMC_IOC_CMD:
		if (copy_from_user(commands, (void __user *)argument, sizeof(commands[0])))
			return -EFAULT;
		break;
	case MMC_IOC_MULTI_CMD:
		if (copy_from_user(&count, &several->num_of_cmds, sizeof(count)))
			return -EFAULT;
		if (!count)
			return 0;
		if (count > COMMANDS)
			return refused(file->private_data);
		if (copy_from_user(commands, several->cmds, count * sizeof(commands[0])))
			return -EFAULT;
		break;
	default:
		return -ENOTTY;
	}
	return exchange_of(file->private_data, commands, count);
}

static int rpmb_open(struct inode *inode, struct file *file)
{
	struct rpmb *rpmb = container_of(file->private_data, struct rpmb, misc);

	kref_get(&rpmb->uses);
	file->private_data = rpmb;
	return nonseekable_open(inode, file);
}

static int rpmb_release(struct inode *inode, struct file *file)
{
	struct rpmb *rpmb = file->private_data;

	kref_put(&rpmb->uses, free_rpmb);
	return 0;
}

static const struct file_operations rpmb_fops = {
	.owner = THIS_MODULE, .open = rpmb_open, .release = rpmb_release, .unlocked_ioctl = rpmb_ioctl, .compat_ioctl = compat_ptr_ioctl,
};

/* Adds the character device, if the card has an RPMB. Called when the areas' buffer exists. */
void mmcq_ko_add_rpmb(struct disk *disk)
{
	static const u8 no_key[32];
	struct mmcq_rpmb how = { .key = no_key, .memory = disk->areas.memory, .memory_bytes = AREA_BYTES };
	struct device *device = &disk->host->pci->dev;
	struct rpmb *rpmb;
	u32 units, write_units;
	int32_t code;
	int error;

	mutex_lock(&disk->areas.lock);
	code = mmcq_rpmb_size(disk->host->number, &how, &units, &write_units);
	mutex_unlock(&disk->areas.lock);
	if (code == MMCQ_E_UNSUPPORTED)
		return;
	if (code) {
		mmcq_ko_note(disk->host, code);
		dev_err(device, "RPMB: %s\n", mmcq_error_name(code));
		return;
	}
	rpmb = kzalloc(sizeof(*rpmb), GFP_KERNEL);
	if (!rpmb) {
		dev_err(device, "no device of RPMB: %d\n", -ENOMEM);
		return;
	}
	kref_init(&rpmb->uses);
	mutex_init(&rpmb->lock);
	rpmb->disk = disk;
	snprintf(rpmb->name, sizeof(rpmb->name), "%srpmb", disk->gendisk->disk_name);
	rpmb->misc = (struct miscdevice) { .minor = MISC_DYNAMIC_MINOR, .name = rpmb->name, .fops = &rpmb_fops, .parent = device, .mode = 0600 };
	error = misc_register(&rpmb->misc);
	if (error) {
		dev_err(device, "no device of RPMB: %d\n", error);
		kfree(rpmb);
		return;
	}
	disk->areas.rpmb = rpmb;
}

/* Removes the character device. A program that has it open gets an error from then on. */
void mmcq_ko_remove_rpmb(struct disk *disk)
{
	struct rpmb *rpmb = disk->areas.rpmb;

	if (!rpmb)
		return;
	disk->areas.rpmb = NULL;
	misc_deregister(&rpmb->misc);
	mutex_lock(&rpmb->lock);
	rpmb->disk = NULL;
	mutex_unlock(&rpmb->lock);
	kref_put(&rpmb->uses, free_rpmb);
}
