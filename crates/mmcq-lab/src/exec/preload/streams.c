/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ streams */

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
  off64_t result = lseek64((int)(intptr_t)cookie, *at, from);
  if (result < 0) return -1;
  *at = result;
  return 0;
}

static FILE *stream_of(int fd, const char *mode) {
  if (*mode == 'a') lseek64(fd, 0, SEEK_END);
  cookie_io_functions_t with = {stream_read, stream_write, stream_seek, stream_close};
  FILE *stream = fopencookie((void *)(intptr_t)fd, mode, with);
  if (!stream) return NULL;
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

static FILE *opened_stream(int index, const char *mode) {
  int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  if (*mode != 'r') flags |= O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
  flags |= (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
  int fd = open_card(index, flags);
  if (fd < 0) return NULL;
  FILE *stream = stream_of(fd, mode);
  if (!stream) close(fd);
  return stream;
}

#define FOPEN(name) \
  FILE *name(const char *restrict path, const char *restrict mode) { \
    int index = index_of(path); \
    if (index >= 0) return opened_stream(index, mode); \
    REAL(name); \
    return real(path, mode); \
  }
FOPEN(fopen)
FOPEN(fopen64)

FILE *fdopen(int fd, const char *mode) {
  if (is_card(fd)) return stream_of(fd, mode);
  REAL(fdopen);
  return real(fd, mode);
}

#define FREOPEN(name) \
  FILE *name(const char *restrict path, const char *restrict mode, FILE *restrict stream) { \
    if (head && ((path && index_of(path) >= 0) || of_stream(stream) >= 0)) \
      refuse("the program opens a stream of the card again (freopen), which the laboratory cannot follow; expected " \
             "fopen"); \
    REAL(name); \
    return real(path, mode, stream); \
  }
FREOPEN(freopen)
FREOPEN(freopen64)

/* The C library's own streams write by themselves to 0, 1 and 2. Where one of these is the card, a
   stream that goes to the card is in its place. */
static void renew_standard(int fd) {
  static FILE *plain[3];
  static _Atomic int busy;
  FILE **standard = fd == 0 ? &stdin : fd == 1 ? &stdout : &stderr;
  if (on_fio) return;
  int is_ours = held_of[fd].index != 0;
  if (is_ours == (plain[fd] != NULL) || atomic_exchange(&busy, 1)) return;
  if (is_ours) {
    FILE *stream = stream_of(fd, fd == 0 ? "r" : "w");
    if (stream) {
      if (fd == 2) setvbuf(stream, NULL, _IONBF, 0);
      plain[fd] = *standard;
      *standard = stream;
    }
  } else {
    /* Its last bytes went when the program flushed; the descriptor is another file's by now. */
    FILE *stream = *standard;
    *standard = plain[fd];
    plain[fd] = NULL;
    pthread_mutex_lock(&streams_lock);
    for (size_t i = 0; i < STREAMS; i++)
      if (streams[i].stream == stream) streams[i].stream = NULL;
    pthread_mutex_unlock(&streams_lock);
  }
  atomic_store(&busy, 0);
}

#define FILENO(name) \
  int name(FILE *stream) { \
    int fd = head ? of_stream(stream) : -1; \
    if (fd >= 0) return fd; \
    REAL(name); \
    return real(stream); \
  }
FILENO(fileno)
FILENO(fileno_unlocked)
