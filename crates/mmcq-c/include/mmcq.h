/* mmcq.h: the mmcq card stack for C, under any RTOS or none.
 *
 * An SDHCI controller, or Realtek's PCIe card reader, and the SD card or eMMC behind it. Open it, bring the card up, then read and
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
 * mmcq_submit and mmcq_cancel are for both. All others are for threads, and may wait. mmcq_open is called once for a controller, before
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
    MMCQ_E_STATE = -2,       /* not open yet, open already, suspended, or another call is at the card's registers */
    MMCQ_E_CONTROLLER = -3,  /* no controller of the kind answers there */
    MMCQ_E_NO_CARD = -4,     /* no card in the slot, or not brought up yet */
    MMCQ_E_REMOVED = -5,     /* the card was taken out */
    MMCQ_E_RANGE = -6,       /* blocks beyond the end of the card */
    MMCQ_E_DMA = -7,         /* memory that the controller cannot use: alignment, reach */
    MMCQ_E_TIMEOUT = -8,     /* the card or the controller stayed silent */
    MMCQ_E_CRC = -9,         /* damaged on the wire, also when tried again */
    MMCQ_E_HOST = -10,       /* another error of the controller */
    MMCQ_E_CARD = -11,       /* the card refused, or does not behave as its standard says */
    MMCQ_E_FULL = -12,       /* for `patience_ms` no slot was free, or `map` had no room; also what `map` returns then */
    MMCQ_E_UNSUPPORTED = -13,
    MMCQ_E_DEAD = -14,       /* card or controller is given up */
    MMCQ_E_READ_ONLY = -15,  /* the RPMB's write counter has ended */
    MMCQ_E_PROTECTED = -16,  /* write-protected */
    MMCQ_E_CACHE_LOST = -17, /* the card lost writes that were not flushed; said once */
    MMCQ_E_CHANGED = -18,    /* another card is in the slot */
    MMCQ_E_LOCKED = -19,     /* the card is locked by a password */
    MMCQ_E_NO_KEY = -20,     /* the RPMB has no key yet */
    MMCQ_E_FORGED = -21,     /* the answer is not that of the RPMB, or the key is another */
    MMCQ_E_AMBIGUOUS = -22   /* it is not known whether the RPMB was written */
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
 *   card_event      mmcq_on_irq, mmcq_poll, and threads that wait      no
 *   map, unmap      the thread in mmcq_read and the writes             no
 *   map, unmap      the thread in mmcq_io_read, mmcq_partition_...     no
 *   map             of mmcq_submit: the context that calls it          no
 *   unmap           of mmcq_submit: any context, often mmcq_on_irq     no
 *   map, unmap      any context, for 512 bytes of the library's own    yes
 *   map, unmap      any context, for mmcq_rpmb.memory                  yes
 *   map, unmap      the thread in mmcq_open and mmcq_close             no
 *   sync            any context, for descriptors: 16 bytes a piece     yes
 *   piece           any context that begins a transfer                 yes
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
     * is no room now, and a call that waits tries again, for `patience_ms`; anything else refuses for good. `unmap` ends the mapping; what the
     * controller wrote is visible afterwards. It may invalidate the cache lines of memory that came from the card, and of no other. `sync` makes
     * later writes of the CPU visible. */
    int32_t (*map)(void *context, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
    void (*unmap)(void *context, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
    void (*sync)(void *context, uint64_t bus, void *memory, size_t bytes);
    /* Departures of the controller from the standard by name, with commas between, such as "no-busy-irq"; NULL: none. The names are those of
     * mmcq::host::sdhci::SdhciQuirks. Read by mmcq_open only. */
    const char *quirks;
    /* MMCQ_EMMC_18 or 0. mmcq_open refuses any other bit with MMCQ_E_ARGUMENT. */
    uint32_t flags;
    /* The cache line that `unmap` invalidates as a whole, in bytes: a power of two, at most 128; 0 where it destroys nothing beside the memory that
     * it is given. Memory for mmcq_read must begin at a multiple of it; the blocks' length is one. */
    uint32_t cache_line;
    /* The slot's switch: a card is there now (1), or none is (0). NULL: your program does not want to know. The first
     * event after mmcq_open tells of a card that was there. A card that came is used after mmcq_bring_up; see there.
     * It is called without the lock, once at a time, by mmcq_on_irq, mmcq_poll or a thread that waits in a call. So it
     * may run in your interrupt handler: it must be short, and may call nothing of the library but mmcq_submit and
     * mmcq_card_present. It gives a semaphore, say, and a thread calls mmcq_bring_up. */
    void (*card_event)(void *context, int32_t present);
    /* How long a call waits for a free slot, or for room in `map`, in milliseconds; then it is MMCQ_E_FULL. 0: 30 s.
     * What has a slot ends by itself: every wait for card and controller is bounded by what the card declares. */
    uint32_t patience_ms;
    /* Memory of a request in pieces, a list of pages, say: NULL, or asked whenever a list for the controller is written. `map` has then stored a
     * number of your own, from which the library counts on as from an address: a multiple of 4, with room for all of the request's bytes before the
     * next, and below 4 GiB unless the controller has 64-bit addresses. `piece` stores where the controller finds what is `bus - number` bytes from
     * the request's beginning, and returns how many of the `bytes` are there; 0: it does not know, and the request ends in an error. It is asked
     * for all mappings, and returns `bytes` with `*real` untouched for one in one piece. A piece begins at a multiple of 4, and all but a request's
     * last have a multiple of 512 bytes. One request has MMCQ_PIECES pieces at most, where one of more than 64 KiB counts as several; more
     * is MMCQ_E_UNSUPPORTED. Only where mmcq_card.pieces is 1: the library does not touch such memory, so `mmcq_request.memory` may be any
     * address that no other request has. Elsewhere memory in pieces is refused, or moved by the CPU from where `memory` points. */
    uint32_t (*piece)(void *context, uint64_t bus, uint32_t bytes, uint64_t *real);
    /* Memory for descriptors and registers, which the controller sees at `dma_bus` as the CPU does, without `sync`: MMCQ_DMA_BYTES at least, both
     * addresses multiples of MMCQ_DMA_ALIGN. `map`, `unmap` and `sync` are not called for it. It belongs to the library until mmcq_close has closed. NULL: the
     * library has memory of its own, and maps it. */
    void *dma;
    uint64_t dma_bus;
    size_t dma_bytes;
} mmcq_platform;

/* What the library was built with: give the build the same in its environment. MMCQ_HOSTS: controllers, 8 at most. MMCQ_SLOTS: requests that one
 * controller has at a time, of all calls together, 63 at most on a 64-bit machine, else 31; the library keeps one slot more for itself. MMCQ_PIECES:
 * pieces of a transfer, 4095 at most. */
#ifndef MMCQ_HOSTS
#define MMCQ_HOSTS 2
#endif
#ifndef MMCQ_SLOTS
#define MMCQ_SLOTS 7
#endif
#ifndef MMCQ_PIECES
#define MMCQ_PIECES 128
#endif
/* MMCQ_RTSX: defined where the library was built with feature `rtsx`. */
#ifdef MMCQ_RTSX
#define MMCQ_DMA_ALIGN 1024
#define MMCQ_DMA_BYTES ((16 * (MMCQ_PIECES + 1) + 1023) / 1024 * 1024 + 4096)
#else
#define MMCQ_DMA_ALIGN 128
#define MMCQ_DMA_BYTES ((16 * (MMCQ_PIECES + 1) + 127) / 128 * 128 + 1024)
#endif

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
    uint8_t pieces;           /* 1: memory of a request may be in pieces; see mmcq_platform.piece */
    uint32_t discard_blocks;  /* the blocks that MMCQ_DISCARD frees as one; 0: the card cannot */
    uint8_t zeroes;           /* 1: MMCQ_ZEROES may do */
    uint8_t read_only;        /* 1: the card's switch, or the card itself, says that it can only be read */
    uint8_t reserved[2];
} mmcq_card;

