/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ reads and writes */

/* Puts an I/O into the job's ring; 0: it has as many under way as there may be. */
static int put(struct slot *slot, uint32_t op, uint64_t offset, void *data, size_t bytes, uint64_t tag) {
  if (!slot->free_places) return 0;
  uint32_t place = slot->free_place[--slot->free_places];
  uint32_t in_cell = bytes <= CELL;
  slot->asked[place] = (struct asked){tag, data, (uint32_t)bytes, op};
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
  if (asked->op == READ && asked->bytes <= CELL && done.result > 0)
    memcpy(asked->data, cell_at(slot, place), asked->bytes);
  *out = (struct finished){asked->tag, done.result};
  slot->free_place[slot->free_places++] = (uint16_t)place;
  return 1;
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

OF_THREAD char *bounce;

/* Bytes that are no whole sectors go by the sectors they are in. */
static ssize_t transfer(int fd, uint32_t op, char *data, size_t bytes, off64_t at) {
  struct file *file = file_at(fd);
  if (at < 0) {
    errno = EINVAL;
    return -1;
  }
  uint64_t offset = (uint64_t)at;
  if (offset >= file->bytes) {
    if (op == READ || !bytes) return 0;
    errno = ENOSPC;
    return -1;
  }
  if (bytes > file->bytes - offset) bytes = file->bytes - offset;
  size_t all = 0;
  while (all < bytes) {
    size_t part = bytes - all;
    uint64_t place = offset + all;
    int64_t result;
    if (place % 512 == 0 && part >= 512) {
      part = part / 512 * 512;
      if (part > PIECE) part = PIECE;
      result = one(op, file->start + place, data + all, part);
    } else {
      if (!bounce && posix_memalign((void **)&bounce, 512, 512)) return -1;
      size_t skip = place % 512;
      if (part > 512 - skip) part = 512 - skip;
      result = one(READ, file->start + place - skip, bounce, 512);
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

static ssize_t moving(int fd, uint32_t op, char *data, size_t bytes) {
  off64_t at = call(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
  ssize_t result = transfer(fd, op, data, bytes, at);
  if (result > 0) call(SYS_lseek, fd, at + result, SEEK_SET, 0, 0, 0);
  return result;
}

static ssize_t vector(int fd, uint32_t op, const struct iovec *iov, int count, off64_t at) {
  size_t bytes = 0, part = 0;
  for (int i = 0; i < count; i++) bytes += iov[i].iov_len;
  if (count == 1) return transfer(fd, op, iov[0].iov_base, bytes, at);
  char *all = malloc(bytes ? bytes : 1);
  if (!all) {
    errno = ENOMEM;
    return -1;
  }
  if (op == WRITE)
    for (int i = 0; i < count; part += iov[i++].iov_len) memcpy(all + part, iov[i].iov_base, iov[i].iov_len);
  ssize_t result = transfer(fd, op, all, bytes, at);
  if (op == READ) {
    size_t left = result > 0 ? (size_t)result : 0;
    for (int i = 0; i < count && left; i++) {
      size_t take_now = iov[i].iov_len < left ? iov[i].iov_len : left;
      memcpy(iov[i].iov_base, all + part, take_now);
      part += take_now;
      left -= take_now;
    }
  }
  free(all);
  return result;
}

#define FORWARD(name, type, proto, mine, pass) \
  type name proto { \
    if (file_at(fd)) return mine; \
    REAL(name); \
    return real pass; \
  }
FORWARD(read, ssize_t, (int fd, void *data, size_t n), moving(fd, READ, data, n), (fd, data, n))
FORWARD(write, ssize_t, (int fd, const void *data, size_t n), moving(fd, WRITE, (char *)data, n), (fd, data, n))
FORWARD(pread, ssize_t, (int fd, void *data, size_t n, off_t at), transfer(fd, READ, data, n, at), (fd, data, n, at))
FORWARD(pread64, ssize_t, (int fd, void *data, size_t n, off64_t at), transfer(fd, READ, data, n, at), (fd, data, n, at))
FORWARD(pwrite, ssize_t, (int fd, const void *data, size_t n, off_t at), transfer(fd, WRITE, (char *)data, n, at), (fd, data, n, at))
FORWARD(pwrite64, ssize_t, (int fd, const void *data, size_t n, off64_t at), transfer(fd, WRITE, (char *)data, n, at), (fd, data, n, at))
FORWARD(preadv, ssize_t, (int fd, const struct iovec *v, int n, off_t at), vector(fd, READ, v, n, at), (fd, v, n, at))
FORWARD(preadv64, ssize_t, (int fd, const struct iovec *v, int n, off64_t at), vector(fd, READ, v, n, at), (fd, v, n, at))
FORWARD(pwritev, ssize_t, (int fd, const struct iovec *v, int n, off_t at), vector(fd, WRITE, v, n, at), (fd, v, n, at))
FORWARD(pwritev64, ssize_t, (int fd, const struct iovec *v, int n, off64_t at), vector(fd, WRITE, v, n, at), (fd, v, n, at))
FORWARD(preadv64v2, ssize_t, (int fd, const struct iovec *v, int n, off64_t at, int f), vector(fd, READ, v, n, at), (fd, v, n, at, f))
FORWARD(pwritev64v2, ssize_t, (int fd, const struct iovec *v, int n, off64_t at, int f), vector(fd, WRITE, v, n, at), (fd, v, n, at, f))

static ssize_t moving_vector(int fd, uint32_t op, const struct iovec *v, int n) {
  off64_t at = call(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
  ssize_t result = vector(fd, op, v, n, at);
  if (result > 0) call(SYS_lseek, fd, at + result, SEEK_SET, 0, 0, 0);
  return result;
}
FORWARD(readv, ssize_t, (int fd, const struct iovec *v, int n), moving_vector(fd, READ, v, n), (fd, v, n))
FORWARD(writev, ssize_t, (int fd, const struct iovec *v, int n), moving_vector(fd, WRITE, v, n), (fd, v, n))

static int flush(void) {
  int64_t result = one(FLUSH, 0, NULL, 0);
  if (result >= 0) return 0;
  errno = (int)-result;
  return -1;
}
FORWARD(fsync, int, (int fd), flush(), (fd))
FORWARD(fdatasync, int, (int fd), flush(), (fd))
FORWARD(sync_file_range, int, (int fd, off64_t a, off64_t n, unsigned f), 0, (fd, a, n, f))
FORWARD(posix_fadvise, int, (int fd, off_t a, off_t n, int f), 0, (fd, a, n, f))
FORWARD(posix_fadvise64, int, (int fd, off64_t a, off64_t n, int f), 0, (fd, a, n, f))
/* The place on the card is as long as it is. */
FORWARD(ftruncate, int, (int fd, off_t n), 0, (fd, n))
FORWARD(ftruncate64, int, (int fd, off64_t n), 0, (fd, n))
FORWARD(posix_fallocate, int, (int fd, off_t a, off_t n), 0, (fd, a, n))
FORWARD(posix_fallocate64, int, (int fd, off64_t a, off64_t n), 0, (fd, a, n))
static int cannot(int error) {
  errno = error;
  return -1;
}
FORWARD(fallocate, int, (int fd, int m, off_t a, off_t n), cannot(EOPNOTSUPP), (fd, m, a, n))
FORWARD(fallocate64, int, (int fd, int m, off64_t a, off64_t n), cannot(EOPNOTSUPP), (fd, m, a, n))

#define MMAP(name, off) \
  void *name(void *where, size_t n, int protection, int flags, int fd, off at) { \
    if (!(flags & MAP_ANONYMOUS) && file_at(fd)) \
      refuse("the program maps the card into its memory (mmap), which the laboratory cannot follow; expected " \
             "reads and writes"); \
    return (void *)call(SYS_mmap, (long)where, (long)n, protection, flags, fd, at); \
  }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* Streams of the card: the C library's own do not come to the functions above. */
static struct {
  FILE *stream;
  int fd;
} streams[64];
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
#define STREAMS (sizeof streams / sizeof *streams)

static int of_stream(FILE *stream) {
  int fd = -1;
  pthread_mutex_lock(&streams_lock);
  for (size_t i = 0; i < STREAMS; i++)
    if (streams[i].stream == stream) fd = streams[i].fd;
  pthread_mutex_unlock(&streams_lock);
  return fd;
}

static int stream_close(void *cookie) {
  int fd = (int)(intptr_t)cookie;
  pthread_mutex_lock(&streams_lock);
  for (size_t i = 0; i < STREAMS; i++)
    if (streams[i].stream && streams[i].fd == fd) streams[i].stream = NULL;
  pthread_mutex_unlock(&streams_lock);
  return close(fd);
}

static ssize_t stream_read(void *cookie, char *data, size_t n) { return read((int)(intptr_t)cookie, data, n); }

static ssize_t stream_write(void *cookie, const char *data, size_t n) {
  ssize_t result = write((int)(intptr_t)cookie, data, n);
  return result < 0 ? 0 : result;
}

static int stream_seek(void *cookie, off64_t *at, int from) {
  long result = call(SYS_lseek, (int)(intptr_t)cookie, *at, from, 0, 0, 0);
  if (result < 0) return -1;
  *at = result;
  return 0;
}

static FILE *stream_of(int index, const char *mode) {
  int fd = open_card(index, strchr(mode, 'e') ? O_CLOEXEC : 0);
  if (fd < 0) return NULL;
  if (*mode == 'a') call(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0);
  cookie_io_functions_t with = {stream_read, stream_write, stream_seek, stream_close};
  FILE *stream = fopencookie((void *)(intptr_t)fd, mode, with);
  if (!stream) {
    close(fd);
    return NULL;
  }
  setvbuf(stream, NULL, _IOFBF, 4096); /* a file's */
  pthread_mutex_lock(&streams_lock);
  size_t i = 0;
  while (i < STREAMS && streams[i].stream) i++;
  if (i < STREAMS) {
    streams[i].stream = stream;
    streams[i].fd = fd;
  }
  pthread_mutex_unlock(&streams_lock);
  if (i == STREAMS) refuse("more than 64 streams of the card (fopen)");
  return stream;
}

#define FOPEN(name) \
  FILE *name(const char *restrict path, const char *restrict mode) { \
    int index = index_of(path); \
    if (index >= 0) return stream_of(index, mode); \
    REAL(name); \
    return real(path, mode); \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define FILENO(name) \
  int name(FILE *stream) { \
    int fd = head ? of_stream(stream) : -1; \
    if (fd >= 0) return fd; \
    REAL(name); \
    return real(stream); \
  }
FILENO(fileno)
FILENO(fileno_unlocked)

ssize_t copy_file_range(int in, off64_t *a, int out, off64_t *b, size_t n, unsigned flags) {
  if (file_at(in) || file_at(out)) return cannot(EXDEV);
  REAL(copy_file_range);
  return real(in, a, out, b, n, flags);
}

ssize_t sendfile(int out, int in, off_t *at, size_t n) {
  if (file_at(in) || file_at(out)) return cannot(EINVAL);
  static ssize_t (*real)(int, int, off_t *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "sendfile");
  return real(out, in, at, n);
}

long syscall(long n, ...) {
  va_list more;
  va_start(more, n);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(more, long);
  va_end(more);
  if (head && n == 425 && on_fio) /* io_uring_setup */
    refuse("ioengine io_uring speaks to the kernel alone; expected ioengine=libaio, psync, pvsync, pvsync2 or sync");
  if (head && (n == SYS_pread64 || n == SYS_pwrite64) && file_at((int)a[0]))
    return transfer((int)a[0], n == SYS_pread64 ? READ : WRITE, (char *)a[1], (size_t)a[2], a[3]);
  return call(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ------------------------------------------------------------------ libaio */

/* The kernel's, as <linux/aio_abi.h> has them. */
struct iocb {
  uint64_t data;
  uint32_t key;
  int32_t flags;
  uint16_t opcode;
  int16_t priority;
  uint32_t fd;
  uint64_t buffer, bytes;
  int64_t offset;
  uint64_t unused;
  uint32_t more_flags, event;
};
struct io_event {
  uint64_t data, object;
  int64_t result, result2;
};
struct context {
  int under_way, room;
  struct slot *owner; /* of what is under way */
};

static int make_context(int depth, void **out) {
  struct context *context = calloc(1, 4096); /* fio looks at a ring's magic in there */
  if (!context) return -ENOMEM;
  context->room = depth < RING ? depth : RING;
  *out = context;
  return 0;
}

static void of_thread(struct context *context, struct slot *slot) {
  if (last && last != context && last->under_way)
    refuse("two libaio contexts of one thread have I/Os under way; expected one at a time");
  last = context;
  if (!context->under_way) context->owner = slot;
  if (context->owner != slot)
    refuse("two threads have I/Os of one libaio context under way; expected a context for each thread");
}

#define AIO(name, proto, pass) \
  int name proto { \
    static int(*real) proto; \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    if (!head) return real ? real pass : -ENOSYS;

AIO(io_queue_init, (int depth, void **out), (depth, out))
  return make_context(depth, out);
}
AIO(io_setup, (int depth, void **out), (depth, out))
  return make_context(depth, out);
}
AIO(io_cancel, (void *context, struct iocb *io, struct io_event *out), (context, io, out))
  return -EAGAIN;
}

AIO(io_submit, (void *value, long count, struct iocb **ios), (value, count, ios))
  struct context *context = value;
  struct slot *slot = job();
  if (!slot) return -EINVAL;
  of_thread(context, slot);
  long taken = 0;
  for (; taken < count && context->under_way < context->room; taken++) {
    struct iocb *io = ios[taken];
    struct file *file = file_at((int)io->fd);
    uint32_t op = io->opcode == 0 ? READ : io->opcode == 1 ? WRITE : FLUSH;
    if (!file || (io->opcode > 1 && io->opcode != 2 && io->opcode != 3)) break;
    uint64_t at = (uint64_t)io->offset;
    if (op != FLUSH && (at % 512 || io->bytes % 512 || !io->bytes || io->bytes > PIECE ||
                        at > file->bytes || io->bytes > file->bytes - at))
      break;
    if (!put(slot, op, op == FLUSH ? 0 : file->start + at, (void *)(uintptr_t)io->buffer, op == FLUSH ? 0 : io->bytes,
             (uint64_t)(uintptr_t)io))
      break;
    context->under_way++;
  }
  if (taken || !count) return (int)taken;
  return context->under_way >= context->room || !slot->free_places ? -EAGAIN : -EINVAL;
}

static int deliver(struct context *context, struct slot *slot, long most, struct io_event *events) {
  int got = 0;
  struct finished done;
  while (got < most) {
    if (aside) {
      done = set_aside[0];
      memmove(set_aside, set_aside + 1, (size_t)--aside * sizeof *set_aside);
    } else if (!next_done(slot, &done)) {
      break;
    }
    struct iocb *io = (struct iocb *)(uintptr_t)done.tag;
    events[got++] = (struct io_event){io->data, done.tag, done.result, 0};
    context->under_way--;
  }
  return got;
}

AIO(io_getevents, (void *value, long least, long most, struct io_event *events, struct timespec *timeout),
    (value, least, most, events, timeout))
  struct context *context = value;
  struct slot *slot = job();
  if (!slot) return -EINVAL;
  of_thread(context, slot);
  if (least > context->under_way) least = context->under_way;
  int got = 0;
  if (least <= 0) {
    /* A look: it costs a moment, or the program could look for ever. */
    sleep_until(now_ns() + 1000);
    return deliver(context, slot, most, events);
  }
  for (;;) {
    got += deliver(context, slot, most - got, events + got);
    if (got >= least) return got;
    if (timeout && !timeout->tv_sec && !timeout->tv_nsec) return got;
    enter(slot, WAIT, (uint64_t)(least - got));
  }
}

/* As the kernel's, it waits for what is under way. */
static int end_context(struct context *context) {
  struct io_event event;
  while (context->under_way && context->owner == own && io_getevents(context, 1, 1, &event, NULL) > 0) {
  }
  if (last == context) last = NULL;
  free(context);
  return 0;
}

AIO(io_destroy, (void *context), (context))
  return end_context(context);
}
AIO(io_queue_release, (void *context), (context))
  return end_context(context);
}
