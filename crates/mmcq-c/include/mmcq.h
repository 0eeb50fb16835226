/* mmcq.h: the mmcq card stack for C, under any RTOS or none.
 *
 * An SDHCI controller and the SD card or eMMC behind it. Open it, bring the card up, then read and
 * write blocks of 512 bytes from as many threads as you like: they share one queue. You bring
 * registers, a lock and a clock; on machines with caches or an IOMMU also map, unmap and sync. See
 * examples/c/card.c.
 *
 * The library keeps the card without a word. It initialises a card again that loses its state. It
 * tunes a card again that has damage on its wires, or makes it slower. It gives an eMMC time for its
 * background work. It does so step by step inside mmcq_on_irq, mmcq_poll and the calls that wait,
 * which then wait longer, up to some ten seconds. A card that was taken out, or exchanged, is not
 * touched before mmcq_bring_up: until then there is MMCQ_E_NO_CARD.
 *
 * Contexts: mmcq_on_irq is for the interrupt handler, mmcq_poll for the alarm (thread or interrupt).
 * mmcq_submit is for both. All others are for threads, and may wait. mmcq_open is called once for a controller, before
 * anything else of it, by one thread.
 */
#ifndef MMCQ_H
#define MMCQ_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. Compare with `#if MMCQ_VERSION >= MMCQ_VERSION_OF(0, 2, 0)`. */
#define MMCQ_VERSION_MAJOR 0
#define MMCQ_VERSION_MINOR 2
#define MMCQ_VERSION_PATCH 0
#define MMCQ_VERSION_OF(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define MMCQ_VERSION MMCQ_VERSION_OF(MMCQ_VERSION_MAJOR, MMCQ_VERSION_MINOR, MMCQ_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* Results: 0 or one of these. mmcq_error_name has their names as text. */
enum {
    MMCQ_OK = 0,
    MMCQ_E_ARGUMENT = -1,    /* a null pointer, a number out of range, a function that is missing */
    MMCQ_E_STATE = -2,       /* not open yet, open already, or another call is at the card's registers */
    MMCQ_E_CONTROLLER = -3,  /* no SDHCI controller answers there */
    MMCQ_E_NO_CARD = -4,     /* no card in the slot, or not brought up yet */
    MMCQ_E_REMOVED = -5,     /* the card was taken out */
    MMCQ_E_RANGE = -6,       /* blocks beyond the end of the card */
    MMCQ_E_DMA = -7,         /* memory that the controller cannot use: alignment, reach */
    MMCQ_E_TIMEOUT = -8,     /* the card or the controller stayed silent */
    MMCQ_E_CRC = -9,         /* damaged on the wire, also when tried again */
    MMCQ_E_HOST = -10,       /* another error of the controller */
    MMCQ_E_CARD = -11,       /* the card refused, or does not behave as its standard says */
    MMCQ_E_FULL = -12,       /* for 30 s no slot was free, or `map` had no room; also what `map` returns then */
    MMCQ_E_UNSUPPORTED = -13,
    MMCQ_E_DEAD = -14,       /* card or controller is given up */
    MMCQ_E_READ_ONLY = -15,  /* the card can only be read any more */
    MMCQ_E_PROTECTED = -16,  /* write-protected */
    MMCQ_E_CACHE_LOST = -17, /* the card lost writes that were not flushed; said once */
    MMCQ_E_CHANGED = -18,    /* another card is in the slot */
    MMCQ_E_LOCKED = -19      /* the card is locked by a password */
};

/* mmcq_platform.flags: the slot holds a soldered eMMC with 1.8 V signalling. */
#define MMCQ_EMMC_18 1u

/* What `wait` asks mmcq_may_sleep with; gone when `wait` returns. */
typedef struct mmcq_idle mmcq_idle;

/* What your program brings. Copied by mmcq_open; `context` goes to every function. No function may call the library, but for `wait`, which may
 * call mmcq_may_sleep, mmcq_next_deadline_ns, mmcq_on_irq and mmcq_poll.
 *
 *   function        called from                                        with the lock held
 *   read, write     any context that calls the library                 yes, but for mmcq_open
 *   lock, unlock    any context that calls the library                 no (`unlock`: yes)
 *   now_ns          any context that calls the library                 sometimes
 *   set_alarm       any context that calls the library                 yes
 *   wait            threads that wait, in any call but those below     no
 *   map, unmap      the thread in mmcq_read and the writes             no
 *   map             of mmcq_submit: the context that calls it          no
 *   unmap           of mmcq_submit: any context, often mmcq_on_irq     no
 *   map, unmap      any context, for 512 bytes of the library's own    yes
 *   map, unmap      the thread in mmcq_open and mmcq_close             no
 *   sync            any context, for descriptors: 2 KiB at most        yes
 *
 * A program that calls mmcq_submit therefore brings an `unmap` that is legal in an interrupt, and a `map` that is legal where it calls
 * mmcq_submit: no mutex, no sleep. mmcq_on_irq and mmcq_poll never call `wait`. What is called with the lock held, or by mmcq_on_irq, must not sleep and must
 * be short: other threads and the interrupt wait for it. */
