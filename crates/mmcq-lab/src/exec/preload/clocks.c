/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ clocks and sleeps */

static int is_virtual(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
         clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME ||
         clock == CLOCK_TAI;
}

static int is_wall(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

static void virtual_now(clockid_t clock, struct timespec *t) {
  uint64_t now = now_ns();
  t->tv_sec = (time_t)(now / 1000000000) + (is_wall(clock) ? EPOCH_S : BOOT_S);
  t->tv_nsec = (long)(now % 1000000000);
}

/* Before there are jobs, fio measures the CPU's cycle counter, which it will not need. It takes a
   sixth of a second for that, unless it finds that the counter stands still: in hours, it does. */
static int clock_is_on(void) { return head && (!on_fio || helper_made); }

/* The clock stands while no thread uses the card or sleeps. A program that only looks at it, for a
   second to pass, would look for ever. */
static void stands(void) {
  uint64_t now = now_ns();
  if (now != clock_seen_ns) {
    clock_seen_ns = now;
    clock_reads = 0;
  } else if (++clock_reads > POLL_READS) {
    refuse("the program looks at the clock again and again, which stands while nothing uses the card; expected a "
           "program that uses the card or sleeps, or mmcq fio for fio");
  }
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (!clock_is_on() || !is_virtual(clock)) {
    REAL(clock_gettime);
    int result = real(clock, t);
    if (fio_begins && !helper_made && clock == CLOCK_MONOTONIC) t->tv_sec += 3600 * ++hours;
    return result;
  }
  if (own && ++clock_reads > SPIN_READS) {
    int reads = clock_reads;
    sleep_until(now_ns() + 1000);
    clock_reads = reads;
  }
  if (!own && !on_fio) stands();
  virtual_now(clock, t);
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  if (!clock_is_on()) {
    REAL(gettimeofday);
    return real(tv, zone);
  }
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (tv) *tv = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}

int timespec_get(struct timespec *t, int base) {
  if (base == TIME_UTC && clock_is_on()) return clock_gettime(CLOCK_REALTIME, t) ? 0 : base;
  REAL(timespec_get);
  return real(t, base);
}

/* CPU times are this machine's, and would differ from run to run. */
int getrusage(__rusage_who_t who, struct rusage *usage) {
  if (!head) {
    REAL(getrusage);
    return real(who, usage);
  }
  memset(usage, 0, sizeof *usage);
  return 0;
}

static void real_pause(uint64_t ns) {
  struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  call(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

/* True: the pause has been taken in virtual time. */
static int virtual_pause(uint64_t ns) {
  if (!head) return 0;
  if (on_fio && !own) {
    if (!helper_made) return 1; /* fio measures how long a short sleep takes */
    /* All jobs that it has made are under way: they may begin. */
    begin_jobs();
    real_pause(ns > 2000000 ? 2000000 : ns);
    return 1;
  }
  sleep_until(now_ns() + ns);
  return 1;
}

int nanosleep(const struct timespec *ask, struct timespec *left) {
  if (virtual_pause((uint64_t)ask->tv_sec * 1000000000 + (uint64_t)ask->tv_nsec)) {
    if (left) *left = (struct timespec){0, 0};
    return 0;
  }
  REAL(nanosleep);
  return real(ask, left);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *ask, struct timespec *left) {
  if (head && is_virtual(clock)) {
    uint64_t ns = (uint64_t)ask->tv_sec * 1000000000 + (uint64_t)ask->tv_nsec;
    if (flags & TIMER_ABSTIME) {
      struct timespec t;
      virtual_now(clock, &t);
      uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
      ns = ns > now ? ns - now : 0;
    }
    if (virtual_pause(ns)) return 0;
  }
  REAL(clock_nanosleep);
  return real(clock, flags, ask, left);
}

int usleep(useconds_t us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  return nanosleep(&t, NULL);
}

unsigned sleep(unsigned s) {
  struct timespec t = {s, 0};
  nanosleep(&t, NULL);
  return 0;
}

/* Waits of threads for each other are real, as long as they were to be. */
static void to_real(const struct timespec *at, struct timespec *out) {
  clockid_t clock = at->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  struct timespec now, there;
  virtual_now(clock, &now);
  real_now(clock, &there);
  long long ns = (at->tv_sec - now.tv_sec) * 1000000000LL + at->tv_nsec - now.tv_nsec + there.tv_nsec;
  if (ns < 0) ns = 0;
  *out = (struct timespec){there.tv_sec + ns / 1000000000, ns % 1000000000};
}

/* A time of a clock as the laboratory counts it. */
static uint64_t in_virtual(const struct timespec *at) {
  long long s = at->tv_sec - (at->tv_sec > 1000000000 ? EPOCH_S : BOOT_S);
  return s < 0 ? 1 : (uint64_t)s * 1000000000 + (uint64_t)at->tv_nsec + 1;
}

/* Nothing came: so long is over, for all others too. True: what they did meanwhile may end the wait,
   so it is tried once more, with a limit in the past. */
static int over_at(uint64_t end) {
  int error = errno, moved = end && !on_fio;
  if (moved) sleep_until(end);
  errno = error;
  return moved;
}

#define TIMED(name, proto, pass, version) \
  int name proto { \
    static int(*real) proto; \
    if (!real) real = dlvsym(RTLD_NEXT, #name, version); \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    struct timespec t; \
    uint64_t end = 0; \
    if (clock_is_on() && at) { \
      end = in_virtual(at); \
      to_real(at, &t); \
      at = &t; \
    } \
    int result = real pass; \
    if (result == ETIMEDOUT || result == thrd_timedout || (result < 0 && errno == ETIMEDOUT)) { \
      if (over_at(end)) { \
        t = (struct timespec){0, 0}; \
        result = real pass; \
      } \
    } \
    return result; \
  }
TIMED(pthread_cond_timedwait, (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict at),
      (c, m, at), "GLIBC_2.3.2")
TIMED(pthread_cond_clockwait,
      (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t k, const struct timespec *restrict at),
      (c, m, k, at), "GLIBC_2.34")
TIMED(sem_timedwait, (sem_t *restrict s, const struct timespec *restrict at), (s, at), "GLIBC_2.34")
TIMED(sem_clockwait, (sem_t *restrict s, clockid_t k, const struct timespec *restrict at), (s, k, at), "GLIBC_2.34")
TIMED(pthread_mutex_timedlock, (pthread_mutex_t *restrict m, const struct timespec *restrict at), (m, at), "GLIBC_2.34")
TIMED(pthread_mutex_clocklock, (pthread_mutex_t *restrict m, clockid_t k, const struct timespec *restrict at), (m, k, at),
      "GLIBC_2.34")
TIMED(mtx_timedlock, (mtx_t *restrict m, const struct timespec *restrict at), (m, at), "GLIBC_2.34")
TIMED(cnd_timedwait, (cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict at), (c, m, at), "GLIBC_2.34")
#define TIMED_RWLOCK(of) \
  TIMED(pthread_rwlock_timed##of, (pthread_rwlock_t *restrict l, const struct timespec *restrict at), (l, at), \
        "GLIBC_2.34") \
  TIMED(pthread_rwlock_clock##of, (pthread_rwlock_t *restrict l, clockid_t k, const struct timespec *restrict at), \
        (l, k, at), "GLIBC_2.34")
TIMED_RWLOCK(rdlock)
TIMED_RWLOCK(wrlock)

/* The limit of FUTEX_WAIT is a duration, that of the other waits a time of a clock. */
static long timed_futex(long *a) {
  int op = (int)a[1] & FUTEX_CMD_MASK;
  const struct timespec *at = (const struct timespec *)a[3];
  struct timespec t;
  uint64_t end = 0;
  if (op == FUTEX_WAIT && at) {
    end = now_ns() + (uint64_t)at->tv_sec * 1000000000 + (uint64_t)at->tv_nsec;
  } else if ((op == FUTEX_WAIT_BITSET || op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2 || op == FUTEX_WAIT_REQUEUE_PI) &&
             at) {
    end = in_virtual(at);
    to_real(at, &t);
    a[3] = (long)&t;
  }
  long result = call(SYS_futex, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result < 0 && errno == ETIMEDOUT && over_at(end)) {
    t = (struct timespec){0, 0};
    result = call(SYS_futex, a[0], a[1], a[2], (long)&t, a[4], a[5]);
  }
  return result;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old) {
  if (head && is_background) {
    timer_ns = now_ns() + (uint64_t)new->it_value.tv_sec * 1000000000 + (uint64_t)new->it_value.tv_nsec;
    return 0;
  }
  REAL(timerfd_settime);
  if (head && !on_fio && (new->it_value.tv_sec || new->it_value.tv_nsec))
    refuse("the program sets a timer of a descriptor (timerfd), which runs in real time; expected sleeps, or waits " \
           "with a limit");
  return real(fd, flags, new, old);
}
