// load.c: the load inside of the guest. load DEVICE read|write|randread|randwrite[:dsync|:fdatasync] BYTES DEPTH JOBS REQUESTS one|all [REGION [BEFORE_NS]]
// Each of JOBS processes has DEPTH requests of BYTES under way (O_DIRECT; libaio, or pread and pwrite at depth 1). It reaps all that are done and submits as many
// in one call, as the laboratory's jobs do; or, with `one`, one and one, as fio does unless it is told otherwise. Sequential jobs all begin at 0. Each does
// REQUESTS; random places are in the first REGION bytes, all of the device without it (0). At depth 1 a request may have BEFORE_NS of work before it, which
// counts as its latency: the job sleeps, as if it had a core of its own. The rate is that of the steady state: from a quarter to seven eighths of all
// requests. Writes with :dsync are durable each (O_DSYNC), with :fdatasync each is followed by that call, which counts to its latency; both at depth 1. One line of JSON; marks for the plugin's counters stand around the load, if there is the driver that sets them.
#define _GNU_SOURCE
#include "program.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
  uint64_t ready, go, done, from_done, from_ns, until_done, until_ns, last_ns, latency_sum_ns;
  uint32_t latency_ns[];
};
static struct shared *shared;
static uint64_t bytes, depth, jobs, requests, region, before_ns;
static bool writes, is_random, one_by_one, syncs;
static int open_flags = O_DIRECT;

static uint64_t number(const char *text, const char *name) {
  char *end;
  uint64_t value = strtoull(text, &end, 0);
  if (!*text || *end || !value) {
    fprintf(stderr, "load: %s: %s: expected a number above 0\n", name, text);
    exit(2);
  }
  return value;
}

// Context switches of the machine.
static uint64_t switches(void) {
  static char text[65536];
  FILE *file = fopen("/proc/stat", "r");
  size_t count = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[count] = 0;
  char *at = strstr(text, "\nctxt ");
  return at ? strtoull(at + 6, NULL, 10) : 0;
}

static void mark(const char *number) {
  FILE *file = fopen("/sys/module/slot/parameters/mark", "w");
  if (!file) return;
  fputs(number, file);
  fclose(file);
}

// A field of /sys/block/NAME/stat, counted from 0.
static uint64_t block_stat(const char *device, int field) {
  char path[128], text[512];
  snprintf(path, sizeof path, "/sys/block/%s/stat", strrchr(device, '/') + 1);
  FILE *file = fopen(path, "r");
  if (!file || !fgets(text, sizeof text, file)) die(path);
  fclose(file);
  char *at = text;
  uint64_t value = 0;
  for (int i = 0; i <= field; i++) value = strtoull(at, &at, 10);
  return value;
}

static void ended(uint64_t begun_ns, uint64_t now) {
  uint64_t done = __atomic_add_fetch(&shared->done, 1, __ATOMIC_SEQ_CST), all = requests * jobs, took = now - begun_ns;
  __atomic_add_fetch(&shared->latency_sum_ns, took, __ATOMIC_SEQ_CST);
  shared->latency_ns[done - 1] = took < UINT32_MAX ? took : UINT32_MAX;
  if (done == all / 4) shared->from_done = done, shared->from_ns = now;
  if (done == all * 7 / 8) shared->until_done = done, shared->until_ns = now;
  if (done == all) shared->last_ns = now;
}

static void wait_for_all(void) {
  __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
  while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST)) usleep(1000);
}

// One request at a time.
static void work_alone(int file, char *memory, uint64_t job) {
  uint64_t state = job + 1, slots = region / bytes;
  wait_for_all();
  for (uint64_t i = 0; i < requests; i++) {
    uint64_t place = (is_random ? shuffled(&state) % slots : i % slots) * bytes, begun_ns = now_ns();
    struct timespec work = { before_ns / 1000000000, before_ns % 1000000000 };
    if (before_ns) clock_nanosleep(CLOCK_MONOTONIC, 0, &work, NULL);
    if ((writes ? pwrite(file, memory, bytes, place) : pread(file, memory, bytes, place)) != (ssize_t)bytes) die("request");
    if (syncs && fdatasync(file)) die("fdatasync");
    ended(begun_ns, now_ns());
  }
  exit(0);
}

