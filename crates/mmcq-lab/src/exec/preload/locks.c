/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ locks of records */

/* A folder takes no lock for writing. A file without content, one for each of the card's, has the
   locks of all processes (F_SETLK). */
static int lock_fd[FILES];

static int open_of_server(uint32_t number, int flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%u", head->server, number);
  return (int)call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

/* A process that looks for a lock or a place, and then takes it, is alone meanwhile. */
static void guard(void) {
  uint32_t me = (uint32_t)getpid(), holder = 0;
  for (int tries = 1; !atomic_compare_exchange_weak(&head->guard, &holder, me); holder = 0, tries++) {
    call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    /* The process that had it was killed. */
    if (tries % 1024 == 0 && holder && kill((pid_t)holder, 0) && errno == ESRCH)
      atomic_compare_exchange_strong(&head->guard, &holder, 0);
  }
}

static void unguard(void) { atomic_store(&head->guard, 0); }

static void shut(int fd) {
  int error = errno;
  call(SYS_close, fd, 0, 0, 0, 0, 0);
  errno = error;
}

static int lock_at(int index) {
  if (lock_fd[index] > 0) return lock_fd[index];
  int fd = open_of_server(head->lock_fds[index], O_RDWR);
  if (fd < 0) return fd;
  /* Out of the way of programs that count on low numbers. */
  int high = (int)call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 500, 0, 0, 0);
  if (high >= 0) {
    shut(fd);
    fd = high;
  }
  return lock_fd[index] = fd;
}

static int lock_of_process(int index, int command, struct flock *lock) {
  int result = -1;
  for (int tries = 0; tries < 2; tries++) {
    int at = lock_at(index);
    if (at < 0) return cannot(ENOLCK);
    result = (int)call(SYS_fcntl, at, command, (long)lock, 0, 0, 0);
    if (result >= 0 || errno != EBADF) break;
    lock_fd[index] = 0; /* the program has closed it with all others */
  }
  return result;
}

/* Makes a range count from the file's begin; not 0: there is no such range, or no such lock. */
static int make_absolute(int fd, const struct held *held, int takes, struct flock *lock) {
  if (held->flags & ONLY_PATH) return cannot(EBADF);
  if (takes && ((lock->l_type == F_RDLCK && held->access == 1) || (lock->l_type == F_WRLCK && held->access == 0)))
    return cannot(EBADF);
  if (lock->l_whence == SEEK_CUR) lock->l_start += call(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
  else if (lock->l_whence == SEEK_END) lock->l_start += (off_t)file_of(held)->bytes;
  else if (lock->l_whence != SEEK_SET) return cannot(EINVAL);
  lock->l_whence = SEEK_SET;
  if (lock->l_len < 0) {
    lock->l_start += lock->l_len;
    lock->l_len = -lock->l_len;
  }
  return lock->l_start < 0 ? cannot(EINVAL) : 0;
}

/* Locks of a description (F_OFD_SETLK) are locks for reading of its own folder: so they live as long
   as the description does. Those for writing are behind those for reading. */
#define BEHIND (1LL << 61)

static int mark(int fd, int command, int type, int writes, struct flock *lock) {
  struct flock at = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = lock->l_start + (writes ? BEHIND : 0)};
  at.l_len = lock->l_len ? lock->l_len : BEHIND - lock->l_start;
  int result = (int)call(SYS_fcntl, fd, command, (long)&at, 0, 0, 0);
  if (result < 0 || command != F_OFD_GETLK || at.l_type == F_UNLCK) return result;
  off_t start = at.l_start - (writes ? BEHIND : 0);
  *lock = (struct flock){.l_type = writes ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET, .l_start = start, .l_pid = -1};
  lock->l_len = start + at.l_len == BEHIND ? 0 : at.l_len;
  return 1;
}

/* 1: a description other than that of `fd` has a lock that keeps this one out, and `lock` becomes it. */
static int is_kept_out(int fd, const struct held *held, struct flock *lock) {
  int found = 0;
  for (int access = 0; access < 3 && !found; access++) {
    int is_own = fd >= 0 && access == held->access;
    int at = is_own ? fd : open_of_server(head->standin_fds[held->index - 1][access], O_RDONLY | O_DIRECTORY);
    if (at < 0) return cannot(ENOLCK);
    int writes = lock->l_type == F_WRLCK;
    found = mark(at, F_OFD_GETLK, F_WRLCK, 1, lock);
    if (!found && writes) found = mark(at, F_OFD_GETLK, F_WRLCK, 0, lock);
    if (!is_own) shut(at);
  }
  return found;
}

