/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ the card's paths */

static int index_of(const char *path) {
  if (!head || !path) return -1;
  for (int i = 0; i < FILES; i++) {
    const char *own_path = head->files[i].path;
    if (!*own_path) return -1;
    if (!strcmp(path, own_path)) return i;
    /* A relative name. */
    if (path[0] != '/') {
      char cwd[PATH_MAX];
      size_t length;
      const char *name = !strncmp(path, "./", 2) ? path + 2 : path;
      if (getcwd(cwd, sizeof cwd) && (length = strlen(cwd)) && !strncmp(cwd, own_path, length) &&
          own_path[length] == '/' && !strcmp(own_path + length + 1, name))
        return i;
    }
  }
  return -1;
}

static struct file *file_at(int fd) {
  return head && fd >= 0 && fd < DESCRIPTORS && file_of[fd] ? &head->files[file_of[fd] - 1] : NULL;
}

static int open_card(int index, int flags) {
  /* A file without content holds the position, and the locks. */
  int fd = (int)call(SYS_memfd_create, (long)"card", flags & O_CLOEXEC ? MFD_CLOEXEC : 0, 0, 0, 0, 0);
  if (fd < 0) return fd;
  if (fd >= DESCRIPTORS || call(SYS_ftruncate, fd, (long)head->files[index].bytes, 0, 0, 0, 0)) {
    call(SYS_close, fd, 0, 0, 0, 0, 0);
    errno = EMFILE;
    return -1;
  }
  file_of[fd] = (signed char)(index + 1);
  return fd;
}

#define OPEN(name, proto, path, real_call) \
  int name proto { \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
      va_list more; \
      va_start(more, flags); \
      mode = va_arg(more, mode_t); \
      va_end(more); \
    } \
    int index = index_of(path); \
    if (index >= 0) return open_card(index, flags); \
    REAL(name); \
    return real_call; \
  }
OPEN(open, (const char *path, int flags, ...), path, real(path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), path, real(path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), path, real(dir, path, flags, mode))
OPEN(openat64, (int dir, const char *path, int flags, ...), path, real(dir, path, flags, mode))
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
  if (head && fd >= 0 && fd < DESCRIPTORS) file_of[fd] = 0;
  REAL(close);
  return real(fd);
}

static int copied(int from, int to) {
  if (head && from >= 0 && from < DESCRIPTORS && to >= 0) {
    if (to < DESCRIPTORS) file_of[to] = file_of[from];
    else if (file_of[from]) refuse("a descriptor of the card above 65535");
  }
  return to;
}

int dup(int fd) {
  REAL(dup);
  return copied(fd, real(fd));
}

int dup2(int fd, int to) {
  REAL(dup2);
  return copied(fd, real(fd, to));
}

int dup3(int fd, int to, int flags) {
  REAL(dup3);
  return copied(fd, real(fd, to, flags));
}

