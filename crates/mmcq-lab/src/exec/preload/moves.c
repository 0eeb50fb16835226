/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ reads and writes */

#define PAGE_LEAST 4096

/* True: all pages of the range are in the program's memory. */
static int are_mapped(const char *at, size_t bytes) {
  static uintptr_t page;
  if (!page) page = (uintptr_t)sysconf(_SC_PAGESIZE);
  unsigned char in[CELL / PAGE_LEAST];
  uintptr_t from = (uintptr_t)at & ~(page - 1), end = (uintptr_t)at + bytes;
  int error = errno, mapped = end >= (uintptr_t)at;
  while (mapped && from < end) {
    uintptr_t part = end - from < CELL ? end - from : CELL;
    mapped = !call(SYS_mincore, (long)from, (long)part, (long)in, 0, 0, 0);
    from += part;
  }
  errno = error;
  return mapped;
}

static int is_mapped(const char *at) { return are_mapped(at, 1); }

/* Puts an I/O into the job's ring; 0: it has as many under way as there may be. Data of a range with
   a hole are not touched here: the laboratory finds the hole, and answers with EFAULT. */
static int put(struct slot *slot, uint32_t op, uint64_t offset, void *data, size_t bytes, uint64_t tag) {
  if (!slot->free_places) return 0;
  uint32_t place = slot->free_place[--slot->free_places];
  uint32_t in_cell = bytes <= CELL && (on_fio || are_mapped(data, bytes));
  slot->asked[place] = (struct asked){tag, data, (uint32_t)bytes, op, in_cell};
  if (op == DURABLE_WRITE) op = WRITE;
  if (op == WRITE && in_cell) memcpy(cell_at(slot, place), data, bytes);
  slot->ios[slot->put++ % RING] =
      (struct io){offset, (uint64_t)(uintptr_t)data, place, in_cell, (uint32_t)bytes, op};
  return 1;
}

#define OF_AIO 1ull /* an address is even */

static int next_done(struct slot *slot, struct finished *out) {
  if (slot->got == atomic_load_explicit(&slot->done_head, memory_order_acquire)) return 0;
  struct done done = slot->done[slot->got++ % RING];
  uint32_t place = (uint32_t)done.place;
  struct asked *asked = &slot->asked[place];
  if (asked->op == READ && asked->in_cell && done.result > 0)
    memcpy(asked->data, cell_at(slot, place), asked->bytes);
  *out = (struct finished){asked->tag, done.result};
  slot->free_place[slot->free_places++] = (uint16_t)place;
  if (asked->op == FLUSH && asked->bytes && done.result >= 0) out->result = asked->bytes;
  if (asked->op != DURABLE_WRITE || done.result < 0) return 1;
  /* As in Linux, a flush follows the write before the program hears of it. */
  uint32_t bytes = asked->bytes;
  put(slot, FLUSH, 0, NULL, 0, asked->tag);
  slot->asked[place].bytes = bytes;
  return next_done(slot, out);
}

/* Does one I/O and waits for it; what else is done meanwhile is set aside for io_getevents. */
static int64_t one(uint32_t op, uint64_t offset, void *data, size_t bytes) {
  struct slot *slot = job();
  if (!slot) {
    take(claim()); /* fio's main thread lays a file out */
    slot = own;
    begin_jobs();
  }
  uint64_t tag = ((uint64_t)++spare_tag << 1) | OF_AIO;
  if (!put(slot, op, offset, data, bytes, tag)) return -EAGAIN;
  for (;;) {
    enter(slot, WAIT, 1);
    struct finished done;
    while (next_done(slot, &done)) {
      if (done.tag == tag) return done.result;
      if (aside == aside_room) {
        aside_room = aside_room ? aside_room * 2 : 64;
        set_aside = realloc(set_aside, (size_t)aside_room * sizeof *set_aside);
        if (!set_aside) leave(1);
      }
      set_aside[aside++] = done;
    }
  }
}

static int flush(void) {
  int64_t result = one(FLUSH, 0, NULL, 0);
  return result >= 0 ? 0 : cannot((int)-result);
}

/* ------------------------------------------------------------------ who writes where */

/* A write of a part of a sector reads it first. Until it is done nobody else writes there, as in the
   system's cache of pages. */
