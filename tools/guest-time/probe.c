// probe.c: what a program feels while something happens to its card: a request of 4 KiB each half millisecond, a write and later a read of the same place, around
// the page cache. Where one fails the card is opened again, under whatever name it comes, until that works, and the next one is sent.
//
//   probe MILLISECONDS [mmcblk | mmcqblk]
//
// Begins the schedule of `mmcq guest`. Says, in microseconds from then on: `probe: gap FROM TO`, more than 1 ms from the beginning of a request to the end of
// the next good one; `probe: error AT NAME`, a request that failed; at the end how many there were, how many reads brought blocks of an older write of the place
// than the last good one (a card with a cache may lose those with its supply), and how many what was never written there. A write that failed may be there or not. Built statically by tools/guest-parts.sh; boards/pc does the same for mmcq.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096, PLACES = 256, GAP_US = 1000, PAUSE_US = 500 };

static uint64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static int say(const char *path, const char *text) {
  int file = open(path, O_WRONLY);
  if (file < 0) return -1;
  ssize_t count = write(file, text, strlen(text));
  close(file);
  return count < 0 ? -1 : 0;
}

static const char *disks = "mmcblk";

static int open_card(void) {
  char name[32];
  for (int number = 0; number < 4; number++) {
    snprintf(name, sizeof name, "/dev/%s%d", disks, number);
    int file = open(name, O_RDWR | O_DIRECT);
    if (file >= 0) return file;
  }
  return -1;
}

// A number that was never written to this place.
static int elsewhere(uint32_t number, uint32_t place) { return number && number / 2 * 61 % PLACES != place; }

int main(int count, char **arguments) {
  uint64_t limit_us = count == 2 || count == 3 ? strtoull(arguments[1], NULL, 10) * 1000 : 0;
  if (!limit_us) {
    fprintf(stderr, "usage: probe MILLISECONDS [mmcblk | mmcqblk]\n");
    return 2;
  }
  if (count == 3) disks = arguments[2];
  // The number of the last good write of each place.
  static uint32_t good[PLACES];
  uint32_t *block;
  int file = open_card();
  if (file < 0 || posix_memalign((void **)&block, BYTES, BYTES)) {
    perror("probe");
    return 1;
  }
  uint64_t requests = 0, errors = 0, lost = 0, wrong = 0;
  // Each place has something to read.
  for (uint32_t place = 0; place < PLACES; place++) {
    memset(block, 0, BYTES);
    if (pwrite(file, block, BYTES, (off_t)place * BYTES) != BYTES) {
      perror("probe");
      return 1;
    }
  }
  if (say("/dev/kmsg", "<6>probe: begin\n") || say("/sys/module/slot/parameters/mark", "3")) {
    perror("probe");
    return 1;
  }
  uint64_t begin = now_us(), since = 0;
  for (uint32_t number = 0; now_us() - begin < limit_us; number++) {
    // What was written 128 writes ago is read.
    int writes = !(number & 1);
    uint32_t place = (number / 2 + (writes ? 0 : 128)) * 61 % PLACES;
    if (!since) since = now_us();
    ssize_t done = -1;
    if (file >= 0 && writes) {
      block[0] = block[BYTES / 4 - 1] = number + 1;
      done = pwrite(file, block, BYTES, (off_t)place * BYTES);
    } else if (file >= 0) {
      done = pread(file, block, BYTES, (off_t)place * BYTES);
    }
    uint64_t now = now_us();
    if (done == BYTES) {
      if (now - since > GAP_US) printf("probe: gap %lu %lu\n", (unsigned long)(since - begin), (unsigned long)(now - begin));
      since = 0;
      requests++;
      if (writes) good[place] = number + 1;
      else if (elsewhere(block[0], place) || elsewhere(block[BYTES / 4 - 1], place)) wrong++;
      else lost += block[0] < good[place] || block[BYTES / 4 - 1] < good[place];
    } else if (file >= 0) {
      printf("probe: error %lu %s\n", (unsigned long)(now - begin), strerrorname_np(errno));
      errors++;
      close(file);
      file = open_card();
    } else {
      file = open_card();
    }
    usleep(PAUSE_US);
  }
  printf("probe: %lu requests, %lu errors, %lu lost, %lu wrong\n", (unsigned long)requests, (unsigned long)errors, (unsigned long)lost,
         (unsigned long)wrong);
  return 0;
}