static void work(const char *device, uint64_t job) {
  char name[16];
  snprintf(name, sizeof name, "mmcq%u", (unsigned)job);
  prctl(PR_SET_NAME, name);
  int file = open(device, (writes ? O_RDWR : O_RDONLY) | open_flags);
  if (file < 0) die(device);
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, (long)depth, &context)) die("io_setup");
  char *memory = mmap(NULL, depth * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  struct iocb *blocks = calloc(depth, sizeof *blocks), **list = calloc(depth, sizeof *list);
  struct io_event *events = calloc(depth, sizeof *events);
  uint64_t *begun_ns = calloc(depth, sizeof *begun_ns), *free_slots = calloc(depth, sizeof *free_slots);
  if (memory == MAP_FAILED || !blocks || !list || !events || !begun_ns || !free_slots) die("memory");
  memset(memory, 0x5a + job, depth * bytes);
  if (depth == 1) work_alone(file, memory, job);
  uint64_t state = job + 1, slots = region / bytes, begun = 0, over = 0, free_count = depth;
  for (uint64_t i = 0; i < depth; i++) free_slots[i] = i;
  wait_for_all();
  while (over < requests) {
    uint64_t count = free_count < requests - begun ? free_count : requests - begun, now = now_ns();
    for (uint64_t i = 0; i < count; i++) {
      uint64_t slot = free_slots[--free_count], place = is_random ? shuffled(&state) % slots : begun % slots;
      struct iocb *block = list[i] = &blocks[slot];
      memset(block, 0, sizeof *block);
      block->aio_data = slot;
      block->aio_lio_opcode = writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
      block->aio_fildes = file;
      block->aio_buf = (uintptr_t)(memory + slot * bytes);
      block->aio_nbytes = bytes;
      block->aio_offset = place * bytes;
      begun_ns[slot] = now;
      begun++;
    }
    if (count && syscall(SYS_io_submit, context, (long)count, list) != (long)count) die("io_submit");
    long done_now;
    do done_now = syscall(SYS_io_getevents, context, 1L, one_by_one ? 1L : (long)depth, events, NULL);
    while (done_now < 0 && errno == EINTR);
    if (done_now < 1) die("io_getevents");
    now = now_ns();
    for (long i = 0; i < done_now; i++) {
      if ((uint64_t)events[i].res != bytes) {
        errno = events[i].res < 0 ? -events[i].res : EIO;
        die("request");
      }
      ended(begun_ns[events[i].data], now);
      free_slots[free_count++] = events[i].data;
      over++;
    }
  }
  exit(0);
}

static int by_size(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return (a > b) - (a < b);
}

int main(int count, char **arguments) {
  if (count < 8 || count > 10 || (strcmp(arguments[7], "one") && strcmp(arguments[7], "all"))) {
    fprintf(stderr, "usage: load DEVICE read|write|randread|randwrite[:dsync|:fdatasync] BYTES DEPTH JOBS REQUESTS one|all [REGION [BEFORE_NS]]\n");
    return 2;
  }
  const char *device = arguments[1], *load = arguments[2];
  is_random = !strncmp(load, "rand", 4);
  writes = !!strstr(load, "write");
  bytes = number(arguments[3], "BYTES");
  depth = number(arguments[4], "DEPTH");
  if (strstr(load, ":dsync")) open_flags |= O_DSYNC;
  syncs = !!strstr(load, ":fdatasync");
  if (strchr(load, ':') && (!writes || depth != 1)) {
    fprintf(stderr, "load: %s: expected writes of depth 1\n", load);
    return 2;
  }
  jobs = number(arguments[5], "JOBS");
  requests = number(arguments[6], "REQUESTS");
  int file = open(device, O_RDONLY);
  if (file < 0) die(device);
  one_by_one = !strcmp(arguments[7], "one");
  region = count > 8 && strcmp(arguments[8], "0") ? number(arguments[8], "REGION") : (uint64_t)lseek(file, 0, SEEK_END);
  before_ns = count > 9 ? number(arguments[9], "BEFORE_NS") : 0;
  close(file);
  shared = mmap(NULL, sizeof *shared + requests * jobs * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) die("memory");
  for (uint64_t job = 0; job < jobs; job++) {
    pid_t child = fork();
    if (child < 0) die("fork");
    if (!child) work(device, job);
  }
  while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < jobs) {
    int status;
    if (waitpid(-1, &status, WNOHANG) > 0) return 1;
    usleep(1000);
  }
  int first = writes ? 4 : 0, bad = 0;
  mark("1");
  uint64_t before = block_stat(device, first), switched = switches(), begin_ns = now_ns();
  __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
  for (uint64_t job = 0; job < jobs; job++) {
    int status;
    wait(&status);
    bad |= status;
  }
  switched = switches() - switched;
  mark("2");
  if (bad) return 1;
  uint64_t sent = block_stat(device, first) - before, all = requests * jobs, span_ns = shared->until_ns - shared->from_ns;
  if (!span_ns || !sent) die("too few requests");
  double mib = (double)((shared->until_done - shared->from_done) * bytes) / (1 << 20);
  printf("{\"load\": \"%s\", \"bytes\": %lu, \"depth\": %lu, \"jobs\": %lu, \"requests\": %lu, \"reaps\": \"%s\", \"mib_per_s\": %.3f, \"latency_us\": %.2f, \"merged\": %.3f, "
         "\"elapsed_us\": %.1f, \"switches\": %lu, \"percentiles_us\": {",
         load, bytes, depth, jobs, all, arguments[7], mib * 1e9 / span_ns, shared->latency_sum_ns / 1e3 / all, (double)all / sent,
         (shared->last_ns - begin_ns) / 1e3, switched);
  qsort(shared->latency_ns, all, sizeof(uint32_t), by_size);
  static const double percents[] = { 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99 };
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
    // The least latency that so many percent of all do not exceed.
    uint64_t at = (uint64_t)(percents[i] / 100 * all + 0.999999);
    printf("%s\"%g\": %.1f", i ? ", " : "", percents[i], shared->latency_ns[at ? at - 1 : 0] / 1e3);
  }
  printf("}}\n");
  return 0;
}
