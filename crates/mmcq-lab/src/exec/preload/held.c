/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ what a descriptor is */

/* What stands for the card's file is a folder that has no name. The kernel refuses all that this
   library does not know: reads (EISDIR), writes (EBADF), maps, splices, io_uring. It keeps what a
   descriptor has: the position, O_APPEND and O_SYNC, flock. Which folder it is tells the file and
   whether it may be read and written, so an inherited descriptor is known too. */

enum { DURABLE = 1, APPENDS = 2, DIRECT = 4, ONLY_PATH = 8 };

static struct held held_of[DESCRIPTORS];

/* A folder takes no O_DIRECT: O_NOATIME is in its place. */
static int to_standin(int flags) { return (flags & ~O_DIRECT & ~O_NOATIME) | (flags & O_DIRECT ? O_NOATIME : 0); }

static int of_standin(int flags) { return (flags & ~O_NOATIME) | (flags & O_NOATIME ? O_DIRECT : 0); }

/* Which of the card's files a folder is: 1 + index; 0: none. */
static int known_folder(const struct stat64 *st, int *access) {
  if (!head || !S_ISDIR(st->st_mode) || st->st_dev != head->standins_dev) return 0;
  for (int i = 0; i < FILES && *head->files[i].path; i++)
    for (int a = 0; a < 3; a++)
      if (head->standins[i][a] == st->st_ino) {
        *access = a;
        return i + 1;
      }
  return 0;
}

/* Asks the kernel what a descriptor is. */
static struct held asked_of(int fd) {
  struct held held = {0};
  struct stat64 st;
  int access = 0, error = errno;
  if (fd >= 0 && !call(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) && (held.index = known_folder(&st, &access))) {
    int flags = (int)call(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    held.access = access;
    held.flags = (flags & O_DSYNC ? DURABLE : 0) | (flags & O_APPEND ? APPENDS : 0) |
                 (flags & O_NOATIME ? DIRECT : 0) | (flags & O_PATH ? ONLY_PATH : 0);
    if (fd >= DESCRIPTORS) refuse("a descriptor of the card above 65535");
  }
  errno = error;
  return held;
}

/* A descriptor that the program has made or got where this library did not see it. */
static struct held *found_at(int fd) {
  if (!head || fd < 0) return NULL;
  struct held held = asked_of(fd);
  if (fd < DESCRIPTORS) held_of[fd] = held;
  return held.index ? &held_of[fd] : NULL;
}

/* The C library may have closed it, and another file may have its number. fio does not do so. */
static struct held *held_at(int fd) {
  if (!head || fd < 0 || fd >= DESCRIPTORS || !held_of[fd].index) return NULL;
  return on_fio ? &held_of[fd] : found_at(fd);
}

static struct file *file_of(const struct held *held) { return &head->files[held->index - 1]; }

static struct file *file_at(int fd) {
  struct held *held = held_at(fd);
  return held ? file_of(held) : NULL;
}

/* The kernel has refused a call: was it for the card? */
static int was_for_card(int fd) {
  return head && !on_fio && (errno == EISDIR || errno == EBADF || errno == EINVAL) && found_at(fd);
}
