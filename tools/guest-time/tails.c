// tails.c: how long a reader waits beside a writer. tails DISK direct|FILE MS
// The reader reads 4 KiB at random places of the second GiB of DISK, one read at a time (O_DIRECT, pread). The writer writes in sequence, 64 KiB at a time. With
// `direct` it writes to the third GiB of DISK: O_DIRECT, eight writes under way (libaio). Otherwise it writes to FILE through Linux's page cache and never syncs, as a
// program that copies or records; FILE has 256 MiB, which are written again and again. Both begin anew after the last byte.
// The writer begins, the reader a second later. After MS more neither begins a request: so a read that waits until the writer has ended is counted too, and nothing
// waits without a bound. One line: the reads that ended in the MS and all that began; the latencies of all, then of those that began in the second half (bfq prefers a
// program that has just begun to read); and what reached the disk in the MS, by Linux's own count.
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

enum { READ_BYTES = 4096, WRITE_BYTES = 64 << 10, DEPTH = 8, LEAD_MS = 1000, READS_MAX = 1 << 20 };
static const uint64_t GIB = UINT64_C(1) << 30, FILE_BYTES = UINT64_C(256) << 20;

struct shared {
  uint64_t over, half_ns, end_ns, reads, early, in_time;
  uint64_t latency_ns[READS_MAX];
};
static struct shared *shared;

static void wait_ms(uint64_t ms) {
  struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
  while (nanosleep(&t, &t) && errno == EINTR) {}
}

static bool is_over(void) { return __atomic_load_n(&shared->over, __ATOMIC_SEQ_CST); }

static char *memory_of(uint64_t bytes) {
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) die("memory");
  memset(memory, 0x5a, bytes);
  return memory;
}

// Sectors of 512 bytes that were written to the disk since it is there.
static uint64_t sectors_written(const char *disk) {
  char path[128];
  uint64_t sectors;
  snprintf(path, sizeof path, "/sys/block/%s/stat", strrchr(disk, '/') + 1);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%*u %*u %*u %*u %*u %*u %lu", &sectors) != 1) die(path);
  fclose(file);
  return sectors;
}

static void reader(const char *disk) {
  prctl(PR_SET_NAME, "reader");
  int file = open(disk, O_RDONLY | O_DIRECT);
  if (file < 0) die(disk);
  char *memory = memory_of(READ_BYTES);
  uint64_t state = 1, count = 0;
  while (!is_over() && count < READS_MAX) {
    uint64_t place = GIB + shuffled(&state) % (GIB / READ_BYTES) * READ_BYTES, begun_ns = now_ns();
    if (pread(file, memory, READ_BYTES, place) != READ_BYTES) die("read");
    uint64_t ended_ns = now_ns();
    shared->latency_ns[count++] = ended_ns - begun_ns;
    shared->early += begun_ns < shared->half_ns;
    shared->in_time += ended_ns <= shared->end_ns;
  }
  shared->reads = count;
  exit(0);
}

static void writer_direct(const char *disk) {
  int file = open(disk, O_WRONLY | O_DIRECT);
  if (file < 0) die(disk);
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, (long)DEPTH, &context)) die("io_setup");
  char *memory = memory_of(DEPTH * WRITE_BYTES);
  struct iocb blocks[DEPTH], *list[DEPTH];
  struct io_event events[DEPTH];
  uint64_t begun = 0;
  long free_count = DEPTH, under_way = 0;
  int free_slots[DEPTH];
  for (int i = 0; i < DEPTH; i++) free_slots[i] = i;
  while (!is_over() || under_way) {
    long count = is_over() ? 0 : free_count;
    for (long i = 0; i < count; i++) {
      int slot = free_slots[--free_count];
      blocks[slot] = (struct iocb) { .aio_data = slot, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = file, .aio_buf = (uintptr_t)(memory + slot * WRITE_BYTES),
                                     .aio_nbytes = WRITE_BYTES, .aio_offset = 2 * GIB + begun++ * WRITE_BYTES % GIB };
      list[i] = &blocks[slot];
    }
    if (count && syscall(SYS_io_submit, context, count, list) != count) die("io_submit");
    under_way += count;
    if (!under_way) break;
    long ended;
    do ended = syscall(SYS_io_getevents, context, 1L, (long)DEPTH, events, NULL);
    while (ended < 0 && errno == EINTR);
    if (ended < 1) die("io_getevents");
    for (long i = 0; i < ended; i++) {
      if (events[i].res != WRITE_BYTES) {
        errno = events[i].res < 0 ? -events[i].res : EIO;
        die("write");
      }
      free_slots[free_count++] = events[i].data;
    }
    under_way -= ended;
  }
  exit(0);
}

static void writer_buffered(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT, 0600);
  if (file < 0) die(path);
  char *memory = memory_of(WRITE_BYTES);
  for (uint64_t begun = 0; !is_over(); begun++)
    if (pwrite(file, memory, WRITE_BYTES, begun * WRITE_BYTES % FILE_BYTES) != WRITE_BYTES) die("write");
  exit(0);
}

static int by_size(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

// The least latency that so many percent do not exceed; 0 if there are none. Leaves them in order of size.
static double percentile_ms(uint64_t *latency_ns, uint64_t count, double percent) {
  if (!count) return 0;
  qsort(latency_ns, count, sizeof *latency_ns, by_size);
  return latency_ns[(uint64_t)(percent / 100 * count + 0.999999) - 1] / 1e6;
}

int main(int count, char **arguments) {
  uint64_t ms = count == 4 ? strtoull(arguments[3], NULL, 10) : 0;
  if (!ms || !strrchr(arguments[1], '/')) {
    fprintf(stderr, "usage: tails DISK direct|FILE MS\n");
    return 2;
  }
  const char *disk = arguments[1];
  bool is_direct = !strcmp(arguments[2], "direct");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) die("memory");
  pid_t child = fork();
  if (child < 0) die("fork");
  if (!child) {
    prctl(PR_SET_NAME, "writer");
    if (is_direct) writer_direct(disk);
    writer_buffered(arguments[2]);
  }
  wait_ms(LEAD_MS);
  uint64_t before = sectors_written(disk), begin_ns = now_ns();
  shared->half_ns = begin_ns + ms * 500000;
  shared->end_ns = begin_ns + ms * 1000000;
  child = fork();
  if (child < 0) die("fork");
  if (!child) reader(disk);
  wait_ms(ms);
  double mib = (double)(sectors_written(disk) - before) / 2048, seconds = (now_ns() - begin_ns) / 1e9;
  __atomic_store_n(&shared->over, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 2; i++) {
    int status;
    if (wait(&status) < 0 || status) return 1;
  }
  uint64_t reads = shared->reads, late = reads - shared->early;
  printf("tails: writer %s: %lu of %lu reads in time, %.1f a second;", is_direct ? "direct" : "buffered", shared->in_time, reads, shared->in_time / seconds);
  // First those of the second half: the order of all is another one then.
  double late_p50_ms = percentile_ms(shared->latency_ns + shared->early, late, 50);
  static const double percents[] = { 50, 99, 99.9, 100 };
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) printf(" p%g %.3f", percents[i], percentile_ms(shared->latency_ns, reads, percents[i]));
  printf(" ms; second half %lu, p50 %.3f ms; writer %.2f MiB/s\n", late, late_p50_ms, mib / seconds);
  return 0;
}
