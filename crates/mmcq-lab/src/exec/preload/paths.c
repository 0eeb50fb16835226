/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ the card's paths */

static int named(const char *path) {
  for (int i = 0; i < FILES && *head->files[i].path; i++)
    if (!strcmp(path, head->files[i].path)) return i;
  return -1;
}

static int has_name(const char *name) {
  for (int i = 0; i < FILES && *head->files[i].path; i++) {
    const char *own_name = strrchr(head->files[i].path, '/');
    if (own_name && !strcmp(name, own_name + 1)) return 1;
  }
  return 0;
}

/* Makes a path absolute that is relative to an open folder. */
static int whole_path(int dir, const char *path, char whole[PATH_MAX]) {
  long length = 0;
  if (path[0] != '/') {
    if (dir == AT_FDCWD) {
      /* The kernel counts the end too. */
      length = call(SYS_getcwd, (long)whole, PATH_MAX - 2, 0, 0, 0, 0) - 1;
    } else {
      char link[40];
      snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
      length = call(SYS_readlinkat, AT_FDCWD, (long)link, (long)whole, PATH_MAX - 2, 0, 0);
    }
    if (length <= 0) return 0;
    whole[length++] = '/';
  }
  if ((size_t)length + strlen(path) >= PATH_MAX) return 0;
  strcpy(whole + length, path);
  return 1;
}

/* Which of the card's files a path is, by whatever folders and links it goes there. */
static int resolved(int dir, const char *path, int follow) {
  char whole[PATH_MAX], parent[PATH_MAX], target[PATH_MAX];
  if (!whole_path(dir, path, whole)) return -1;
  for (int links = 0; links < 40; links++) {
    int index = named(whole);
    if (index >= 0) return index;
    char *slash = strrchr(whole, '/');
    size_t before = (size_t)(slash - whole);
    if (has_name(slash + 1)) {
      *slash = 0;
      if (realpath(*whole ? whole : "/", parent)) {
        char *joined = target;
        if (snprintf(joined, sizeof target, "%s/%s", strcmp(parent, "/") ? parent : "", slash + 1) < PATH_MAX)
          index = named(joined);
      }
      *slash = '/';
      if (index >= 0) return index;
    }
    if (!follow) return -1;
    long length = call(SYS_readlinkat, AT_FDCWD, (long)whole, (long)target, PATH_MAX - 1, 0, 0);
    if (length <= 0) return -1;
    target[length] = 0;
    static const char gone[] = " (deleted)";
    if (length > (long)sizeof gone && !strcmp(target + length - sizeof gone + 1, gone)) {
      /* A descriptor's own path: /proc/self/fd/3, /dev/stdout. */
      struct stat64 st;
      int access;
      if (call(SYS_newfstatat, AT_FDCWD, (long)whole, (long)&st, 0, 0, 0)) return -1;
      return known_folder(&st, &access) - 1;
    }
    if (*target == '/') {
      strcpy(whole, target);
    } else {
      if (before + 1 + (size_t)length >= PATH_MAX) return -1;
      strcpy(whole + before + 1, target);
    }
  }
  return -1;
}

static int index_at(int dir, const char *path, int follow) {
  if (!head || !path || !*path) return -1;
  int error = errno;
  int index = resolved(dir, path, follow);
  errno = error;
  return index;
}

static int index_of(const char *path) { return index_at(AT_FDCWD, path, 1); }

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
#define STAT_PATH(name, type, follow) \
  int name(const char *restrict path, struct type *restrict st) { \
    int index = index_at(AT_FDCWD, path, follow); \
    if (index >= 0) return fill_stat(index, (struct stat64 *)st); \
    REAL(name); \
    int result = real(path, st); \
    if (result && errno == ENOENT && is_folder(path)) return fill_folder((struct stat64 *)st); \
    return result; \
  }
STAT_PATH(stat, stat, 1)
STAT_PATH(stat64, stat64, 1)
STAT_PATH(lstat, stat, 0)
STAT_PATH(lstat64, stat64, 0)
#define STAT_FD(name, type) \
  int name(int fd, struct type *st) { \
    struct held *held = held_at(fd); \
    if (held) return fill_stat(held->index - 1, (struct stat64 *)st); \
    REAL(name); \
    int result = real(fd, st); \
    int access, index = result ? 0 : known_folder((struct stat64 *)st, &access); \
    return index ? fill_stat(index - 1, (struct stat64 *)st) : result; \
  }
STAT_FD(fstat, stat)
STAT_FD(fstat64, stat64)
static int index_there(int dir, const char *path, int flags) {
  if (path && *path) return index_at(dir, path, !(flags & AT_SYMLINK_NOFOLLOW));
  struct held *held = on_fio ? held_at(dir) : found_at(dir);
  return held ? held->index - 1 : -1;
}

#define STAT_AT(name, type) \
  int name(int dir, const char *restrict path, struct type *restrict st, int flags) { \
    int index = index_there(dir, path, flags); \
    if (index >= 0) return fill_stat(index, (struct stat64 *)st); \
    REAL(name); \
    return real(dir, path, st, flags); \
  }
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict sx) {
  int index = index_there(dir, path, flags);
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
  sx->stx_uid = st.st_uid;
  sx->stx_gid = st.st_gid;
  sx->stx_atime.tv_sec = sx->stx_mtime.tv_sec = sx->stx_ctime.tv_sec = EPOCH_S;
  return 0;
}

