/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What `mmcq exec` and `mmcq fio` load into a program. The program's clocks, sleeps, and reads and
 * writes of the card's paths then go to the laboratory, by memory that both share. All else goes
 * to the C library. `shared.rs` has the same layout.
 *
 * A thread that comes here is a *job*. It puts its I/Os into its ring, posts one command, and
 * sleeps until the laboratory lets it go on. Between two of its commands no time passes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13 /* Linux 5.14 */
#endif

#define MAGIC 0x71636d6du
#define FILES 64
#define RING 256 /* I/Os of a job under way: each has a place, and a cell for its data */
#define CELL (32u << 10) /* longer data are copied by the laboratory, with the kernel's help */
#define FIO 1u
#define EPOCH_S 1735689600LL /* 2025-01-01 */
#define BOOT_S 1000LL
#define PIECE (16u << 20)
#define SPINS 4000 /* looks at a word before the job sleeps */
#define LUCK 8     /* without luck, it sleeps at once */
#define RETRY 64   /* handovers until it looks again */
#define SPIN_READS 2000 /* of the clock without a pause: the program spins */
#define POLL_READS 2000000 /* by a thread that has not used the card, of a clock that stands */

enum { READ = 0, WRITE = 1, FLUSH = 2, DURABLE_WRITE = 3 /* not the laboratory's */ };
enum { FREE = 0, CLAIMED = 1, READY = 2 }; /* a job's slot; the laboratory knows it by 3 */
enum { WAIT = 1, SLEEP = 2, END = 3, REFUSE = 4 };

struct file {
  char path[160];
  uint64_t start, bytes;
  uint32_t device, unused[3];
};

struct head {
  uint32_t magic, slots, flags, background;
  _Atomic uint32_t claimed, ready, over;
  int32_t server;
  _Atomic uint32_t front; /* jobs that have not ended, without fio's helper */
  _Atomic uint32_t polled; /* waits for other processes that moved the clock */
  uint32_t gap[6];
  /* As fio has it: a sequence lock and a time. */
  struct {
    volatile int sequence;
    struct timespec time;
  } page;
  _Atomic uint64_t now_ns;
  char refusal[256];
  _Atomic uint32_t guard; /* the process that has it; the programs' alone */
  uint32_t gap2[167];
  struct file files[FILES];
  /* Of each file: folders without a name that stand for it, to be read, written, and both. */
  uint64_t standins[FILES][3];
  uint32_t standin_fds[FILES][3];
  uint32_t lock_fds[FILES];
  uint64_t standins_dev;
};
_Static_assert(offsetof(struct head, standins) == 13312 && offsetof(struct head, standin_fds) == 14848, "layout");
_Static_assert(offsetof(struct head, lock_fds) == 15616 && offsetof(struct head, standins_dev) == 15872, "layout");
_Static_assert(offsetof(struct head, page) == 64 && offsetof(struct head, now_ns) == 88, "layout");
_Static_assert(offsetof(struct head, refusal) == 96 && offsetof(struct head, files) == 1024, "layout");

struct io {
  uint64_t offset, address;
  uint32_t place, in_cell, bytes, op;
};

struct done {
  uint64_t place;
  int64_t result;
};

struct finished {
  uint64_t tag;
  int64_t result;
};

/* An I/O as the job knows it. */
struct asked {
  uint64_t tag;
  void *data;
  uint32_t bytes, op, in_cell;
};

/* Each side looks at a line of the cache that the other writes once in a handover. */
struct slot {
  /* The job writes. */
  _Atomic uint32_t posted;
  uint32_t kind;
  uint64_t argument;
  _Atomic uint32_t head;
  _Atomic uint32_t sleeps; /* the job does: it must be woken */
  _Atomic int32_t pid, tid;
  _Atomic uint32_t state; /* both write it */
  uint32_t gap[7];
  /* The laboratory writes. */
  _Atomic uint32_t released, done_head;
  _Atomic uint32_t heard; /* it sleeps, and must be woken */
  uint32_t gap2[13];
  struct io ios[RING];
  struct done done[RING];
  /* The job's alone. */
  uint32_t put, got, free_places;
  uint16_t free_place[RING];
  struct asked asked[RING];
  /* What it writes on the card, as other jobs see it; with parts of sectors or without. */
  uint64_t writes_start, writes_end;
  uint32_t writes_parts;
};