typedef struct mmcq_platform {
    void *context;
    /* Registers: either `base`, 256 bytes of device memory, aligned to 4; or `read` and `write` with the offset and the width in bytes (1, 2,
     * 4), and `base` is not used. */
    void *base;
    uint32_t (*read)(void *context, uint16_t offset, uint8_t bytes);
    void (*write)(void *context, uint16_t offset, uint8_t bytes, uint32_t value);
    /* Between them there is no other thread, and not the controller's interrupt. Held for some microseconds: tens of register accesses, and
     * `sync` of the descriptors. Never nested. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    /* Nanoseconds since some moment; never goes back. */
    uint64_t (*now_ns)(void *context);
    /* Call mmcq_poll at this time; replaces the request before; UINT64_MAX: no need. Called with the lock held; must not call back.
     * An alarm is relied on until mmcq_poll is called, and may ring for nothing. After a sleep in which your timer stood, call mmcq_poll.
     * May be NULL: threads that wait poll by themselves. Then nothing is done for the card while no call is in progress. */
    void (*set_alarm)(void *context, uint64_t at_ns);
    /* Called again and again by a thread that waits; NULL: spin. It may sleep, for a millisecond at most, and must return
     * - when an interrupt of the controller is pending or comes, masked or not;
     * - when the time of set_alarm has come;
     * - when mmcq_may_sleep(idle) has become 0: another context, such as your interrupt handler, has moved the library.
     * It may return at any time. Ways to do it:
     * - take this thread's semaphore, which your handler gives after mmcq_on_irq;
     * - lock a mutex, wait for a condition while mmcq_may_sleep(idle), unlock; your handler calls mmcq_on_irq and then, with the mutex, broadcasts;
     * - mask interrupts, WFI if mmcq_may_sleep(idle), unmask: between the question and WFI no handler may run;
     * - with interrupts masked all the time: WFI. */
    void (*wait)(void *context, const mmcq_idle *idle);
    /* Memory for DMA, or three times NULL where the controller sees memory as the CPU does, at the same addresses and without caches.
     * `map` makes `bytes` at `memory` usable (to the card or from it), stores the address the controller uses, and returns 0. MMCQ_E_FULL: there
     * is no room now, and a call that waits tries again, for 30 s; anything else refuses for good. `unmap` ends the mapping; what the
     * controller wrote is visible afterwards. It may invalidate the cache lines of memory that came from the card, and of no other. `sync` makes
     * later writes of the CPU visible. */
    int32_t (*map)(void *context, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
    void (*unmap)(void *context, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
    void (*sync)(void *context, uint64_t bus, void *memory, size_t bytes);
    /* Departures of the controller from the standard by name, with commas between, such as "no-busy-irq"; NULL: none. The names are those of
     * mmcq::host::sdhci::SdhciQuirks. Read by mmcq_open only. */
    const char *quirks;
    /* MMCQ_EMMC_18 or 0. */
    uint32_t flags;
    /* The cache line that `unmap` invalidates as a whole, in bytes: a power of two, at most 128; 0 where it destroys nothing beside the memory that
     * it is given. Memory for mmcq_read must begin at a multiple of it; the blocks' length is one. */
    uint32_t cache_line;
} mmcq_platform;

/* What was found in the slot. */
typedef struct mmcq_card {
    uint64_t blocks;          /* of 512 bytes */
    uint32_t clock_hz;
    uint32_t transfer_blocks; /* the longest transfer that goes to the card as one; requests may be longer */
    uint32_t align;           /* that memory for mmcq_read and mmcq_write must have, in bytes */
    uint32_t cid[4];          /* bits 127 to 96 first */
    uint32_t csd[4];
    uint8_t emmc;             /* 1: eMMC, 0: SD */
    uint8_t width;            /* data lines: 1, 4, 8 */
    uint8_t volatile_cache;   /* 1: only mmcq_flush and mmcq_write_durable make data durable */
    uint8_t reserved;
} mmcq_card;

/* Opens controller number `host`, 0 or 1. Needs `lock`, `unlock`, `now_ns` and a way to the registers. `platform` points to a whole structure;
 * what it promises holds until mmcq_close. */
int32_t mmcq_open(uint32_t host, const mmcq_platform *platform);

/* Powers the slot and brings the card up, at the best speed that host and card share; again after a change of cards. From then on the library keeps the
 * card (see above). `card` may be NULL.
 * There is no callback for a card that comes. MMCQ_E_NO_CARD: the slot is empty, or a card was put in some milliseconds ago; call again, 50 ms
 * apart or more. After MMCQ_E_REMOVED from another call do the same. */
int32_t mmcq_bring_up(uint32_t host, mmcq_card *card);

/* Reads or writes blocks, and returns when they are done. `memory` has `blocks` times 512 bytes and is
 * aligned as mmcq_card.align says. It belongs to the call until it returns: during a read nothing else
 * may use it, and during a write nothing may change it. More calls than slots wait for each other, and
 * so do writes from the same memory where there is `map`. */
int32_t mmcq_read(uint32_t host, uint64_t lba, uint32_t blocks, uint8_t *memory);
int32_t mmcq_write(uint32_t host, uint64_t lba, uint32_t blocks, const uint8_t *memory);

/* What survives a power cut: with volatile_cache a write that returned MMCQ_OK does not, until mmcq_flush returns MMCQ_OK. An eMMC's cache
 * is on after mmcq_bring_up. docs/durable.md has the rules, call by call. */

/* Everything written before is on the medium when it returns MMCQ_OK. MMCQ_E_CACHE_LOST: writes of before are lost, of all users of this
 * host; only one call is told, so users that share a host tell each other. */
int32_t mmcq_flush(uint32_t host);

/* As mmcq_write. When it returns MMCQ_OK, these blocks are on the medium, past every cache; what was written before them need not
 * be. It costs less than mmcq_write and mmcq_flush where the card has a way for it. */
int32_t mmcq_write_durable(uint32_t host, uint64_t lba, uint32_t blocks, const uint8_t *memory);

/* Requests that one controller has at a time, of all calls together. The library keeps one slot more for itself. */
#define MMCQ_SLOTS 7

/* mmcq_request.op */
enum { MMCQ_READ = 0, MMCQ_WRITE = 1, MMCQ_WRITE_DURABLE = 2, MMCQ_FLUSH = 3 };

/* A request without a thread that waits. It belongs to the library from mmcq_submit until `done` is called, and so does its memory. */
typedef struct mmcq_request {
    uint32_t op;
    uint32_t blocks; /* these three as in mmcq_read, mmcq_write and mmcq_write_durable; not used by MMCQ_FLUSH */
    uint64_t lba;
    uint8_t *memory;
    /* Called once, without the lock: by mmcq_on_irq, mmcq_poll, mmcq_submit itself, or a thread in another call, whatever comes first. It must be
     * short and must not wait. It may call mmcq_submit, with this request too. MMCQ_E_DEAD: the controller may still have the memory, so it must
     * not be used again. */
    void (*done)(struct mmcq_request *request, int32_t code);
    void *context; /* yours */
} mmcq_request;

/* Begins a request, from any context but `lock`, `unlock` and `set_alarm`. Any other result than MMCQ_OK: it has not begun, and `done` is not
 * called. MMCQ_E_FULL: no slot is free, or `map` had no room. A controller has MMCQ_SLOTS slots for requests of all calls. Requests run in any
 * order, but those that overlap keep theirs, and nothing passes MMCQ_FLUSH: it covers all writes that were submitted before it, done or not. (A write
 * that then fails says so itself.) Without `set_alarm`
 * call mmcq_poll when mmcq_next_deadline_ns says so. Here `map` is called by mmcq_submit, and `unmap` just before `done`; neither with the lock held. */
int32_t mmcq_submit(uint32_t host, mmcq_request *request);

/* The content of these blocks is not needed any more. Until they are written again they read as before or as erased. What the card
 * cannot free exactly it keeps. */
int32_t mmcq_discard(uint32_t host, uint64_t lba, uint32_t blocks);

/* When it returns MMCQ_OK, these blocks read as erased ones do: all zeros or all ones, by card. MMCQ_E_UNSUPPORTED: the
 * card cannot erase exactly these. A card may take minutes for many blocks. */
int32_t mmcq_erase(uint32_t host, uint64_t lba, uint32_t blocks);

/* Flushes, tells the card that its power goes, switches the slot off, and ends the use of this controller. mmcq_open may
 * open it again. Your program sees to it that no other call of this controller is in progress or begins: mask the interrupt and stop the
 * alarm before. MMCQ_E_STATE: it is still open, since a request is in progress, or a controller that cannot be stopped has memory. With any
 * other result it is closed; an error then says that the last writes may be lost, or that the card did not take the notification. */
int32_t mmcq_close(uint32_t host);

/* The controller interrupted. Does nothing for a controller that is not open. */
void mmcq_on_irq(uint32_t host);

/* A deadline has come. Too often does no harm. */
void mmcq_poll(uint32_t host);

/* When mmcq_poll is wanted next, or UINT64_MAX. */
uint64_t mmcq_next_deadline_ns(uint32_t host);

/* For `wait`, with what it was given: 1: nothing has happened that this thread waits for; 0: return. Takes no lock; for any context, also
 * with interrupts masked. NULL: 0. */
int32_t mmcq_may_sleep(const mmcq_idle *idle);

/* The name of a result, such as "MMCQ_E_NO_CARD"; never NULL, never freed. */
const char *mmcq_error_name(int32_t code);

/* Your program has this if the library was built with feature `panic-handler`: the stack found a mistake of its own. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void mmcq_panic(void);

#ifdef __cplusplus
}
#endif
#endif