static void reserve(struct slot *slot, uint64_t start, uint64_t end, uint32_t parts) {
  for (;;) {
    int clear = 1;
    guard();
    for (uint32_t i = 0; i < head->background && clear; i++) {
      struct slot *other = slot_at(i);
      clear = other == slot || atomic_load(&other->state) == FREE || other->writes_end <= start ||
              other->writes_start >= end || !(parts || other->writes_parts);
    }
    if (clear) {
      slot->writes_start = start;
      slot->writes_end = end;
      slot->writes_parts = parts;
    }
    unguard();
    if (clear) return;
    sleep_until(now_ns() + 20000);
  }
}

/* ------------------------------------------------------------------ bytes */

OF_THREAD char *bounce;

/* Whole sectors go as they are, others by the sectors they are in. */
static ssize_t in_pieces(struct file *file, uint32_t op, char *data, size_t bytes, uint64_t offset) {
  size_t all = 0;
  if (bytes && !(is_mapped(data) && is_mapped(data + bytes - 1))) return cannot(EFAULT);
  while (all < bytes) {
    size_t part = bytes - all;
    uint64_t place = offset + all;
    int64_t result;
    if (place % 512 == 0 && part >= 512) {
      part = part / 512 * 512;
      if (part > PIECE) part = PIECE;
      result = one(op, file->start + place, data + all, part);
    } else {
      if (!bounce && posix_memalign((void **)&bounce, 512, 512)) return cannot(ENOMEM);
      size_t skip = place % 512;
      if (part > 512 - skip) part = 512 - skip;
      /* A part is in at most two pages. */
      int whole = is_mapped(data + all) && is_mapped(data + all + part - 1);
      result = !whole ? -EFAULT : one(READ, file->start + place - skip, bounce, 512);
      if (result >= 0 && op == WRITE) {
        memcpy(bounce + skip, data + all, part);
        result = one(WRITE, file->start + place - skip, bounce, 512);
      } else if (result >= 0) {
        memcpy(data + all, bounce + skip, part);
      }
    }
    if (result < 0) {
      errno = (int)-result;
      return all ? (ssize_t)all : -1;
    }
    all += part;
  }
  return (ssize_t)all;
}

static int may(const struct held *held, uint32_t op, const void *data, size_t bytes, off64_t at) {
  if (held->flags & ONLY_PATH || held->access == (op == READ ? 1 : 0)) return cannot(EBADF);
  if (at < 0) return cannot(EINVAL);
  if (held->flags & DIRECT && (at % 512 || bytes % 512 || (uintptr_t)data % 512)) return cannot(EINVAL);
  return 0;
}

static ssize_t transfer_by(struct held held, uint32_t op, char *data, size_t bytes, off64_t at) {
  struct file *file = file_of(&held);
  if (op == WRITE && held.flags & APPENDS) at = (off64_t)file->bytes;
  if (may(&held, op, data, bytes, at)) return -1;
  uint64_t offset = (uint64_t)at;
  if (!bytes) return 0;
  if (offset >= file->bytes) return op == READ ? 0 : cannot(ENOSPC);
  if (bytes > file->bytes - offset) bytes = file->bytes - offset;
  if (op == READ || on_fio) {
    ssize_t result = in_pieces(file, op, data, bytes, offset);
    return result > 0 && op == WRITE && held.flags & DURABLE && flush() ? -1 : result;
  }
  struct slot *slot = inside ? NULL : job();
  uint64_t start = file->start + offset, end = start + bytes;
  if (slot) reserve(slot, start / 512 * 512, (end + 511) / 512 * 512, start % 512 || end % 512);
  ssize_t result = in_pieces(file, op, data, bytes, offset);
  if (slot) {
    guard();
    slot->writes_end = 0;
    unguard();
  }
  return result > 0 && held.flags & DURABLE && flush() ? -1 : result;
}

static ssize_t transfer(int fd, uint32_t op, char *data, size_t bytes, off64_t at) {
  return transfer_by(held_of[fd], op, data, bytes, at);
}

/* At the position, which many threads and processes may have together: each takes its part of the
   file before it moves the bytes. */