/* Opens controller number `host`, from 0 to MMCQ_HOSTS - 1. Needs `lock`, `unlock`, `now_ns` and a way to the registers. `platform` points to a whole structure;
 * what it promises holds until mmcq_close. */
int32_t mmcq_open(uint32_t host, const mmcq_platform *platform);

/* Instead of mmcq_open for Realtek's PCIe card reader with these PCI numbers; all else is the same. The library has it if it was built with feature
 * `rtsx`. Registers: 32 bytes, of 4 bytes each. `quirks` is NULL, `flags` 0, `cache_line` 0 or 1. A request has 256 pieces at most, fewer than
 * MMCQ_PIECES perhaps, and one of up to 512 KiB counts as one. MMCQ_E_UNSUPPORTED: the library does not know this chip, and has touched no register. */
int32_t mmcq_open_rtsx(uint32_t host, const mmcq_platform *platform, uint16_t vendor, uint16_t device);

/* Powers the slot and brings the card up, at the best speed that host and card share; again after a change of cards. From then on the library keeps the
 * card (see above). `card` may be NULL.
 * MMCQ_E_NO_CARD: the slot is empty, or a card was put in some milliseconds ago; call again, 50 ms apart or more.
 * After MMCQ_E_REMOVED from another call do the same, or wait for `card_event`. */