#define SLOTS_AT 16384
#define SLOT_BYTES 24576
_Static_assert(sizeof(struct slot) <= SLOT_BYTES && sizeof(struct head) <= SLOTS_AT, "layout");
_Static_assert(offsetof(struct slot, released) == 64 && offsetof(struct slot, ios) == 128, "layout");

static struct head *head;
static char *shared;
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THREAD struct slot *own;
OF_THREAD int inside; /* the thread waits for the laboratory, and a signal came */
OF_THREAD int luck = LUCK;
OF_THREAD unsigned handovers;
OF_THREAD int clock_reads;
OF_THREAD uint64_t clock_seen_ns;
OF_THREAD int is_background;
OF_THREAD uint64_t timer_ns;
OF_THREAD uint32_t spare_tag;
static int on_fio, forked, helper_next, helper_made, fio_begins;
static time_t hours;
static pthread_t main_thread;
static pthread_key_t at_end;

#define DESCRIPTORS 65536
/* What a descriptor is: 1 + the index of the card's file, or 0. */
struct held {
  unsigned char index, access, flags;
};

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

static int cannot(int error) {
  errno = error;
  return -1;
}

static long call(long n, long a, long b, long c, long d, long e, long f) {
  static long (*real)(long, ...);
  if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return real(n, a, b, c, d, e, f);
}

static void real_now(clockid_t clock, struct timespec *t) {
  REAL(clock_gettime);
  real(clock, t);
}

__attribute__((noreturn)) static void leave(int code) {
  call(SYS_exit_group, code, 0, 0, 0, 0, 0);
  __builtin_unreachable();
}