static ssize_t moving_by(int fd, struct held held, uint32_t op, char *data, size_t bytes) {
  guard();
  off64_t at = call(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
  uint64_t size = file_of(&held)->bytes;
  if (op == WRITE && held.flags & APPENDS) at = (off64_t)size;
  if (may(&held, op, data, bytes, at)) {
    unguard();
    return -1;
  }
  uint64_t room = (uint64_t)at < size ? size - (uint64_t)at : 0;
  off64_t next = at + (off64_t)(bytes < room ? bytes : room);
  call(SYS_lseek, fd, next, SEEK_SET, 0, 0, 0);
  unguard();
  ssize_t result = transfer_by(held, op, data, bytes, at);
  if (at + (result > 0 ? result : 0) != next) {
    int error = errno;
    call(SYS_lseek, fd, at + (result > 0 ? result : 0), SEEK_SET, 0, 0, 0);
    errno = error;
  }
  return result;
}

static ssize_t moving(int fd, uint32_t op, char *data, size_t bytes) {
  return moving_by(fd, held_of[fd], op, data, bytes);
}

/* At `at`, or at the position where that is -1. */
static ssize_t vector(int fd, uint32_t op, const struct iovec *iov, int count, off64_t at, int more, int moves) {
  struct held held = held_of[fd];
  held.flags |= more;
  size_t bytes = 0, part = 0;
  if (count < 0 || count > IOV_MAX) return cannot(EINVAL);
  for (int i = 0; i < count; i++) bytes += iov[i].iov_len;
  int whole = count == 1;
  if (held.flags & DIRECT)
    for (int i = 0; i < count; i++)
      if ((uintptr_t)iov[i].iov_base % 512 || iov[i].iov_len % 512) return cannot(EINVAL);
  for (int i = 0; i < count && op == WRITE && !whole; i++)
    if (!are_mapped(iov[i].iov_base, iov[i].iov_len)) return cannot(EFAULT);
  char *all = NULL;
  if (whole) all = iov[0].iov_base;
  else if (posix_memalign((void **)&all, 512, bytes ? bytes : 1)) return cannot(ENOMEM);
  if (op == WRITE && !whole)
    for (int i = 0; i < count; part += iov[i++].iov_len) memcpy(all + part, iov[i].iov_base, iov[i].iov_len);
  ssize_t result = moves ? moving_by(fd, held, op, all, bytes) : transfer_by(held, op, all, bytes, at);
  if (whole) return result;
  if (op == READ) {
    size_t left = result > 0 ? (size_t)result : 0;
    for (int i = 0; i < count && left; i++) {
      size_t take_now = iov[i].iov_len < left ? iov[i].iov_len : left;
      if (!are_mapped(iov[i].iov_base, take_now)) {
        result = cannot(EFAULT);
        break;
      }
      memcpy(iov[i].iov_base, all + part, take_now);
      part += take_now;
      left -= take_now;
    }
  }
  int error = errno;
  free(all);
  errno = error;
  return result;
}

/* With the flags of one call. */
static ssize_t vector_with(int fd, uint32_t op, const struct iovec *v, int n, off64_t at, int flags) {
  if (flags & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND)) return cannot(EOPNOTSUPP);
  int more = (flags & (RWF_DSYNC | RWF_SYNC) ? DURABLE : 0) | (flags & RWF_APPEND ? APPENDS : 0);
  return vector(fd, op, v, n, at, more, at == -1);
}

/* A call that fails may have been for the card: then it is known now, and done. */
#define FORWARD(name, type, proto, mine, pass) \
  type name proto { \
    if (file_at(fd)) return mine; \
    REAL(name); \
    type result = real pass; \
    return result == (type)-1 && was_for_card(fd) ? mine : result; \
  }
FORWARD(read, ssize_t, (int fd, void *data, size_t n), moving(fd, READ, data, n), (fd, data, n))
FORWARD(write, ssize_t, (int fd, const void *data, size_t n), moving(fd, WRITE, (char *)data, n), (fd, data, n))
FORWARD(pread, ssize_t, (int fd, void *data, size_t n, off_t at), transfer(fd, READ, data, n, at), (fd, data, n, at))
FORWARD(pread64, ssize_t, (int fd, void *data, size_t n, off64_t at), transfer(fd, READ, data, n, at), (fd, data, n, at))
FORWARD(pwrite, ssize_t, (int fd, const void *data, size_t n, off_t at), transfer(fd, WRITE, (char *)data, n, at), (fd, data, n, at))
FORWARD(pwrite64, ssize_t, (int fd, const void *data, size_t n, off64_t at), transfer(fd, WRITE, (char *)data, n, at), (fd, data, n, at))
FORWARD(readv, ssize_t, (int fd, const struct iovec *v, int n), vector(fd, READ, v, n, 0, 0, 1), (fd, v, n))
FORWARD(writev, ssize_t, (int fd, const struct iovec *v, int n), vector(fd, WRITE, v, n, 0, 0, 1), (fd, v, n))
#define VECTOR(name, op, off) \
  FORWARD(name, ssize_t, (int fd, const struct iovec *v, int n, off at), vector(fd, op, v, n, at, 0, 0), (fd, v, n, at))