/* Programs that were built for an older C library. */
#define STAT_OLD(name, type, with) \
  int name(int version, const char *path, struct type *st) { return with(path, st); }
STAT_OLD(__xstat, stat, stat)
STAT_OLD(__xstat64, stat64, stat64)
STAT_OLD(__lxstat, stat, lstat)
STAT_OLD(__lxstat64, stat64, lstat64)
int __fxstat(int version, int fd, struct stat *st) { return fstat(fd, st); }
int __fxstat64(int version, int fd, struct stat64 *st) { return fstat64(fd, st); }
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags) {
  return fstatat(dir, path, st, flags);
}
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags) {
  return fstatat64(dir, path, st, flags);
}

int access(const char *path, int mode) {
  if (index_of(path) >= 0) return 0;
  REAL(access);
  return real(path, mode);
}

int faccessat(int dir, const char *path, int mode, int flags) {
  if (index_at(dir, path, !(flags & AT_SYMLINK_NOFOLLOW)) >= 0) return 0;
  REAL(faccessat);
  return real(dir, path, mode, flags);
}

/* The name of a new folder may end with slashes. */
static int is_taken(int dir, const char *path) {
  char name[PATH_MAX];
  if (!head || !path || strlen(path) >= sizeof name) return 0;
  strcpy(name, path);
  for (size_t length = strlen(name); length > 1 && name[length - 1] == '/';) name[--length] = 0;
  return index_at(dir, name, 0) >= 0;
}

int mkdir(const char *path, mode_t mode) {
  if (is_folder(path) || is_taken(AT_FDCWD, path)) return cannot(EEXIST);
  REAL(mkdir);
  return real(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode) {
  if (is_taken(dir, path)) return cannot(EEXIST);
  REAL(mkdirat);
  return real(dir, path, mode);
}

/* Owners, modes and times are not kept, and there are no attributes. */
#define OF_PATH(name, type, proto, dir, path, follow, mine, pass) \
  type name proto { \
    if (index_at(dir, path, follow) >= 0) return mine; \
    REAL(name); \
    return real pass; \
  }
OF_PATH(chmod, int, (const char *p, mode_t m), AT_FDCWD, p, 1, 0, (p, m))
OF_PATH(chown, int, (const char *p, uid_t u, gid_t g), AT_FDCWD, p, 1, 0, (p, u, g))
OF_PATH(lchown, int, (const char *p, uid_t u, gid_t g), AT_FDCWD, p, 0, 0, (p, u, g))
OF_PATH(fchmodat, int, (int d, const char *p, mode_t m, int f), d, p, !(f & AT_SYMLINK_NOFOLLOW), 0, (d, p, m, f))
OF_PATH(fchownat, int, (int d, const char *p, uid_t u, gid_t g, int f), d, p, !(f & AT_SYMLINK_NOFOLLOW), 0,
        (d, p, u, g, f))
OF_PATH(utimensat, int, (int d, const char *p, const struct timespec *t, int f), d, p, !(f & AT_SYMLINK_NOFOLLOW), 0,
        (d, p, t, f))
OF_PATH(utimes, int, (const char *p, const struct timeval *t), AT_FDCWD, p, 1, 0, (p, t))
#define ATTRIBUTES(prefix, follow) \
  OF_PATH(prefix##listxattr, ssize_t, (const char *p, char *list, size_t n), AT_FDCWD, p, follow, 0, (p, list, n)) \
  OF_PATH(prefix##getxattr, ssize_t, (const char *p, const char *name, void *to, size_t n), AT_FDCWD, p, follow, \
          cannot(ENODATA), (p, name, to, n)) \
  OF_PATH(prefix##setxattr, int, (const char *p, const char *name, const void *of, size_t n, int f), AT_FDCWD, p, \
          follow, cannot(ENOTSUP), (p, name, of, n, f))
ATTRIBUTES(, 1)
ATTRIBUTES(l, 0)

/* Its place on the card stays. */
static int stays(void) {
  if (on_fio && !own)
    refuse("fio wants to make a file of the card longer than it is; expected a size that is not above that of "
           "--file PATH=SIZE");
  return cannot(EPERM);
}

int unlink(const char *path) {
  if (index_at(AT_FDCWD, path, 0) >= 0) return stays();
  REAL(unlink);
  return real(path);
}

int unlinkat(int dir, const char *path, int flags) {
  if (index_at(dir, path, 0) >= 0) return stays();
  REAL(unlinkat);
  return real(dir, path, flags);
}

int remove(const char *path) {
  if (index_at(AT_FDCWD, path, 0) >= 0) return stays();
  REAL(remove);
  return real(path);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  if (index_at(from_dir, from, 0) >= 0 || index_at(to_dir, to, 0) >= 0) return stays();
  return (int)call(SYS_renameat2, from_dir, (long)from, to_dir, (long)to, flags, 0);
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
  return renameat2(from_dir, from, to_dir, to, 0);
}
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

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