static int futex_wait(_Atomic uint32_t *word, uint32_t value, long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  return (int)call(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&t, 0, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
  call(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}

static struct slot *slot_at(uint32_t index) {
  return (struct slot *)(shared + SLOTS_AT + (size_t)index * SLOT_BYTES);
}

static char *cell_at(struct slot *slot, uint32_t place) {
  size_t index = (size_t)((char *)slot - shared - SLOTS_AT) / SLOT_BYTES;
  return shared + SLOTS_AT + (size_t)head->slots * SLOT_BYTES + (index * RING + place) * CELL;
}

/* The laboratory has gone: so does the program. */
static void check_server(void) {
  if (kill(head->server, 0) && errno == ESRCH) leave(1);
}

static void post(struct slot *slot, uint32_t kind, uint64_t argument) {
  slot->kind = kind;
  slot->argument = argument;
  atomic_store_explicit(&slot->head, slot->put, memory_order_relaxed);
  atomic_fetch_add(&slot->posted, 1);
  if (atomic_load(&slot->heard)) futex_wake(&slot->posted);
}

/* What the program cannot have: one line, and the end. */
__attribute__((noreturn)) static void refuse(const char *what) {
  static _Atomic int said;
  if (!atomic_exchange(&said, 1)) {
    snprintf(head->refusal, sizeof head->refusal, "%s", what);
    atomic_store(&head->over, 2);
    futex_wake(&head->over);
  }
  /* The laboratory ends the program. */
  for (;;) {
    check_server();
    futex_wait(&head->over, 2, 200);
  }
}

static int claimed(struct slot *slot) {
  uint32_t was = FREE;
  return atomic_compare_exchange_strong(&slot->state, &was, CLAIMED);
}

/* A slot of its own for a job, as long as there are any; then one whose job has ended. */
static struct slot *claim(void) {
  if (atomic_load(&head->claimed) < head->background) {
    uint32_t index = atomic_fetch_add(&head->claimed, 1);
    if (index < head->background && claimed(slot_at(index))) return slot_at(index);
  }
  for (int tries = 0; tries < 2000; tries++) {
    for (uint32_t i = 0; i < head->background; i++) {
      struct slot *slot = slot_at(i);
      if (!claimed(slot)) continue;
      slot->put = slot->got = 0;
      atomic_store(&slot->head, 0);
      atomic_store(&slot->done_head, 0);
      atomic_store(&slot->posted, 0);
      atomic_store(&slot->sleeps, 0);
      atomic_store(&slot->heard, 0);
      atomic_store(&slot->pid, 0);
      slot->kind = 0;
      slot->writes_end = 0;
      return slot;
    }
    /* The laboratory may not have heard yet of one that has ended. */
    struct timespec t = {0, 1000000};
    call(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
  }
  refuse("more threads use the card at a time than the laboratory has room for");
}

/* All that are claimed may begin. */
static void begin_jobs(void) {
  int any = 0;
  for (uint32_t i = 0; i < head->background; i++) {
    uint32_t was = CLAIMED;
    any |= atomic_compare_exchange_strong(&slot_at(i)->state, &was, READY);
  }
  if (!any) return;
  atomic_fetch_add(&head->ready, 1);
  futex_wake(&head->ready);
}

static void take(struct slot *slot) {
  own = slot;
  for (slot->free_places = 0; slot->free_places < RING; slot->free_places++)
    slot->free_place[slot->free_places] = RING - 1 - slot->free_places;
  atomic_store(&slot->tid, (int)call(SYS_gettid, 0, 0, 0, 0, 0, 0));
  atomic_store(&slot->pid, getpid());
  pthread_setspecific(at_end, slot);
}

/* The calling thread's own place. Fio's main thread has none: its pauses are real. */
static struct slot *job(void) {
  if (own) return own;
  if (on_fio) return NULL;
  take(claim());
  atomic_store(&own->state, READY);
  atomic_fetch_add(&head->ready, 1);
  futex_wake(&head->ready);
  return own;
}

static void ended(void *value) {
  struct slot *slot = value;
  /* A child of vfork has its parent's memory, but not its place. */
  if (slot && own == slot && atomic_load(&slot->pid) == getpid()) {
    own = NULL;
    post(slot, END, 0);
  }
}

/* Posts a command and waits until the laboratory lets this thread go on. */
static void enter(struct slot *slot, uint32_t kind, uint64_t argument) {
  if (inside) refuse("a signal's handler uses the card while its thread does; expected handlers that do not");
  inside = 1;
  uint32_t before = atomic_load(&slot->released);
  clock_reads = 0;
  post(slot, kind, argument);
  /* A look costs less than a sleep, where the laboratory has a CPU of its own. */
  int spins = luck || !(++handovers % RETRY) ? SPINS : 0;
  for (int i = 0; i < spins; i++) {
    if (atomic_load_explicit(&slot->released, memory_order_acquire) != before) {
      if (luck < LUCK) luck++;
      inside = 0;
      return;
    }
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
  }
  luck = luck > 2 ? luck - 2 : 0;
  atomic_store(&slot->sleeps, 1);
  while (atomic_load(&slot->released) == before) {
    futex_wait(&slot->released, before, 200);
    check_server();
    if (atomic_load(&head->over)) leave(1);
  }
  atomic_store(&slot->sleeps, 0);
  inside = 0;
}

static uint64_t now_ns(void) { return atomic_load_explicit(&head->now_ns, memory_order_acquire); }

static void sleep_until(uint64_t at_ns) {
  struct slot *slot = inside ? NULL : job(); /* a signal's handler sleeps for nothing */
  if (!slot) return;
  if (at_ns < now_ns() + 1000) at_ns = now_ns() + 1000;
  enter(slot, SLEEP, at_ns);
}

/* ------------------------------------------------------------------ the beginning and the end */

static void find_inherited(void);
static void forget(void);

__attribute__((constructor)) static void begin(void) {
  fio_begins = getenv("MMCQ_FIO_READS_JOBS") != NULL;
  const char *path = getenv("MMCQ_SHARED");
  if (!path) return;
  int fd = (int)call(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
  struct stat64 st;
  REAL(fstat64);
  if (fd < 0 || !real || real(fd, &st)) return;
  void *at = mmap64(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  call(SYS_close, fd, 0, 0, 0, 0, 0);
  if (at == MAP_FAILED || ((struct head *)at)->magic != MAGIC) return;
  shared = at;
  pthread_key_create(&at_end, ended);
  main_thread = pthread_self();
  struct head *found = at;
  void **page = dlsym(RTLD_DEFAULT, "fio_ts");
  if (found->flags & FIO) {
    on_fio = fio_begins = page != NULL;
    if (page) *page = (void *)&found->page;
  }
  head = found;
  /* The program that this process was before has made way for this one. */
  for (uint32_t i = 0; i < head->background; i++) {
    struct slot *slot = slot_at(i);
    if (atomic_load(&slot->state) != FREE && atomic_load(&slot->pid) == getpid() && slot->kind != END)
      post(slot, END, 0);
  }
  if (getppid() == head->server) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (on_fio) return;
  /* The C library forks by itself too (daemon, forkpty). */
  pthread_atfork(NULL, NULL, forget);
  find_inherited();
}

__attribute__((destructor)) static void finish(void) {
  if (head && !on_fio) fflush(NULL); /* streams of the card */
  if (head && own) ended(own);
}

void _exit(int code) {
  if (head && own) ended(own);
  leave(code);
}

/* I/Os under way are the parent's. */
OF_THREAD struct context *last; /* that has had I/Os of this thread */
OF_THREAD struct finished *set_aside;
OF_THREAD int aside, aside_room;

static void forget(void) {
  own = NULL;
  last = NULL;
  aside = 0;
}

pid_t fork(void) {
  REAL(fork);
  if (!head || !on_fio) {
    pid_t pid = real();
    if (pid == 0) forget();
    return pid;
  }
  struct slot *slot = pthread_equal(pthread_self(), main_thread) ? claim() : NULL;
  pid_t pid = real();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    forked = 1;
    forget();
    if (slot) take(slot);
  } else if (pid < 0 && slot) {
    post(slot, END, 0);
  }
  return pid;
}

/* Fio makes it for its helper, just before that. */
int pipe(int ends[2]) {
  REAL(pipe);
  helper_next = head && on_fio && !forked;
  return real(ends);
}

int pipe2(int ends[2], int flags) {
  REAL(pipe2);
  helper_next = head && on_fio && !forked;
  return real(ends, flags);
}

struct start {
  void *(*routine)(void *);
  void *argument;
  struct slot *slot;
};

static void *started(void *value) {
  struct start start = *(struct start *)value;
  free(value);
  if (start.slot == slot_at(head->background)) is_background = 1;
  take(start.slot);
  return start.routine(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*routine)(void *), void *argument) {
  REAL(pthread_create);
  if (!head || !on_fio) return real(thread, attr, routine, argument);
  /* Before its helper, fio tries its clocks on all CPUs. */
  if (!helper_next && !helper_made) return real(thread, attr, routine, argument);
  if (forked || !pthread_equal(pthread_self(), main_thread))
    refuse("a job of fio makes threads of its own (verify_async, io_submit_mode=offload, posixaio); expected "
           "jobs without them");
  struct start *start = malloc(sizeof *start);
  if (!start) return EAGAIN;
  *start = (struct start){routine, argument, NULL};
  if (!helper_made) {
    helper_made = 1;
    start->slot = slot_at(head->background);
  } else {
    start->slot = claim();
  }
  return real(thread, attr, started, start);
}

