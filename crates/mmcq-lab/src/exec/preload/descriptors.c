/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ the card's descriptors */

static void renew_standard(int fd);

static int open_card(int index, int flags) {
  int access = flags & O_ACCMODE;
  if (flags & O_DIRECTORY) return cannot(ENOTDIR);
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return cannot(EEXIST);
  if (access == 3) return cannot(EINVAL);
  if (flags & O_PATH) access = 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%u", head->server, head->standin_fds[index][access]);
  int kept = flags & (O_CLOEXEC | O_APPEND | O_NONBLOCK | O_SYNC | O_PATH | O_DIRECT);
  int fd = (int)call(SYS_openat, AT_FDCWD, (long)path, to_standin(kept), 0, 0, 0);
  if (fd < 0) return fd;
  if (!found_at(fd)) {
    call(SYS_close, fd, 0, 0, 0, 0, 0);
    return cannot(EIO);
  }
  if (fd <= 2) renew_standard(fd);
  return fd;
}

/* What the program has printed goes where it was to go, before the number is another file's. */
static void leaves(int fd) {
  if (head && fd >= 0 && fd <= 2 && held_of[fd].index) fflush(fd == 0 ? stdin : fd == 1 ? stdout : stderr);
}

static int copied(int from, int to) {
  if (head && from >= 0 && from < DESCRIPTORS && to >= 0) {
    if (to < DESCRIPTORS) {
      held_of[to] = held_of[from];
      if (to <= 2) renew_standard(to);
    } else if (held_of[from].index) {
      refuse("a descriptor of the card above 65535");
    }
  }
  return to;
}

/* ------------------------------------------------------------------ calls */

#define OPEN(name, proto, dir, path, real_call) \
  int name proto { \
    mode_t mode = 0; \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
      va_list more; \
      va_start(more, flags); \
      mode = va_arg(more, mode_t); \
      va_end(more); \
    } \
    int index = index_at(dir, path, !(flags & O_NOFOLLOW)); \
    if (index >= 0) return open_card(index, flags); \
    REAL(name); \
    int fd = real_call; \
    if (fd >= 0 && fd <= 2 && head && !on_fio) { \
      held_of[fd].index = 0; \
      renew_standard(fd); \
    } \
    return fd; \
  }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, path, real(path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, path, real(path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), dir, path, real(dir, path, flags, mode))
OPEN(openat64, (int dir, const char *path, int flags, ...), dir, path, real(dir, path, flags, mode))
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int dir, const char *path, int flags) { return openat(dir, path, flags); }
int __openat64_2(int dir, const char *path, int flags) { return openat64(dir, path, flags); }

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
  struct held *held = held_at(fd);
  if (held) {
    unlock_records(held->index - 1);
    leaves(fd);
    held_of[fd].index = 0;
    if (fd <= 2) renew_standard(fd);
  }
  REAL(close);
  return real(fd);
}

int dup(int fd) {
  REAL(dup);
  return copied(fd, real(fd));
}

int dup2(int fd, int to) {
  REAL(dup2);
  if (fd != to) leaves(to);
  return copied(fd, real(fd, to));
}

int dup3(int fd, int to, int flags) {
  REAL(dup3);
  leaves(to);
  return copied(fd, real(fd, to, flags));
}

static int control(int fd, struct held *held, int command, void *argument) {
  int result;
  switch (command) {
    case F_GETFL:
      result = (int)call(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
      return result < 0 ? result : (of_standin(result) & ~O_ACCMODE) | held->access;
    case F_SETFL:
      result = (int)call(SYS_fcntl, fd, F_SETFL, to_standin((int)(intptr_t)argument), 0, 0, 0);
      found_at(fd);
      return result;
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW: return lock_record(fd, held, command, argument);
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return lock_description(fd, held, command, argument);
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: return copied(fd, (int)call(SYS_fcntl, fd, command, (long)argument, 0, 0, 0));
    case F_GETFD:
    case F_SETFD: return (int)call(SYS_fcntl, fd, command, (long)argument, 0, 0, 0);
    default: return cannot(EINVAL); /* leases, seals */
  }
}

#define FCNTL(name) \
  int name(int fd, int command, ...) { \
    va_list more; \
    va_start(more, command); \
    void *argument = va_arg(more, void *); \
    va_end(more); \
    struct held *held = held_at(fd); \
    if (held || (!on_fio && command != F_GETFD && command != F_SETFD && (held = found_at(fd)))) \
      return control(fd, held, command, argument); \
    REAL(name); \
    int result = real(fd, command, argument); \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copied(fd, result); \
    return result; \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

/* A folder has no end, and the card's file no holes. */
static off64_t seek(int fd, const struct file *file, off64_t at, int from) {
  off64_t bytes = (off64_t)file->bytes;
  if (from == SEEK_END) at += bytes;
  else if (from == SEEK_CUR) at += call(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
  else if ((from == SEEK_DATA || from == SEEK_HOLE) && (at < 0 || at >= bytes)) return cannot(ENXIO);
  else if (from == SEEK_HOLE) at = bytes;
  else if (from != SEEK_SET && from != SEEK_DATA) return cannot(EINVAL);
  if (at < 0 || (file->device && at > bytes)) return cannot(EINVAL);
  return call(SYS_lseek, fd, at, SEEK_SET, 0, 0, 0);
}

#define SEEK(name, off) \
  off name(int fd, off at, int from) { \
    struct held *held = held_at(fd); \
    if (!held && !on_fio && from != SEEK_SET && from != SEEK_CUR) held = found_at(fd); \
    if (held && !(held->flags & ONLY_PATH)) return seek(fd, file_of(held), at, from); \
    REAL(name); \
    return real(fd, at, from); \
  }
SEEK(lseek, off_t)
SEEK(lseek64, off64_t)

/* Descriptors that the program got from the one before it, or from its parent. */
static void find_inherited(void) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    int fd = atoi(entry->d_name);
    if (*entry->d_name != '.' && fd != dirfd(folder)) found_at(fd);
  }
  closedir(folder);
  for (int fd = 0; fd <= 2; fd++)
    if (held_of[fd].index) renew_standard(fd);
}