VECTOR(preadv, READ, off_t)
VECTOR(preadv64, READ, off64_t)
VECTOR(pwritev, WRITE, off_t)
VECTOR(pwritev64, WRITE, off64_t)
#define VECTOR2(name, op, off) \
  FORWARD(name, ssize_t, (int fd, const struct iovec *v, int n, off at, int f), vector_with(fd, op, v, n, at, f), (fd, v, n, at, f))
VECTOR2(preadv2, READ, off_t)
VECTOR2(preadv64v2, READ, off64_t)
VECTOR2(pwritev2, WRITE, off_t)
VECTOR2(pwritev64v2, WRITE, off64_t)

/* Reads of programs that are built with checks of their memory's size. */
__attribute__((noreturn)) void __chk_fail(void);
ssize_t __read_chk(int fd, void *data, size_t n, size_t room) {
  if (n > room) __chk_fail();
  return read(fd, data, n);
}
ssize_t __pread_chk(int fd, void *data, size_t n, off_t at, size_t room) {
  if (n > room) __chk_fail();
  return pread(fd, data, n, at);
}
ssize_t __pread64_chk(int fd, void *data, size_t n, off64_t at, size_t room) {
  if (n > room) __chk_fail();
  return pread64(fd, data, n, at);
}

/* The kernel syncs a folder without a word: what it is must be known before. */
static int is_card(int fd) { return head && (on_fio ? held_at(fd) : found_at(fd)) != NULL; }

#define ON_CARD(name, type, proto, mine, pass) \
  type name proto { \
    if (is_card(fd)) return mine; \
    REAL(name); \
    return real pass; \
  }
ON_CARD(fsync, int, (int fd), flush(), (fd))
ON_CARD(fdatasync, int, (int fd), flush(), (fd))
ON_CARD(syncfs, int, (int fd), flush(), (fd))
ON_CARD(sync_file_range, int, (int fd, off64_t a, off64_t n, unsigned f), 0, (fd, a, n, f))
ON_CARD(posix_fadvise, int, (int fd, off_t a, off_t n, int f), 0, (fd, a, n, f))
ON_CARD(posix_fadvise64, int, (int fd, off64_t a, off64_t n, int f), 0, (fd, a, n, f))
ON_CARD(readahead, ssize_t, (int fd, off64_t a, size_t n), 0, (fd, a, n))

void sync(void) {
  if (head && !on_fio) flush();
  call(SYS_sync, 0, 0, 0, 0, 0, 0);
}

/* A file has its length for ever. */
static int cut_to(const struct file *file, off64_t bytes) {
  if (bytes < 0 || file->device) return cannot(EINVAL);
  return (uint64_t)bytes > file->bytes ? cannot(EFBIG) : 0;
}

static int room_for(const struct file *file, off64_t at, off64_t bytes) {
  if (at < 0 || bytes <= 0) return EINVAL;
  if (file->device) return ENODEV;
  return (uint64_t)at + (uint64_t)bytes > file->bytes ? ENOSPC : 0;
}
ON_CARD(ftruncate, int, (int fd, off_t n), cut_to(file_at(fd), n), (fd, n))
ON_CARD(ftruncate64, int, (int fd, off64_t n), cut_to(file_at(fd), n), (fd, n))
ON_CARD(posix_fallocate, int, (int fd, off_t a, off_t n), room_for(file_at(fd), a, n), (fd, a, n))
ON_CARD(posix_fallocate64, int, (int fd, off64_t a, off64_t n), room_for(file_at(fd), a, n), (fd, a, n))
ON_CARD(fallocate, int, (int fd, int m, off_t a, off_t n), cannot(EOPNOTSUPP), (fd, m, a, n))
ON_CARD(fallocate64, int, (int fd, int m, off64_t a, off64_t n), cannot(EOPNOTSUPP), (fd, m, a, n))
ON_CARD(fchmod, int, (int fd, mode_t m), 0, (fd, m))
ON_CARD(fchown, int, (int fd, uid_t u, gid_t g), 0, (fd, u, g))

