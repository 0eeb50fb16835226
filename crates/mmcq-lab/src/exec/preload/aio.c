/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ------------------------------------------------------------------ libaio */

/* The kernel's, as <linux/aio_abi.h> has them. */
struct iocb {
  uint64_t data;
  uint32_t key;
  int32_t more_rw; /* RWF_ flags */
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
    struct held *held = held_at((int)io->fd);
    if (!held && !on_fio) held = found_at((int)io->fd);
    uint32_t op = io->opcode == 0 ? READ : io->opcode == 1 ? WRITE : FLUSH;
    if (!held || (io->opcode > 1 && io->opcode != 2 && io->opcode != 3)) break;
    struct file *file = file_of(held);
    if (op != FLUSH && may(held, op, (void *)(uintptr_t)io->buffer, io->bytes, io->offset)) break;
    if (op == WRITE && (held->flags & APPENDS || io->more_rw & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC))) break;
    if (op == WRITE && (held->flags & DURABLE || io->more_rw & (RWF_DSYNC | RWF_SYNC))) op = DURABLE_WRITE;
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
