// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* ask.c: what the machine of tools/linux-module.sh asks of mmcq.ko and for which it has no program.
 *   ask zero|discard|secure DEVICE FIRST-BYTE BYTES   prints "ok" or the error's name
 *   ask refused FD     the RPMB device refuses everything but its frames
 *   ask gone FD        the RPMB device has lost its card
 *   ask split FD       a request for the counter and its answer, each by an ioctl of its own
 * It ends with 1 where something is not as it should be, and says what. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/mmc/ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

static int wrong;
static uint8_t frame[512], answer[512], many[200 * 512];

static struct mmc_ioc_cmd command(uint32_t opcode, int write_flag, uint32_t blocks, void *data)
{
	struct mmc_ioc_cmd command = { .opcode = opcode, .write_flag = write_flag, .blksz = 512, .blocks = blocks };

	mmc_ioc_cmd_set_data(command, data);
	return command;
}

static struct mmc_ioc_cmd of(const char *what, int fd, struct mmc_ioc_cmd one, int expected)
{
	int error = ioctl(fd, MMC_IOC_CMD, &one) ? errno : 0;

	if (error != expected) {
		printf("%s: %s, expected %s\n", what, strerrorname_np(error), strerrorname_np(expected));
		wrong = 1;
	}
	return one;
}

static void several(const char *what, int fd, int count, const struct mmc_ioc_cmd *each, int expected)
{
	struct mmc_ioc_multi_cmd *all = calloc(1, sizeof(*all) + 8 * sizeof(*each));
	int i, error;

	for (i = 0; each && i < count; i++)
		all->cmds[i] = each[i];
	all->num_of_cmds = count;
	error = ioctl(fd, MMC_IOC_MULTI_CMD, all) ? errno : 0;
	if (error != expected) {
		printf("%s: %s, expected %s\n", what, strerrorname_np(error), strerrorname_np(expected));
		wrong = 1;
	}
	free(all);
}

static void refused(int fd)
{
	struct mmc_ioc_cmd put = command(25, 1, 1, frame), get = command(18, 0, 1, answer), other;

	of("CMD6", fd, command(6, 1, 1, frame), EOPNOTSUPP);
	of("CMD8", fd, command(8, 0, 1, answer), EOPNOTSUPP);
	of("CMD24", fd, command(24, 1, 1, frame), EOPNOTSUPP);
	of("CMD25 as a read", fd, command(25, 0, 1, frame), EOPNOTSUPP);
	of("no blocks", fd, command(25, 1, 0, frame), EOPNOTSUPP);
	of("200 blocks", fd, command(25, 1, 200, many), EOPNOTSUPP);
	of("2^31 blocks", fd, command(18, 0, 1u << 31, many), EOPNOTSUPP);
	other = put, other.blksz = 256, of("half frames", fd, other, EOPNOTSUPP);
	other = put, other.arg = 8, of("an address", fd, other, EOPNOTSUPP);
	other = put, other.is_acmd = 1, of("an ACMD", fd, other, EOPNOTSUPP);
	of("no memory", fd, command(25, 1, 1, NULL), EFAULT);
	several("none", fd, 0, NULL, 0);
	several("read before write", fd, 2, (struct mmc_ioc_cmd[]){ get, put }, EOPNOTSUPP);
	several("two reads", fd, 2, (struct mmc_ioc_cmd[]){ get, get }, EOPNOTSUPP);
	several("three writes", fd, 3, (struct mmc_ioc_cmd[]){ put, put, put }, EOPNOTSUPP);
	several("four", fd, 4, (struct mmc_ioc_cmd[]){ put, put, get, get }, EOPNOTSUPP);
	several("255", fd, 255, NULL, EOPNOTSUPP);
	if (!ioctl(fd, BLKGETSIZE, many) || errno != ENOTTY)
		printf("BLKGETSIZE is not ENOTTY\n"), wrong = 1;
}

/* The counter, with the request and the answer apart. */
static void split(int fd)
{
	frame[511] = 2;
	memset(frame + 484, 0x5a, 16);
	of("request", fd, command(25, 1, 1, frame), 0);
	of("answer", fd, command(18, 0, 1, answer), 0);
	if (answer[510] != 2 || answer[511] || memcmp(answer + 484, frame + 484, 16))
		printf("the answer is none to the request: %02x%02x\n", answer[510], answer[511]), wrong = 1;
}

static void erase(unsigned long request, const char *device, uint64_t first, uint64_t bytes)
{
	uint64_t range[2] = { first, bytes };
	int fd = open(device, O_RDWR | O_EXCL);

	if (fd < 0)
		puts(strerrorname_np(errno));
	else
		puts(ioctl(fd, request, range) ? strerrorname_np(errno) : "ok");
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	int fd = count > 2 ? atoi(words[2]) : -1;

	if (count == 5) {
		erase(!strcmp(what, "zero") ? BLKZEROOUT : !strcmp(what, "secure") ? BLKSECDISCARD : BLKDISCARD, words[2],
		      strtoull(words[3], NULL, 0), strtoull(words[4], NULL, 0));
		return 0;
	}
	if (!strcmp(what, "refused"))
		refused(fd);
	else if (!strcmp(what, "split"))
		split(fd);
	else if (!strcmp(what, "gone"))
		of("a card that is gone", fd, command(25, 1, 1, frame), ENODEV);
	else
		wrong = 1, puts("ask WHAT ...");
	return wrong;
}
