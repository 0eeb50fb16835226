// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* polled.c: a program of the machine of tools/linux-module.sh with polled requests (io_uring, IORING_SETUP_IOPOLL), without a library.
 *   polled read DEVICE FIRST-BYTE BYTES SIZE DEPTH    reads by requests of SIZE, DEPTH at a time; the data go to stdout
 *   polled write DEVICE FIRST-BYTE BYTES SIZE DEPTH   writes what comes from stdin
 *   polled load DEVICE FIRST-BYTE BYTES SIZE DEPTH    reads again and again; ends with 0 when a request fails
 *   polled leave DEVICE FIRST-BYTE BYTES SIZE DEPTH   submits DEPTH reads, looks for the end of none, and waits to be killed
 * It ends with 2 in a kernel without io_uring, with 1 when something is wrong, and says what. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_MAX 32

static int ring, file;
static struct io_uring_params params;
static struct io_uring_sqe *entries;
static uint8_t *sq, *cq;

static void fail(const char *what, int error)
{
	fprintf(stderr, "polled: %s: %s\n", what, strerror(error));
	exit(error == ENOSYS ? 2 : 1);
}

static void *mapped(size_t bytes, off_t what)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);

	if (memory == MAP_FAILED)
		fail("mmap", errno);
	return memory;
}

static uint32_t *at(uint8_t *queue, uint32_t offset)
{
	return (uint32_t *)(queue + offset);
}

static void begin(int writes, void *memory, uint32_t bytes, uint64_t from)
{
	uint32_t tail = *at(sq, params.sq_off.tail), index = tail & *at(sq, params.sq_off.ring_mask);

	entries[index] = (struct io_uring_sqe) {
		.opcode = writes ? IORING_OP_WRITE : IORING_OP_READ, .fd = file, .off = from, .addr = (uintptr_t)memory, .len = bytes,
	};
	at(sq, params.sq_off.array)[index] = index;
	__atomic_store_n(at(sq, params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
}

/* Submits `submit` requests, and waits until `wanted` requests have ended. */
static void enter(uint32_t submit, uint32_t wanted)
{
	int said;

	do {
		said = syscall(SYS_io_uring_enter, ring, submit, wanted, IORING_ENTER_GETEVENTS, NULL, 0);
		if (said < 0 && errno != EINTR && errno != EAGAIN)
			fail("io_uring_enter", errno);
		if (said > 0)
			submit -= said;
	} while (submit);
}

/* Takes the results that are there, and returns their number. If a result is not `bytes`, stores an
 * error number in *wrong. */
static uint32_t take(int32_t bytes, int32_t *wrong)
{
	uint32_t head = *at(cq, params.cq_off.head), tail = __atomic_load_n(at(cq, params.cq_off.tail), __ATOMIC_ACQUIRE), count = tail - head;

	for (; head != tail; head++) {
		const struct io_uring_cqe *end = (struct io_uring_cqe *)(cq + params.cq_off.cqes) + (head & *at(cq, params.cq_off.ring_mask));

		if (end->res != bytes)
			*wrong = end->res < 0 ? end->res : -ENODATA;
	}
	__atomic_store_n(at(cq, params.cq_off.head), head, __ATOMIC_RELEASE);
	return count;
}

int main(int count, char **words)
{
	uint64_t first, bytes, asked = 0, ended = 0;
	uint32_t size, depth, under_way = 0;
	int writes, loads, leaves;
	int32_t wrong = 0;
	uint8_t *memory;

	if (count != 7)
		fail("polled WHAT DEVICE FIRST-BYTE BYTES SIZE DEPTH", EINVAL);
	writes = !strcmp(words[1], "write"), loads = !strcmp(words[1], "load"), leaves = !strcmp(words[1], "leave");
	first = strtoull(words[3], NULL, 0), bytes = strtoull(words[4], NULL, 0);
	size = strtoul(words[5], NULL, 0), depth = strtoul(words[6], NULL, 0);
	if (!size || bytes % size || depth < 1 || depth > DEPTH_MAX)
		fail("SIZE, DEPTH", EINVAL);
	params.flags = IORING_SETUP_IOPOLL;
	ring = syscall(SYS_io_uring_setup, DEPTH_MAX, &params);
	if (ring < 0)
		fail("io_uring_setup", errno);
	sq = mapped(params.sq_off.array + params.sq_entries * 4, IORING_OFF_SQ_RING);
	cq = mapped(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	entries = mapped(params.sq_entries * sizeof(*entries), IORING_OFF_SQES);
	file = open(words[2], (writes ? O_WRONLY : O_RDONLY) | O_DIRECT);
	if (file < 0)
		fail(words[2], errno);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		fail("memory", errno);
	if (writes && fread(memory, 1, bytes, stdin) != bytes)
		fail("stdin is too short", EINVAL);
	if (leaves) {
		for (; asked < depth; asked++)
			begin(0, memory + asked * size, size, first + asked * size);
		if (syscall(SYS_io_uring_enter, ring, depth, 0, 0, NULL, 0) != (int)depth)
			fail("io_uring_enter", errno);
		puts("left");
		fflush(stdout);
		for (;;)
			pause();
	}
	do {
		for (asked = ended = 0; ended < bytes / size && !wrong;) {
			uint32_t some = 0;

			for (; under_way < depth && asked < bytes / size; asked++, under_way++, some++)
				begin(writes, memory + asked * size, size, first + asked * size);
			enter(some, 1);
			some = take(size, &wrong);
			ended += some, under_way -= some;
		}
	} while (loads && !wrong);
	/* The others end as well. */
	while (under_way) {
		enter(0, 1);
		under_way -= take(size, &wrong);
	}
	if (wrong && !loads)
		fail(words[1], -wrong);
	if (!writes && !loads && fwrite(memory, 1, bytes, stdout) != bytes)
		fail("stdout", errno);
	return fflush(stdout) != 0;
}
