/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ waits for descriptors */

/* Looks whether something has come, and waits for it really, for so many ms at most. */
struct look {
  int (*now)(const struct look *, int ms);
  void *what, *more;
  int n, epoll;
  const sigset_t *mask;
  fd_set *sets[3];
};

/* What came after the clock was moved came at a time that depends on this machine. */
static int came_late(int came, int moved) {
  if (came && moved) atomic_fetch_add(&head->polled, 1);
  return came;
}

/* Waits of virtual time for what other processes do in their own. Of each ms of virtual time one of
   real time is waited, so that these may run; of long waits less. */
static int wait_for(const struct look *look, int64_t ns) {
  int came = look->now(look, 0);
  if (came) return came;
  if (ns < 0 || inside) return look->now(look, ns < 0 ? -1 : (int)(ns / 1000000));
  uint64_t begin = now_ns(), end = begin + (uint64_t)ns, now = begin;
  do {
    uint64_t step = (now - begin) / 64;
    if (step < 1000000) step = 1000000;
    if (step > 100000000) step = 100000000;
    if (step > end - now) step = end - now;
    if (ns && (came = look->now(look, 1))) return came_late(came, now > begin);
    sleep_until(now + step);
    if ((came = look->now(look, 0))) return came_late(came, step > 0);
    now = now_ns();
  } while (now < end);
  return 0;
}

static int64_t in_ns(const struct timespec *t) {
  return t ? (int64_t)t->tv_sec * 1000000000 + t->tv_nsec : -1;
}

static int look_at_polls(const struct look *look, int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  return (int)call(SYS_ppoll, (long)look->what, look->n, ms < 0 ? 0 : (long)&t, (long)look->mask, _NSIG / 8, 0);
}

static int look_at_epoll(const struct look *look, int ms) {
  return (int)call(SYS_epoll_pwait, look->epoll, (long)look->what, look->n, ms, (long)look->mask, _NSIG / 8);
}

static int look_at_sets(const struct look *look, int ms) {
  fd_set sets[3], *there[3];
  for (int i = 0; i < 3; i++) {
    there[i] = look->sets[i] ? &sets[i] : NULL;
    if (there[i]) sets[i] = *look->sets[i];
  }
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  struct {
    const sigset_t *mask;
    size_t bytes;
  } mask = {look->mask, _NSIG / 8};
  int came = (int)call(SYS_pselect6, look->n, (long)there[0], (long)there[1], (long)there[2],
                       ms < 0 ? 0 : (long)&t, (long)&mask);
  if (came > 0)
    for (int i = 0; i < 3; i++)
      if (there[i]) *look->sets[i] = sets[i];
  return came;
}

/* None has come: the sets are empty. */
static int wait_for_sets(struct look look, int64_t ns) {
  int came = wait_for(&look, ns);
  for (int i = 0; i < 3 && !came; i++)
    if (look.sets[i]) FD_ZERO(look.sets[i]);
  return came;
}

static int readable(fd_set *set, int n) {
  fd_set copy = *set;
  struct timeval none = {0, 0};
  return (int)call(SYS_select, n, (long)&copy, 0, 0, (long)&none, 0);
}

int select(int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict e, struct timeval *restrict timeout) {
  REAL(select);
  if (!clock_is_on()) return real(n, r, w, e, timeout);
  if (is_background && r) {
    /* Fio's helper: it waits for its next sample, or for a word from the main thread. */
    struct slot *slot = own;
    uint64_t at = timeout ? now_ns() + (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_usec * 1000
                          : timer_ns;
    uint32_t before = atomic_load(&slot->released);
    post(slot, SLEEP, at);
    /* Jobs write to it too (at the end of ramp_time): it sees that with its next sample, or when would
       depend on this machine. */
    atomic_store(&slot->sleeps, 1);
    while (atomic_load(&slot->released) == before) {
      uint32_t front = atomic_load(&head->front);
      if (!front && readable(r, n) > 0) break;
      /* The laboratory wakes it too when the last job has ended. */
      futex_wait(&slot->released, before, front ? 200 : 1);
      check_server();
    }
    atomic_store(&slot->sleeps, 0);
    struct timeval none = {0, 0};
    return real(n, r, w, e, &none);
  }
  if (timeout && !r && !w && !e) {
    virtual_pause((uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_usec * 1000);
    return 0;
  }
  if (on_fio) return real(n, r, w, e, timeout);
  int64_t ns = timeout ? timeout->tv_sec * 1000000000LL + timeout->tv_usec * 1000LL : -1;
  return wait_for_sets((struct look){.now = look_at_sets, .n = n, .sets = {r, w, e}}, ns);
}

int pselect(int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict e, const struct timespec *restrict timeout,
            const sigset_t *restrict mask) {
  REAL(pselect);
  if (!clock_is_on() || on_fio) return real(n, r, w, e, timeout, mask);
  return wait_for_sets((struct look){.now = look_at_sets, .n = n, .sets = {r, w, e}, .mask = mask}, in_ns(timeout));
}

int poll(struct pollfd *fds, nfds_t n, int ms) {
  REAL(poll);
  if (!clock_is_on() || (on_fio && (n || ms < 0))) return real(fds, n, ms);
  if (!n && ms >= 0) {
    virtual_pause((uint64_t)ms * 1000000);
    return 0;
  }
  struct look look = {.now = look_at_polls, .what = fds, .n = (int)n};
  return wait_for(&look, ms < 0 ? -1 : ms * 1000000LL);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask) {
  REAL(ppoll);
  if (!clock_is_on() || on_fio) return real(fds, n, timeout, mask);
  struct look look = {.now = look_at_polls, .what = fds, .n = (int)n, .mask = mask};
  return wait_for(&look, in_ns(timeout));
}

/* As the C library's programs call them that are built with checks. */
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room) { return poll(fds, n, ms); }
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t room) {
  return ppoll(fds, n, timeout, mask);
}

int epoll_pwait(int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask) {
  struct look look = {.now = look_at_epoll, .what = events, .n = n, .epoll = fd, .mask = mask};
  if (!clock_is_on() || on_fio) return look_at_epoll(&look, ms);
  return wait_for(&look, ms < 0 ? -1 : ms * 1000000LL);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int ms) { return epoll_pwait(fd, events, n, ms, NULL); }

int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *mask) {
  struct look look = {.now = look_at_epoll, .what = events, .n = n, .epoll = fd, .mask = mask};
  int64_t ns = in_ns(timeout);
  if (!clock_is_on() || on_fio) return look_at_epoll(&look, ns < 0 ? -1 : (int)((ns + 999999) / 1000000));
  return wait_for(&look, ns);
}

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout) {
  REAL(sigtimedwait);
  uint64_t begin = head ? now_ns() : 0;
  int result = real(set, info, timeout);
  int error = errno;
  if (result < 0 && error == EAGAIN && timeout && clock_is_on() && !on_fio) sleep_until(begin + (uint64_t)in_ns(timeout));
  errno = error;
  return result;
}