#define FCNTL(name) \
  int name(int fd, int command, ...) { \
    va_list more; \
    va_start(more, command); \
    void *argument = va_arg(more, void *); \
    va_end(more); \
    REAL(name); \
    /* The file that stands for the card cannot be so, and need not. */ \
    if (command == F_SETFL && file_at(fd)) argument = (void *)((intptr_t)argument & ~(intptr_t)O_DIRECT); \
    int result = real(fd, command, argument); \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copied(fd, result); \
    return result; \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

static int fill_stat(int index, struct stat64 *st) {
  struct file *file = &head->files[index];
  memset(st, 0, sizeof *st);
  st->st_mode = (file->device ? S_IFBLK : S_IFREG) | 0600;
  st->st_nlink = 1;
  st->st_uid = geteuid();
  st->st_gid = getegid();
  st->st_dev = 0x6d6d;
  st->st_ino = (ino_t)index + 1000;
  st->st_rdev = file->device ? makedev(179, 0) : 0;
  st->st_size = file->device ? 0 : (off_t)file->bytes;
  st->st_blksize = 4096;
  st->st_blocks = file->device ? 0 : (blkcnt_t)(file->bytes / 512);
  st->st_atime = st->st_mtime = st->st_ctime = EPOCH_S;
  return 0;
}

/* A folder of the card's files that is not here. While fio only reads its jobs, the files are not
   known yet. */
static int is_folder(const char *path) {
  if (!path || !(fio_begins || head)) return 0;
  if (!head) return 1;
  char at[PATH_MAX];
  size_t length = 0;
  if (path[0] != '/') {
    if (!getcwd(at, sizeof at - 1)) return 0;
    length = strlen(at);
    at[length++] = '/';
  }
  const char *name = !strncmp(path, "./", 2) ? path + 2 : path;
  if (length + strlen(name) >= sizeof at) return 0;
  strcpy(at + length, name);
  for (length = strlen(at); length > 1 && at[length - 1] == '/'; length--) at[length - 1] = 0;
  for (int i = 0; i < FILES && *head->files[i].path; i++)
    if (!strncmp(at, head->files[i].path, length) && head->files[i].path[length] == '/') return 1;
  return 0;
}

static int fill_folder(struct stat64 *st) {
  memset(st, 0, sizeof *st);
  st->st_mode = S_IFDIR | 0700;
  st->st_nlink = 1;
  st->st_uid = geteuid();
  st->st_gid = getegid();
  st->st_dev = 0x6d6d;
  st->st_ino = 999;
  st->st_blksize = 4096;
  st->st_atime = st->st_mtime = st->st_ctime = EPOCH_S;
  return 0;
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "a 64-bit system");
#define STAT_PATH(name, type) \
  int name(const char *restrict path, struct type *restrict st) { \
    int index = index_of(path); \
    if (index >= 0) return fill_stat(index, (struct stat64 *)st); \
    REAL(name); \
    int result = real(path, st); \
    if (result && errno == ENOENT && is_folder(path)) return fill_folder((struct stat64 *)st); \
    return result; \
  }
STAT_PATH(stat, stat)
STAT_PATH(stat64, stat64)
STAT_PATH(lstat, stat)
STAT_PATH(lstat64, stat64)
#define STAT_FD(name, type) \
  int name(int fd, struct type *st) { \
    if (file_at(fd)) return fill_stat(file_of[fd] - 1, (struct stat64 *)st); \
    REAL(name); \
    return real(fd, st); \
  }
STAT_FD(fstat, stat)
STAT_FD(fstat64, stat64)
#define STAT_AT(name, type) \
  int name(int dir, const char *restrict path, struct type *restrict st, int flags) { \
    int index = *path ? index_of(path) : (file_at(dir) ? file_of[dir] - 1 : -1); \
    if (index >= 0) return fill_stat(index, (struct stat64 *)st); \
    REAL(name); \
    return real(dir, path, st, flags); \
  }
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict sx) {
  int index = path && *path ? index_of(path) : (file_at(dir) ? file_of[dir] - 1 : -1);
  if (index < 0) {
    REAL(statx);
    return real(dir, path, flags, mask, sx);
  }
  struct stat64 st;
  fill_stat(index, &st);
  memset(sx, 0, sizeof *sx);
  sx->stx_mask = STATX_BASIC_STATS;
  sx->stx_mode = (uint16_t)st.st_mode;
  sx->stx_nlink = 1;
  sx->stx_size = (uint64_t)st.st_size;
  sx->stx_blocks = (uint64_t)st.st_blocks;
  sx->stx_blksize = 4096;
  sx->stx_ino = st.st_ino;
  sx->stx_rdev_major = major(st.st_rdev);
  sx->stx_rdev_minor = minor(st.st_rdev);
  return 0;
}

int access(const char *path, int mode) {
  if (index_of(path) >= 0) return 0;
  REAL(access);
  return real(path, mode);
}

int faccessat(int dir, const char *path, int mode, int flags) {
  if (index_of(path) >= 0) return 0;
  REAL(faccessat);
  return real(dir, path, mode, flags);
}

int mkdir(const char *path, mode_t mode) {
  if (is_folder(path)) {
    errno = EEXIST;
    return -1;
  }
  REAL(mkdir);
  return real(path, mode);
}

int unlink(const char *path) {
  if (index_of(path) >= 0) {
    if (on_fio && !own)
      refuse("fio wants to make a file of the card longer than it is; expected a size that is not above that of "
             "--file PATH=SIZE");
    /* Its place on the card stays. */
    errno = EPERM;
    return -1;
  }
  REAL(unlink);
  return real(path);
}

int ioctl(int fd, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void *argument = va_arg(more, void *);
  va_end(more);
  struct file *file = file_at(fd);
  if (!file) {
    REAL(ioctl);
    return real(fd, request, argument);
  }
  switch (request) {
    case BLKGETSIZE64: *(uint64_t *)argument = file->bytes; return 0;
    case BLKGETSIZE: *(unsigned long *)argument = file->bytes / 512; return 0;
    case BLKSSZGET: *(int *)argument = 512; return 0;
    case BLKPBSZGET: *(unsigned *)argument = 512; return 0;
    case BLKFLSBUF: return 0;
    default: errno = ENOTTY; return -1;
  }
}