static int is_far(const struct flock *lock) {
  return lock->l_start >= BEHIND || lock->l_len > BEHIND - lock->l_start;
}

/* False: a signal came. */
static int wait_for_lock(void) {
  struct timespec t = {0, 1000000};
  return !call(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

/* Not 0: the lock cannot be taken, or a lock that keeps it out has been found. */
static int try_description(int fd, const struct held *held, int command, struct flock *lock) {
  int result = 0;
  if (lock->l_type != F_UNLCK) {
    struct flock of_process = *lock;
    if (lock_of_process(held->index - 1, F_OFD_GETLK, &of_process)) return -1;
    if (of_process.l_type == F_UNLCK) {
      result = is_kept_out(fd, held, lock);
    } else {
      *lock = of_process;
      result = 1;
    }
  }
  for (int writes = 0; writes < 2 && !result && command != F_OFD_GETLK; writes++)
    result = mark(fd, F_OFD_SETLK, lock->l_type == (writes ? F_WRLCK : F_RDLCK) ? F_RDLCK : F_UNLCK, writes, lock);
  return result;
}

static int lock_description(int fd, const struct held *held, int command, struct flock *asked) {
  struct flock lock = *asked;
  if (lock.l_pid) return cannot(EINVAL);
  if (lock.l_type != F_RDLCK && lock.l_type != F_WRLCK && (lock.l_type != F_UNLCK || command == F_OFD_GETLK))
    return cannot(EINVAL);
  if (make_absolute(fd, held, command != F_OFD_GETLK, &lock)) return -1;
  if (is_far(&lock)) return cannot(EOVERFLOW);
  for (;;) {
    struct flock other = lock;
    guard();
    int result = try_description(fd, held, command, &other);
    unguard();
    if (result < 0) return -1;
    if (command == F_OFD_GETLK) {
      if (result) *asked = other;
      else asked->l_type = F_UNLCK;
    }
    if (!result || command == F_OFD_GETLK) return 0;
    if (command == F_OFD_SETLK) return cannot(EAGAIN);
    if (!wait_for_lock()) return cannot(EINTR);
  }
}

static int lock_record(int fd, const struct held *held, int command, struct flock *asked) {
  struct flock lock = *asked;
  int index = held->index - 1, result;
  if (make_absolute(fd, held, command != F_GETLK, &lock)) return -1;
  for (;;) {
    struct flock other = lock, none = lock;
    guard();
    result = lock.l_type == F_UNLCK || is_far(&lock) ? 0 : is_kept_out(-1, held, &other);
    int found = result > 0;
    if (!result) result = lock_of_process(index, command == F_SETLKW ? F_SETLK : command, &other);
    unguard();
    if (result < 0 && command == F_SETLKW && (errno == EAGAIN || errno == EACCES)) {
      /* Another process has it. The kernel waits, and finds processes that wait for each other. */
      if (lock_of_process(index, F_SETLKW, &none)) return -1;
      guard();
      result = is_kept_out(-1, held, &other);
      found = result > 0;
      unguard();
      none.l_type = F_UNLCK;
      /* A description has taken a lock meanwhile. */
      if (result) lock_of_process(index, F_SETLK, &none);
    }
    if (result < 0) return -1;
    if (command == F_GETLK) {
      if (other.l_type != F_UNLCK) *asked = other;
      else asked->l_type = F_UNLCK;
    }
    if (!found || command == F_GETLK) return 0;
    if (command == F_SETLK) return cannot(EAGAIN);
    if (!wait_for_lock()) return cannot(EINTR);
  }
}

/* Each close of a file ends the process's locks on it. */
static void unlock_records(int index) {
  if (lock_fd[index] <= 0) return;
  struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  call(SYS_fcntl, lock_fd[index], F_SETLK, (long)&all, 0, 0, 0);
}

