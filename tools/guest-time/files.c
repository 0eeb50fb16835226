// files.c: a file system's load inside of the guest. The work is the same in each run; the times are the guest's. One line each.
// files base FOLDER TRANSACTIONS: a small database. Each transaction appends 4 KiB to FOLDER/journal, fdatasync, writes 4 KiB at a random place of FOLDER/table (16 MiB,
//   filled before), fdatasync. After each 64 transactions the journal begins anew (it has no bytes then).
// files unpack FOLDER COUNT: makes COUNT files of 1 to 32 KiB (as many from 1 to 2 KiB as from 16 to 32), 50 in a folder, and syncs, as a program that unpacks a source does.
// files read FOLDER COUNT JOBS: reads these files, compares each byte, one after the other in the order of their making; each of JOBS processes has every JOBSth folder.
#define _GNU_SOURCE
#include "program.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, TABLE_PAGES = 4096, JOURNAL_PAGES = 64, FILE_MAX = 32 << 10, IN_A_FOLDER = 50 };
static char memory[2 * FILE_MAX], back[FILE_MAX];

static int opened(const char *folder, const char *name, int flags) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int file = open(path, flags, 0600);
  if (file < 0) die(path);
  return file;
}

static int by_size(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

static void base(const char *folder, uint64_t transactions) {
  int table = opened(folder, "table", O_RDWR | O_CREAT), journal = opened(folder, "journal", O_RDWR | O_CREAT);
  uint64_t state = 1, *took_ns = calloc(transactions, sizeof *took_ns);
  if (!took_ns) die("memory");
  for (int i = 0; i < TABLE_PAGES; i++)
    if (write(table, memory, PAGE) != PAGE) die("table");
  if (fsync(table)) die("fsync");
  sync();
  uint64_t begin_ns = now_ns(), last_ns = begin_ns;
  for (uint64_t i = 0; i < transactions; i++) {
    uint64_t page = shuffled(&state) % TABLE_PAGES, at = i % JOURNAL_PAGES;
    if (!at && ftruncate(journal, 0)) die("ftruncate");
    if (pwrite(journal, memory + page, PAGE, at * PAGE) != PAGE || fdatasync(journal)) die("journal");
    if (pwrite(table, memory + page, PAGE, page * PAGE) != PAGE || fdatasync(table)) die("table");
    uint64_t now = now_ns();
    took_ns[i] = now - last_ns;
    last_ns = now;
  }
  qsort(took_ns, transactions, sizeof *took_ns, by_size);
  printf("files: database, %lu transactions: %.1f a second, p50 %.3f p99 %.3f p100 %.3f ms\n", transactions, transactions * 1e9 / (last_ns - begin_ns),
         took_ns[(transactions - 1) / 2] / 1e6, took_ns[(transactions * 99 + 99) / 100 - 1] / 1e6, took_ns[transactions - 1] / 1e6);
}

// The size of file N, and its content: the bytes of `memory` from FROM on.
static size_t size_of(uint64_t n, size_t *from) {
  uint64_t state = n + 1, kib = 1 << shuffled(&state) % 5;
  size_t bytes = kib * 1024 + shuffled(&state) % (kib * 1024);
  *from = shuffled(&state) % FILE_MAX;
  return bytes;
}

static void named(char *path, size_t room, const char *folder, uint64_t n) {
  snprintf(path, room, "%s/%lu/%lu.c", folder, n / IN_A_FOLDER, n);
}

static void unpack(const char *folder, uint64_t count) {
  char path[256];
  uint64_t begin_ns = now_ns(), bytes_all = 0;
  for (uint64_t n = 0; n < count; n++) {
    if (n % IN_A_FOLDER == 0) {
      snprintf(path, sizeof path, "%s/%lu", folder, n / IN_A_FOLDER);
      if (mkdir(path, 0700)) die(path);
    }
    size_t from, bytes = size_of(n, &from);
    named(path, sizeof path, folder, n);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0 || write(file, memory + from, bytes) != (ssize_t)bytes || close(file)) die(path);
    bytes_all += bytes;
  }
  uint64_t written_ns = now_ns();
  sync();
  printf("files: %lu files of %.1f MiB: made in %.3f s, with sync %.3f s\n", count, bytes_all / 1048576.0, (written_ns - begin_ns) / 1e9, (now_ns() - begin_ns) / 1e9);
}

static void read_back(const char *folder, uint64_t count, uint64_t jobs, uint64_t job) {
  char path[256];
  for (uint64_t n = 0; n < count; n++) {
    if (n / IN_A_FOLDER % jobs != job) continue;
    size_t from, bytes = size_of(n, &from);
    named(path, sizeof path, folder, n);
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, back, FILE_MAX) != (ssize_t)bytes || close(file)) die(path);
    if (memcmp(back, memory + from, bytes)) {
      fprintf(stderr, "files: %s: another content\n", path);
      exit(1);
    }
  }
}

static int read_all(const char *folder, uint64_t count, uint64_t jobs) {
  uint64_t begin_ns = now_ns();
  for (uint64_t job = 0; job < jobs; job++) {
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child) continue;
    read_back(folder, count, jobs, job);
    exit(0);
  }
  for (uint64_t job = 0; job < jobs; job++) {
    int status;
    if (wait(&status) < 0 || status) return 1;
  }
  printf("files: %lu files read, %lu at a time: %.3f s\n", count, jobs, (now_ns() - begin_ns) / 1e9);
  return 0;
}

int main(int count, char **arguments) {
  const char *what = count > 3 ? arguments[1] : "";
  uint64_t number = count > 3 ? strtoull(arguments[3], NULL, 10) : 0, jobs = count > 4 ? strtoull(arguments[4], NULL, 10) : 0;
  uint64_t state = 1;
  for (size_t i = 0; i < sizeof memory; i += sizeof state) {
    uint64_t word = shuffled(&state);
    memcpy(memory + i, &word, sizeof word);
  }
  if (number && count == 4 && !strcmp(what, "base")) base(arguments[2], number);
  else if (number && count == 4 && !strcmp(what, "unpack")) unpack(arguments[2], number);
  else if (number && jobs && !strcmp(what, "read")) return read_all(arguments[2], number, jobs);
  else {
    fprintf(stderr, "usage: files base FOLDER TRANSACTIONS | unpack FOLDER COUNT | read FOLDER COUNT JOBS\n");
    return 2;
  }
  return 0;
}
