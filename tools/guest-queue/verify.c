// verify.c: reads and writes a card at some depth, and looks whether each read gives what was written last. Built by tools/linux-queue.sh.
// verify DEVICE DEPTH REQUESTS STATE mixed|read: REQUESTS of 1 to 16 pages of 4 KiB in the first 32 MiB, O_DIRECT, DEPTH of them under way (libaio), until
// they are done or /tmp/stop is there. Half of the mixed ones write. Pages that are under way are left alone. After each 200 requests the card's cache is
// flushed, with the others still under way. STATE is a file with what each page holds, 0 for what is not known; it is read if it is there, and written at the end.
// One line says what was done; exit code 1: a page was wrong, or a request failed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8192, LONGEST = 16, DEPTH_MAX = 256, FLUSH_EVERY = 200, SAID_MAX = 8 };

// What each page holds, 0 for what is not known; and whether a request is under way there.
static uint32_t holds[PAGES];
static bool taken[PAGES];
struct request {
  bool writes;
  uint32_t first, count, version;
  uint64_t order;
};

static void die(const char *what) {
  fprintf(stderr, "verify: %s: %s\n", what, strerror(errno));
  exit(2);
}

static uint64_t shuffled(uint64_t *state) {
  // SplitMix64.
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

// A page's content: its number and version are in each word.
static uint64_t word(uint32_t page, uint32_t version, uint32_t at) {
  uint64_t seed = (uint64_t)version << 32 | page;
  return seed * UINT64_C(0x9e3779b97f4a7c15) + at;
}

static void fill(uint64_t *memory, uint32_t page, uint32_t version) {
  for (uint32_t i = 0; i < PAGE / 8; i++) memory[i] = word(page, version, i);
}

static bool is(const uint64_t *memory, uint32_t page, uint32_t version) {
  for (uint32_t i = 0; i < PAGE / 8; i++) {
    if (memory[i] != word(page, version, i)) return false;
  }
  return true;
}

static uint64_t number(const char *text, uint64_t most) {
  char *end;
  uint64_t value = strtoull(text, &end, 10);
  if (!*text || *end || !value || value > most) {
    fprintf(stderr, "verify: %s: expected a number from 1 to %lu\n", text, most);
    exit(2);
  }
  return value;
}

int main(int count, char **arguments) {
  if (count != 6 || (strcmp(arguments[5], "mixed") && strcmp(arguments[5], "read"))) {
    fprintf(stderr, "usage: verify DEVICE DEPTH REQUESTS STATE mixed|read\n");
    return 2;
  }
  const char *state_name = arguments[4];
  bool mixed = !strcmp(arguments[5], "mixed");
  uint64_t depth = number(arguments[2], DEPTH_MAX), requests = number(arguments[3], 100000000);
  int file = open(arguments[1], O_RDWR | O_DIRECT), state = open(state_name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || state < 0) die(file < 0 ? arguments[1] : state_name);
  ssize_t known = read(state, holds, sizeof holds);
  if (known && known != sizeof holds) die("the state is of another length");
  uint64_t random = 1;
  for (uint32_t i = 0; i < PAGES; i++) random += holds[i] * (uint64_t)(i + 1);
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, (long)depth, &context)) die("io_setup");
  char *memory = mmap(NULL, depth * LONGEST * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) die("memory");
  static struct iocb blocks[DEPTH_MAX];
  static struct request under_way[DEPTH_MAX];
  static struct io_event events[DEPTH_MAX];
  uint64_t free_slots[DEPTH_MAX], free_count = depth;
  for (uint64_t i = 0; i < depth; i++) free_slots[i] = i;
  uint64_t begun = 0, over = 0, written = 0, flushes = 0, early = 0, wrong = 0, failed = 0, pages = 0, latest = 0;
  while (over < begun || begun < requests) {
    if (begun < requests && !(begun & 63) && !access("/tmp/stop", F_OK)) requests = begun;
    while (free_count && begun < requests) {
      uint64_t slot = free_slots[free_count - 1], dice = shuffled(&random);
      struct request *it = &under_way[slot];
      // Half of them are of one page.
      it->count = dice & 1 ? 1 : 1 + (dice >> 8) % LONGEST;
      it->first = (dice >> 16) % (PAGES - it->count + 1);
      it->writes = mixed && (dice >> 1 & 1);
      bool free = true;
      for (uint32_t i = 0; i < it->count; i++) free &= !taken[it->first + i];
      if (!free) break;
      free_count--;
      it->order = ++begun;
      it->version = begun + 1 + (uint32_t)(random >> 40);
      struct iocb *block = &blocks[slot], *list = block;
      uint64_t *bytes = (uint64_t *)(memory + slot * LONGEST * PAGE);
      for (uint32_t i = 0; i < it->count; i++) {
        taken[it->first + i] = true;
        if (it->writes) fill(bytes + i * PAGE / 8, it->first + i, it->version);
      }
      if (!it->writes) memset(bytes, 0x5a, it->count * PAGE);
      memset(block, 0, sizeof *block);
      block->aio_data = slot;
      block->aio_lio_opcode = it->writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
      block->aio_fildes = file;
      block->aio_buf = (uintptr_t)bytes;
      block->aio_nbytes = it->count * PAGE;
      block->aio_offset = (uint64_t)it->first * PAGE;
      if (syscall(SYS_io_submit, context, 1L, &list) != 1) die("io_submit");
      if (mixed && !(begun % FLUSH_EVERY)) {
        flushes++;
        if (fdatasync(file)) failed++, fprintf(stderr, "verify: flush: %s\n", strerror(errno));
      }
    }
    if (over == begun) continue;
    long done;
    do done = syscall(SYS_io_getevents, context, 1L, (long)depth, events, NULL);
    while (done < 0 && errno == EINTR);
    if (done < 1) die("io_getevents");
    for (long n = 0; n < done; n++) {
      uint64_t slot = events[n].data;
      struct request *it = &under_way[slot];
      uint64_t *bytes = (uint64_t *)(memory + slot * LONGEST * PAGE);
      bool well = events[n].res == (int64_t)it->count * PAGE;
      if (!well && failed++ < SAID_MAX)
        fprintf(stderr, "verify: %s of %u pages at %u: %s\n", it->writes ? "write" : "read", it->count, it->first,
                events[n].res < 0 ? strerror(-events[n].res) : "cut short");
      for (uint32_t i = 0; i < it->count; i++) {
        uint32_t page = it->first + i;
        taken[page] = false;
        if (it->writes) holds[page] = well ? it->version : 0;
        else if (well && holds[page]) {
          pages++;
          if (!is(bytes + i * PAGE / 8, page, holds[page]) && wrong++ < SAID_MAX) fprintf(stderr, "verify: page %u is not what was written\n", page);
        }
      }
      if (it->order < latest) early++;
      else latest = it->order;
      written += it->writes;
      over++;
      free_slots[free_count++] = slot;
    }
  }
  if (mixed && fdatasync(file)) die("the last flush");
  if (pwrite(state, holds, sizeof holds, 0) != sizeof holds) die(state_name);
  printf("verify: depth %lu, %lu requests, %lu of them written, %lu flushes, %lu ended out of order, %lu pages compared, %lu wrong, %lu failed\n", depth, over,
         written, flushes + mixed, early, pages, wrong, failed);
  return wrong || failed;
}