int32_t mmcq_bring_up(uint32_t host, mmcq_card *card);

/* Is a card in the slot, by its switch? 1, 0, or a negative result. For any context but the callbacks under the lock. */
int32_t mmcq_card_present(uint32_t host);

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

/* mmcq_request.op */
enum { MMCQ_READ = 0, MMCQ_WRITE = 1, MMCQ_WRITE_DURABLE = 2, MMCQ_FLUSH = 3, MMCQ_DISCARD = 4, MMCQ_ZEROES = 5 };

/* A request without a thread that waits. It belongs to the library from mmcq_submit until `done` is called, and so does its memory. */
typedef struct mmcq_request {
    uint32_t op;
    uint32_t blocks; /* these three as in mmcq_read, mmcq_write and mmcq_write_durable; none is used by MMCQ_FLUSH, and no memory by the last two */
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

/* MMCQ_DISCARD is mmcq_discard. After MMCQ_ZEROES just these blocks read as zeros, by an erase: MMCQ_E_UNSUPPORTED, and not begun, where the card
 * cannot do that exactly; then write them. */

/* Takes a request back that has not begun, because its time is over, say. From any context but `lock`, `unlock` and `set_alarm`. MMCQ_OK: it never
 * begins, `done` is not called, request and memory are yours again, unchanged; `unmap` was called. MMCQ_E_STATE: it has begun or ended, or
 * was never submitted; nothing is changed, and what has begun calls `done` as ever, in bounded time. The library compares the address alone:
 * what has ended, and may be submitted anew, is not to be cancelled by two contexts at a time. */
int32_t mmcq_cancel(uint32_t host, const mmcq_request *request);

/* The content of these blocks is not needed any more. Until they are written again they read as before or as erased. What the card
 * cannot free exactly it keeps. */
int32_t mmcq_discard(uint32_t host, uint64_t lba, uint32_t blocks);

/* When it returns MMCQ_OK, these blocks read as erased ones do: all zeros or all ones, by card. MMCQ_E_UNSUPPORTED: the
 * card cannot erase exactly these. A card may take minutes for many blocks. */
int32_t mmcq_erase(uint32_t host, uint64_t lba, uint32_t blocks);

/* ---- Other partitions of an eMMC ----
 * Boot areas and general purpose partitions. The library waits until the queue is empty, switches the card there and
 * back, and lets nothing in between. Threads may call these beside all others, and no partition stays selected.
 * Each call asks the card first where the partition is, by a register of 512 bytes. */
enum { MMCQ_BOOT_1 = 1, MMCQ_BOOT_2 = 2, MMCQ_GENERAL_1 = 4, MMCQ_GENERAL_4 = 7 };

/* Its size in blocks of 512 bytes. MMCQ_E_UNSUPPORTED: the card has no such partition. */
int32_t mmcq_partition_blocks(uint32_t host, uint32_t partition, uint32_t *blocks);

/* As mmcq_read and mmcq_write, with blocks of a partition; less than 16 MiB in one call. mmcq_flush is for all
 * partitions. MMCQ_E_PROTECTED: the boot area is protected. MMCQ_E_DEAD: the controller may still have the memory. */
int32_t mmcq_partition_read(uint32_t host, uint32_t partition, uint32_t lba, uint32_t blocks, uint8_t *memory);
int32_t mmcq_partition_write(uint32_t host, uint32_t partition, uint32_t lba, uint32_t blocks, const uint8_t *memory);

/* ---- The replay-protected area of an eMMC (RPMB) ----
 * In a library that was built with feature `rpmb`. One thread at a time calls these. */
typedef struct mmcq_rpmb {
    const uint8_t *key;    /* 32 bytes that only card and host know; not used by mmcq_rpmb_size */
    uint8_t nonces[2][16]; /* numbers that were never used before; a write takes both, the counter and a read the first */
    /* Frames go through it: 512 bytes for each unit of a read or write, and 1024 more. Aligned as mmcq_card.align says.
     * It belongs to the call until that returns, and is cleared then. MMCQ_E_DEAD: as for mmcq_partition_read. */
    uint8_t *memory;
    uint32_t memory_bytes;
} mmcq_rpmb;

/* Units of 256 bytes in the area, and in one write at most. */
int32_t mmcq_rpmb_size(uint32_t host, const mmcq_rpmb *rpmb, uint32_t *units, uint32_t *write_units);

/* Programs the key, once in the card's life. `for_ever` is MMCQ_RPMB_FOR_EVER: it cannot be undone. */
#define MMCQ_RPMB_FOR_EVER 0x4b455921u
int32_t mmcq_rpmb_program_key(uint32_t host, const mmcq_rpmb *rpmb, uint32_t for_ever);

/* The write counter. */
int32_t mmcq_rpmb_counter(uint32_t host, const mmcq_rpmb *rpmb, uint32_t *counter);

/* Reads or writes units from `address` on. A write has 1, 2 or 32 units, and is done whole or not at all: it is sent
 * once. MMCQ_E_AMBIGUOUS: it is not known whether it was done; read it. Any other error: it was not done.
 * MMCQ_E_FULL comes at once here, since a second try needs other nonces. MMCQ_E_READ_ONLY: the counter has ended. */
int32_t mmcq_rpmb_read(uint32_t host, const mmcq_rpmb *rpmb, uint16_t address, uint32_t units, uint8_t *data);
int32_t mmcq_rpmb_write(uint32_t host, const mmcq_rpmb *rpmb, uint16_t address, uint32_t units, const uint8_t *data);

/* ---- I/O cards (SDIO) ----
 * Calls of one function wait for each other; those of several functions share the bus, also with a combo card's memory.
 * A card that is lost is not initialised again by itself: only your driver knows what its functions were doing. After
 * MMCQ_E_TIMEOUT or MMCQ_E_CRC from several calls in a row, call mmcq_io_bring_up again. */
typedef struct mmcq_io_card {
    uint64_t blocks;             /* of a combo card's memory, for mmcq_read and mmcq_write; 0: it has none */
    uint32_t clock_hz;
    uint16_t vendor, product;    /* 0: it does not tell */
    uint16_t max_block_bytes[7]; /* of function 1 to 7 */
    uint8_t interface[7];        /* the standard's code, such as 2: Bluetooth Type-A, 7: wireless LAN */
    uint8_t functions;           /* how many */
    uint8_t width;               /* data lines: 1 or 4 */
} mmcq_io_card;

/* As mmcq_bring_up, for a slot with an I/O card; instead of it. Functions are still disabled. */
int32_t mmcq_io_bring_up(uint32_t host, mmcq_io_card *card);

/* Enables function 1 to 7 and waits until it is ready, or disables it. Enable one after the other. MMCQ_E_TIMEOUT: it
 * was not ready in the time that the card declares. */
int32_t mmcq_io_enable(uint32_t host, uint32_t function, int32_t on);

/* The function's block size for CMD53; until it is set, long transfers go by bytes. After mmcq_io_bring_up set it again. */
int32_t mmcq_io_block_size(uint32_t host, uint32_t function, uint32_t bytes);

/* One register (CMD52). Function 0 is what all functions share; only the vendor's own registers, F0h to FFh, may be
 * written there. `read_back` may be NULL; else it gets what the register reads afterwards. */
int32_t mmcq_io_read_byte(uint32_t host, uint32_t function, uint32_t address, uint8_t *value);
int32_t mmcq_io_write_byte(uint32_t host, uint32_t function, uint32_t address, uint8_t value, uint8_t *read_back);

/* Data of function 1 to 7 (CMD53), in as many commands as it takes: from one register, or from each further one. The
 * memory's rules are those of mmcq_read, with the controller's alignment; on machines with caches no other data share the
 * memory's last cache line. After an error nothing is known of how much was moved. */
enum { MMCQ_IO_FIFO = 0, MMCQ_IO_INCREMENT = 1 };
int32_t mmcq_io_read(uint32_t host, uint32_t function, uint32_t address, uint32_t how, uint32_t bytes, uint8_t *memory);
int32_t mmcq_io_write(uint32_t host, uint32_t function, uint32_t address, uint32_t how, uint32_t bytes,
                      const uint8_t *memory);

/* A transfer without a thread that waits. It belongs to the library from mmcq_io_submit until `done` is called, and so does its memory. */
typedef struct mmcq_io_request {
    uint32_t function; /* 1 to 7 */
    uint32_t op;       /* MMCQ_READ or MMCQ_WRITE */
    uint32_t address, how, bytes; /* these and `memory` as in mmcq_io_read and mmcq_io_write */
    uint8_t *memory;
    /* As mmcq_request.done. It may call mmcq_io_submit, with this request too. */
    void (*done)(struct mmcq_io_request *request, int32_t code);
    void *context; /* yours */
} mmcq_io_request;

/* Begins a transfer, from any context but `lock`, `unlock` and `set_alarm`. Any other result than MMCQ_OK: it has not begun, and `done` is not
 * called. MMCQ_E_FULL: the function is at work for another call or transfer, two transfers of this host are under way, or `map` had no room.
 * Calls of the function that wait, wait for it. It ends in bounded time, also when the card is gone or is brought up anew. */
int32_t mmcq_io_submit(uint32_t host, mmcq_io_request *request);

/* The card's interrupt, for one thread at a time; another gets MMCQ_E_STATE. Lets function 1 to 7 interrupt, or not. */
int32_t mmcq_io_irq_enable(uint32_t host, uint32_t function, int32_t on);

/* Waits until a function asks for attention, or until this time of now_ns: MMCQ_E_TIMEOUT. `functions` gets one bit for
 * each that asks: 2 for function 1. It may be NULL. A request that was there before ends the wait at once. */
int32_t mmcq_io_irq_wait(uint32_t host, uint64_t until_ns, uint8_t *functions);

/* The causes have been cleared in the functions: listens again. */
int32_t mmcq_io_irq_ack(uint32_t host);

/* Before the machine sleeps with the card's supply on: flushes, lets what is under way end, and returns when the card is at rest. From then on new
 * requests are MMCQ_E_STATE, until mmcq_resume. With another result than MMCQ_OK it is not suspended: MMCQ_E_CACHE_LOST says that writes are lost, and the
 * next call may suspend. Where the supply goes too, call mmcq_close, and after the sleep mmcq_open and mmcq_bring_up. */
int32_t mmcq_suspend(uint32_t host);

/* After the sleep. A card that lost its supply meanwhile is initialised again by the first request that needs it. */
int32_t mmcq_resume(uint32_t host);

/* Flushes, tells the card that its power goes, switches the slot off, and ends the use of this controller. mmcq_open may
 * open it again. Your program sees to it that no other call of this controller is in progress or begins: mask the interrupt and stop the
 * alarm before. MMCQ_E_STATE: it is still open, since a request is in progress, or a controller that cannot be stopped has memory. With any
 * other result it is closed; an error then says that the last writes may be lost, or that the card did not take the notification. */
int32_t mmcq_close(uint32_t host);

/* The controller interrupted. 1: it had something to tell; 0: it had not, and the interrupt is that of another device on the same line. Does nothing
 * for a controller that is not open: 0. */
int32_t mmcq_on_irq(uint32_t host);

/* A deadline has come. Too often does no harm. */
void mmcq_poll(uint32_t host);

/* When mmcq_poll is wanted next, or UINT64_MAX. */
uint64_t mmcq_next_deadline_ns(uint32_t host);

/* For `wait`, with what it was given: 1: nothing has happened that this thread waits for; 0: return. Takes no lock; for any context, also
 * with interrupts masked. NULL: 0. */
int32_t mmcq_may_sleep(const mmcq_idle *idle);

/* What has happened since mmcq_open. Counters begin again at 0 after 2^64, or 2^32 on a 32-bit machine. */
typedef struct mmcq_statistics {
    uint64_t requests, transfers; /* accepted; data transfers that went out for reads and writes */
    uint64_t merged;              /* requests that went in another's transfer */
    uint64_t commands;
    uint64_t interrupts, spurious, lost_interrupts; /* with something to tell; without; what ended without one */
    uint64_t faults;              /* commands and transfers that failed */
    uint64_t busy_polls, status_asked; /* questions to a busy card; for the status of writes */
    uint64_t durable_flushes;     /* durable writes that needed a flush, since the card had no way of its own */
    uint64_t cache_lost, erase_pieces;
    uint64_t recovery_steps;
} mmcq_statistics;
int32_t mmcq_stats(uint32_t host, mmcq_statistics *statistics);

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
