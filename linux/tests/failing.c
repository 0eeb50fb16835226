// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* failing.c: does something in the kernel while one allocation of memory fails, for the machine of tools/linux-debug.sh.
 *   failing N write FILE TEXT      writes to a file, of sysfs say
 *   failing N read FILE            reads a file to its end, of debugfs say
 *   failing N load FILE WORDS      loads a module
 *   failing N unload NAME          unloads a module
 *   failing N rpmb FILE            asks an RPMB device for its counter, as mmc-utils does
 * The Nth allocation of this process fails; 0: none. It prints "ok" or the error's name, and whether there were N. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mmc/ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const places[] = { "write", "read", "load", "unload", "rpmb" };

static int opened(const char *file, int how)
{
	int fd = open(file, how | O_CLOEXEC);

	if (fd < 0) {
		printf("%s: %s\n", file, strerrorname_np(errno));
		exit(1);
	}
	return fd;
}

static long ask_counter(int fd)
{
	static uint8_t frames[2][512] = { { [511] = 2 } };
	struct mmc_ioc_multi_cmd *all = calloc(1, sizeof(*all) + 2 * sizeof(all->cmds[0]));

	all->num_of_cmds = 2;
	all->cmds[0] = (struct mmc_ioc_cmd) { .opcode = 25, .write_flag = 1, .blksz = 512, .blocks = 1 };
	all->cmds[1] = (struct mmc_ioc_cmd) { .opcode = 18, .blksz = 512, .blocks = 1 };
	mmc_ioc_cmd_set_data(all->cmds[0], frames[0]);
	mmc_ioc_cmd_set_data(all->cmds[1], frames[1]);
	return ioctl(fd, MMC_IOC_MULTI_CMD, all);
}

int main(int count, char **words)
{
	static char buffer[65536];
	size_t what;
	int nth, fd = -1, error;
	long result;

	if (count < 4)
		return 2;
	for (what = 0; what < 5 && strcmp(words[2], places[what]); what++)
		;
	if (what == 0 || what == 4)
		fd = opened(words[3], what == 0 ? O_WRONLY : O_RDWR);
	if (what == 2)
		fd = opened(words[3], O_RDONLY);
	nth = opened("/proc/thread-self/fail-nth", O_RDWR);
	if (dprintf(nth, "%s", words[1]) < 0)
		return 2;
	switch (what) {
	case 0:
		result = write(fd, words[4], strlen(words[4]));
		break;
	case 1:
		fd = open(words[3], O_RDONLY);
		result = fd;
		while (result > 0)
			result = read(fd, buffer, sizeof(buffer));
		if (fd >= 0)
			close(fd);
		break;
	case 2:
		result = syscall(SYS_finit_module, fd, count > 4 ? words[4] : "", 0);
		break;
	case 3:
		result = syscall(SYS_delete_module, words[3], O_NONBLOCK);
		break;
	case 4:
		result = ask_counter(fd);
		break;
	default:
		return 2;
	}
	error = errno;
	/* What is left of N; an error: this read has failed as the Nth. */
	memset(buffer, 0, 16);
	if (pread(nth, buffer, 15, 0) < 0)
		buffer[0] = '1';
	for (what = 0; what < 2 && write(nth, "0", 1) != 1; what++)
		;
	printf("%s %s\n", result < 0 ? strerrorname_np(error) : "ok", atoi(buffer) ? "none" : "failed");
	return 0;
}