#define TRUNCATE(name, off) \
  int name(const char *path, off bytes) { \
    int index = index_of(path); \
    if (index >= 0) return cut_to(&head->files[index], bytes); \
    REAL(name); \
    return real(path, bytes); \
  }
TRUNCATE(truncate, off_t)
TRUNCATE(truncate64, off64_t)

/* Programs read and write where one of these is told that it cannot. */
ssize_t copy_file_range(int in, off64_t *a, int out, off64_t *b, size_t n, unsigned flags) {
  if (is_card(in) || is_card(out)) return cannot(EXDEV);
  REAL(copy_file_range);
  return real(in, a, out, b, n, flags);
}

ssize_t splice(int in, off64_t *a, int out, off64_t *b, size_t n, unsigned flags) {
  if (is_card(in) || is_card(out)) return cannot(EINVAL);
  REAL(splice);
  return real(in, a, out, b, n, flags);
}

#define SENDFILE(name, off) \
  ssize_t name(int out, int in, off *at, size_t n) { \
    if (is_card(in) || is_card(out)) return cannot(EINVAL); \
    static ssize_t (*real)(int, int, off *, size_t); \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    return real(out, in, at, n); \
  }
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

#define MMAP(name, off) \
  void *name(void *where, size_t n, int protection, int flags, int fd, off at) { \
    if (!(flags & MAP_ANONYMOUS) && is_card(fd)) \
      refuse("the program maps the card into its memory (mmap), which the laboratory cannot follow; expected " \
             "reads and writes"); \
    return (void *)call(SYS_mmap, (long)where, (long)n, protection, flags, fd, at); \
  }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* Calls by number. Those of reads and writes are known; others reach the folder, which refuses them. */
long syscall(long n, ...) {
  va_list more;
  va_start(more, n);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(more, long);
  va_end(more);
  if (head && n == 425 && on_fio) /* io_uring_setup */
    refuse("ioengine io_uring speaks to the kernel alone; expected ioengine=libaio, psync, pvsync, pvsync2 or sync");
  int fd = (int)a[0];
  void *data = (void *)a[1];
  if (head) switch (n) {
      case SYS_read: return read(fd, data, (size_t)a[2]);
      case SYS_write: return write(fd, data, (size_t)a[2]);
      case SYS_pread64: return pread64(fd, data, (size_t)a[2], a[3]);
      case SYS_pwrite64: return pwrite64(fd, data, (size_t)a[2], a[3]);
      case SYS_readv: return readv(fd, data, (int)a[2]);
      case SYS_writev: return writev(fd, data, (int)a[2]);
      case SYS_preadv: return preadv64(fd, data, (int)a[2], a[3]);
      case SYS_pwritev: return pwritev64(fd, data, (int)a[2], a[3]);
      case SYS_preadv2: return preadv64v2(fd, data, (int)a[2], a[3], (int)a[5]);
      case SYS_pwritev2: return pwritev64v2(fd, data, (int)a[2], a[3], (int)a[5]);
      case SYS_fsync:
      case SYS_fdatasync: return fsync(fd);
      case SYS_lseek: return lseek64(fd, a[1], (int)a[2]);
      case SYS_openat: return openat(fd, data, (int)a[2], (mode_t)a[3]);
      case SYS_close: return close(fd);
      /* A stand-in for a file is a folder, which is all that the kernel would tell. */
#ifdef SYS_stat
      case SYS_stat: return stat((const char *)a[0], data);
      case SYS_lstat: return lstat((const char *)a[0], data);
#endif
      case SYS_fstat: return fstat(fd, data);
#ifdef SYS_newfstatat
      case SYS_newfstatat: return fstatat(fd, data, (void *)a[2], (int)a[3]);
#endif
#ifdef SYS_statx
      case SYS_statx: return statx(fd, data, (int)a[2], (unsigned)a[3], (void *)a[4]);
#endif
      case SYS_truncate: return truncate((const char *)a[0], a[1]);
      case SYS_ftruncate: return ftruncate(fd, a[1]);
      case SYS_fallocate: return fallocate(fd, (int)a[1], a[2], a[3]);
      case SYS_fcntl: return fcntl(fd, (int)a[1], (void *)a[2]);
      case SYS_sync: sync(); return 0;
      case SYS_futex:
        if (clock_is_on()) return timed_futex(a);
        break;
    }
  return call(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}
