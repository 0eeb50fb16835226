/* mmcq.h: the mmcq card stack for C, under any RTOS or none.
 *
 * The library drives an SDHCI controller, NXP's uSDHC, ST's SDMMC or Realtek's PCIe card reader,
 * and its card: SD card, eMMC or I/O card. Open the controller, bring the card up, then read and
 * write blocks of 512 bytes from as many threads as you like: all calls share one queue. Your program
 * provides registers, a lock and a clock; on a machine with caches or an IOMMU it also provides
 * `map`, `unmap` and `sync`. examples/c/card.c is an example.
 *
 * The library keeps an SD card or eMMC working without calls for that purpose. It initialises a
 * card again that has lost its state. After damage on the wires it tunes the card again, or makes
 * the bus slower. It gives an eMMC time for its background operations. The library does this work
 * step by step inside mmcq_on_irq, mmcq_poll and the calls that wait. A call that waits then waits
 * longer, up to some ten seconds. If a card was taken out or exchanged, the library does not use
 * the new card before mmcq_bring_up: until then calls return MMCQ_E_NO_CARD.
 *
 * Contexts: the interrupt handler calls mmcq_on_irq. The alarm (a thread or an interrupt) calls
 * mmcq_poll. Any context may call mmcq_submit, mmcq_cancel, mmcq_io_submit, mmcq_card_present,
 * mmcq_next_deadline_ns, mmcq_may_sleep and mmcq_error_name; for the functions of mmcq_platform see
 * there. All other functions are for threads, and may wait. mmcq_open comes before all other calls
 * for a controller, and only one thread at a time calls it.
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

/* Results of the functions: 0 or one of these. mmcq_error_name returns their names as text. */
enum {
    MMCQ_OK = 0,
    MMCQ_E_ARGUMENT = -1,    /* a null pointer, a number out of range, or a missing function */
    MMCQ_E_STATE = -2,       /* not possible now: not open, already open, suspended, or another
                                call uses what this call needs */
    MMCQ_E_CONTROLLER = -3,  /* no controller of this kind responds at this address, or this one
                                lacks what the driver needs */
    MMCQ_E_NO_CARD = -4,     /* no card is in the slot, or none was brought up */
    MMCQ_E_REMOVED = -5,     /* the card was taken out */
    MMCQ_E_RANGE = -6,       /* the blocks are beyond the end of the card */
    MMCQ_E_DMA = -7,         /* memory that the controller cannot use: alignment, reach */
    MMCQ_E_TIMEOUT = -8,     /* the card or the controller did not respond in time */
    MMCQ_E_CRC = -9,         /* data or response were damaged on the wire at each try */
    MMCQ_E_HOST = -10,       /* another error of the controller */
    MMCQ_E_CARD = -11,       /* the card refused, or does not behave as its standard says */
    MMCQ_E_FULL = -12,       /* no slot was free, or `map` had no room; a call that waits returns
                                this after `patience_ms`. Also what `map` returns without room */
    MMCQ_E_UNSUPPORTED = -13, /* the card, the controller or the library cannot do this */
    MMCQ_E_DEAD = -14,       /* recovery has failed: card or controller is given up */
    MMCQ_E_READ_ONLY = -15,  /* the RPMB's write counter has reached its end */
    MMCQ_E_PROTECTED = -16,  /* the blocks are write-protected */
    MMCQ_E_CACHE_LOST = -17, /* the card lost writes that were not flushed; reported one time */
    MMCQ_E_CHANGED = -18,    /* another card is in the slot */
    MMCQ_E_LOCKED = -19,     /* the card is locked by a password */
    MMCQ_E_NO_KEY = -20,     /* the RPMB has no key yet */
    MMCQ_E_FORGED = -21,     /* the response is not the RPMB's, or the key is not the RPMB's key */
    MMCQ_E_AMBIGUOUS = -22,  /* it is not known whether the RPMB was written */
    MMCQ_E_MEMORY = -23      /* no reset stops the controller: it may still access the memory of the
                                request, so do not use that memory again */
};

/* Bit of mmcq_platform.flags: the slot has a soldered eMMC with 1.8 V on its signal lines. */
#define MMCQ_EMMC_18 1u
/* Bit of mmcq_platform.flags: `map` and `unmap` are short whatever the number of bytes, and may be
 * called with the lock held. The library then calls them with the lock held, when the controller
 * needs the memory of a request and when it has released that memory. */
#define MMCQ_QUICK_MAP 2u

/* The argument of `wait` that `wait` passes to mmcq_may_sleep. It is invalid when `wait` has
 * returned. */
typedef struct mmcq_idle mmcq_idle;

/* What your program provides. mmcq_open copies the structure; every function gets `context`. These
 * functions must not call the library, with two exceptions: `wait` may call mmcq_may_sleep,
 * mmcq_next_deadline_ns, mmcq_on_irq and mmcq_poll, and `card_event` may call mmcq_submit and
 * mmcq_card_present.
 *
 *   function      is called by                                         lock held
 *   read, write   any context that calls the library                   yes (in mmcq_open: no)
 *   lock, unlock  any context that calls the library                   `lock`: no; `unlock`: yes
 *   now_ns        any context that calls the library                   sometimes
 *   set_alarm     any context that calls the library                   yes
 *   wait          threads that wait in a call                          no
 *   card_event    mmcq_on_irq, mmcq_poll, and threads that wait        no
 *   map, unmap    the thread in mmcq_read and in the writes            no
 *   map, unmap    the thread in mmcq_io_read, mmcq_partition_...       no
 *   map           the context that calls mmcq_submit, mmcq_io_submit   no
 *   unmap         at the end of such a request: any context,           no
 *                 often mmcq_on_irq; or mmcq_cancel
 *   map, unmap    any context, for 512 bytes of the library's memory   yes
 *   map, unmap    any context, for mmcq_rpmb.memory                    yes
 *   map, unmap    the thread in mmcq_open and mmcq_close               no
 *   sync          any context, for descriptors, 16 bytes each          yes
 *   piece         any context that begins a transfer                   yes
 *
 * With MMCQ_QUICK_MAP, the library calls `map` and `unmap` with the lock held, in any context.
 *
 * So if your program calls mmcq_submit, its `unmap` must be legal in an interrupt, and its `map`
 * must be legal where the program calls mmcq_submit: no mutex, no sleep. mmcq_on_irq and mmcq_poll
 * never call `wait`. A function that is called with the lock held, or by mmcq_on_irq, must not
 * sleep and must be short, because other threads and the interrupt wait for it. */
typedef struct mmcq_platform {
    void *context;
    /* The controller's registers, in one of two ways. Either `base` is the address of 256 bytes of
     * device memory, a multiple of 4, and `read` and `write` are NULL. Or `read` and `write` access
     * the register at `offset` with a width of 1, 2 or 4 bytes, and `base` is not used. */
    void *base;
    uint32_t (*read)(void *context, uint16_t offset, uint8_t bytes);
    void (*write)(void *context, uint16_t offset, uint8_t bytes, uint32_t value);
    /* Between `lock` and `unlock` no other thread runs the library, and neither does the
     * controller's interrupt. The lock is held for some microseconds: for tens of register
     * accesses, and for `sync` of the descriptors. Calls of `lock` are never nested. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    /* Returns the nanoseconds since some fixed moment. The value never goes back. */
    uint64_t (*now_ns)(void *context);
    /* Sets the alarm: your program calls mmcq_poll at the time `at_ns` (UINT64_MAX: no alarm). The
     * new alarm replaces the earlier one. This function itself must not call mmcq_poll.
     * The library relies on an alarm until mmcq_poll is called: before that it sets only earlier
     * alarms. So an alarm may ring when nothing is to be done. After a sleep in which your timer
     * stopped, call mmcq_poll.
     * NULL: threads that wait poll the library. Then the library does nothing for the card while
     * no call is in progress. */
    void (*set_alarm)(void *context, uint64_t at_ns);
    /* A thread that waits calls this again and again; NULL: the thread spins. `wait` may sleep, for
     * a millisecond at most, and must return
     * - when an interrupt of the controller is pending or comes, masked or not;
     * - when the time of set_alarm has come;
     * - when mmcq_may_sleep(idle) has become 0: another context, such as your interrupt handler,
     *   has advanced the library.
     * It may return at any time. Ways to do it:
     * - take this thread's semaphore, which your handler gives after mmcq_on_irq;
     * - lock a mutex, wait for a condition variable while mmcq_may_sleep(idle), unlock the mutex;
     *   your handler calls mmcq_on_irq, and then broadcasts with the mutex held;
     * - mask interrupts, WFI if mmcq_may_sleep(idle), unmask: between mmcq_may_sleep and WFI no
     *   handler may run;
     * - with interrupts masked all the time: WFI.
     * A thread may wait for work that a thread of lower priority has begun and not finished. Under
     * a scheduler with priorities `wait` must therefore let all other threads run: by the
     * semaphore or the condition variable with a limit of a millisecond, not by spinning and not
     * by WFI. */
    void (*wait)(void *context, const mmcq_idle *idle);
    /* Memory for DMA. All three are NULL where the controller sees memory as the CPU does, at the
     * same addresses and without caches.
     * `map` makes `bytes` bytes at `memory` usable by the controller, for data to the card or from
     * it. It stores the address that the controller uses in `*bus`, and returns 0. It returns
     * MMCQ_E_FULL if there is no room now: a call that waits then tries again, for `patience_ms`.
     * Any other value means that the controller can never use this memory.
     * `unmap` ends the mapping; then the CPU sees what the controller wrote. It may invalidate the
     * cache lines of memory that got data from the card, and no other cache lines.
     * `sync` makes what the CPU has written to the memory since `map` visible to the controller. */
    int32_t (*map)(void *context, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
    void (*unmap)(void *context, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
    void (*sync)(void *context, uint64_t bus, void *memory, size_t bytes);
    /* Names of the controller's deviations from the standard, separated by commas, such as
     * "no-busy-irq"; NULL: none. mmcq::host::sdhci::SdhciQuirks lists the names. Only mmcq_open
     * reads this. */
    const char *quirks;
    /* MMCQ_EMMC_18, MMCQ_QUICK_MAP, both or 0. mmcq_open refuses any other bit with
     * MMCQ_E_ARGUMENT. */
    uint32_t flags;
    /* Length in bytes of the cache lines that `unmap` invalidates: a power of two, at most 128. 0:
     * `unmap` destroys nothing outside of the memory that it is given. Memory for mmcq_read must
     * begin at a multiple of this length; its end is one, because a block has 512 bytes. */
    uint32_t cache_line;
    /* Reports the slot's switch: a card is there now (1), or none is there (0). NULL: your program
     * needs no reports. The first report after mmcq_open is for a card that was there before. A new
     * card is used only after mmcq_bring_up; see there.
     * The library calls it without the lock, one call at a time, from mmcq_on_irq, mmcq_poll or a
     * thread that waits in a call. So it may run in your interrupt handler: it must be short. For
     * example, it gives a semaphore, and a thread then calls mmcq_bring_up. */
    void (*card_event)(void *context, int32_t present);
    /* Longest time in milliseconds that a call waits for a free slot, or for room in `map`; after
     * that it returns MMCQ_E_FULL. 0: 30 s. A request that has a slot ends by itself: every wait
     * for card and controller is bounded by what the card declares. */
    uint32_t patience_ms;
    /* Returns where a part of a request's memory lies, for memory in pieces such as a list of
     * pages; NULL: the memory of each request is in one piece. The library calls it whenever it
     * writes a list for the controller.
     * With `piece`, `map` stores a number of your choice in `*bus`. The library counts from this
     * number on as from an address. So the number is a multiple of 4, all bytes of the request fit
     * before the next number, and it is below 4 GiB unless the controller has 64-bit addresses.
     * `piece` gets such a number plus an offset into the request as `bus`. It stores the address at
     * which the controller finds this byte in `*real`, and returns how many of the next `bytes`
     * bytes lie there in one piece. 0: the address is not known, and the request ends with an
     * error. The library calls it for all mappings; for memory in one piece, return `bytes` and do
     * not change `*real`.
     * A piece begins at a multiple of 4. Each piece except a request's last has a multiple of 512
     * bytes. A request has at most MMCQ_PIECES pieces, where a piece of more than 64 KiB counts as
     * several; with more pieces it ends with MMCQ_E_UNSUPPORTED.
     * Use pieces only if mmcq_card.pieces is 1. Then the CPU does not touch the memory, so
     * mmcq_request.memory may be any address that no other request has. If mmcq_card.pieces is 0,
     * the library refuses memory in pieces, or the CPU transfers the data at `memory` itself. */
    uint32_t (*piece)(void *context, uint64_t bus, uint32_t bytes, uint64_t *real);
    /* Memory for descriptors and registers of the card. `dma` is its address for the CPU, `dma_bus`
     * for the controller; both are multiples of MMCQ_DMA_ALIGN, and both sides see the same content
     * without `sync`. It has `dma_bytes` bytes, at least MMCQ_DMA_BYTES. The library never calls `map`,
     * `unmap` and `sync` for this memory, and owns it until mmcq_close has closed the controller.
     * NULL: the library uses memory of its own, and maps it. */
    void *dma;
    uint64_t dma_bus;
    size_t dma_bytes;
} mmcq_platform;

/* Sizes of the library. Environment variables of these names set the same sizes when the library
 * is built.
 * MMCQ_HOSTS: number of controllers, at most 8.
 * MMCQ_SLOTS: largest number of requests in progress on a controller, of all calls together; at
 * most 63 on a 64-bit machine, 31 on others. The library has one more slot for itself.
 * MMCQ_PIECES: largest number of pieces of memory in one transfer, at most 4095. */
#ifndef MMCQ_HOSTS
#define MMCQ_HOSTS 2
#endif
#ifndef MMCQ_SLOTS
#define MMCQ_SLOTS 7
#endif
#ifndef MMCQ_PIECES
#define MMCQ_PIECES 128
#endif
/* MMCQ_STM32_SDMMC: defined where the library was built with feature `stm32-sdmmc`. */
#ifdef MMCQ_STM32_SDMMC
#define MMCQ_LIST_BYTES (16UL * (MMCQ_PIECES + 1) + 576)
#else
#define MMCQ_LIST_BYTES (16UL * (MMCQ_PIECES + 1))
#endif
/* MMCQ_RTSX: defined where the library was built with feature `rtsx`. */
#ifdef MMCQ_RTSX
#define MMCQ_DMA_ALIGN 1024
#define MMCQ_DMA_BYTES ((MMCQ_LIST_BYTES + 1023) / 1024 * 1024 + 4096)
#else
#define MMCQ_DMA_ALIGN 128
#define MMCQ_DMA_BYTES ((MMCQ_LIST_BYTES + 127) / 128 * 128 + 1024)
#endif

/* The card that mmcq_bring_up has found. */
typedef struct mmcq_card {
    uint64_t blocks;          /* size of the card in blocks of 512 bytes */
    uint32_t clock_hz;        /* clock of the bus, in hertz */
    uint32_t transfer_blocks; /* longest transfer to the card, in blocks; requests may be longer */
    uint32_t align;           /* alignment of memory for mmcq_read and mmcq_write, in bytes */
    uint32_t cid[4];          /* CID, bits 127 to 96 first */
    uint32_t csd[4];          /* CSD, bits 127 to 96 first */
    uint8_t emmc;             /* 1: eMMC, 0: SD card */
    uint8_t width;            /* number of data lines: 1, 4 or 8 */
    uint8_t volatile_cache;   /* 1: only mmcq_flush and mmcq_write_durable make data durable */
    uint8_t pieces;           /* 1: memory may be in pieces; see mmcq_platform.piece */
    uint32_t discard_blocks;  /* number of blocks that a discard frees as one; 0: no discard */
    uint8_t zeroes;           /* 1: MMCQ_ZEROES works, at least for whole erase groups */
    uint8_t read_only;        /* 1: the card's switch, or the card, forbids writes */
    uint8_t secure_erase;     /* 1: MMCQ_SECURE_ERASE works, at least for whole erase groups */
    uint8_t reserved;
} mmcq_card;

/* Opens controller number `host`, from 0 to MMCQ_HOSTS - 1. `platform` points to a whole structure.
 * It has at least `lock`, `unlock`, `now_ns`, and the registers in one of the two ways. Its
 * functions and memory must stay valid until mmcq_close. */
int32_t mmcq_open(uint32_t host, const mmcq_platform *platform);

/* Opens Realtek's PCIe card reader with these PCI numbers; call it instead of mmcq_open. The
 * contract of mmcq_open applies. The library has this function if it was built with feature `rtsx`.
 * The reader has 32 bytes of registers, which are accessed with 4 bytes each. `quirks` is NULL,
 * `flags` is 0, and `cache_line` is 0 or 1. A request has at most 256 pieces (or MMCQ_PIECES, if
 * that is less); a piece of up to 512 KiB counts as one. MMCQ_E_UNSUPPORTED: the library does not
 * know this chip, and has accessed no register. */
int32_t mmcq_open_rtsx(uint32_t host, const mmcq_platform *platform, uint16_t vendor, uint16_t device);

/* The board around NXP's uSDHC. Set members without a meaning for your board to 0. */
typedef struct mmcq_usdhc {
    uint32_t root_hz;    /* root clock of the controller, in hertz, as the board has set it; not 0 */
    uint32_t max_hz;     /* fastest clock that the wiring supports, in hertz; 0: no limit */
    uint8_t width;       /* number of data lines that are connected: 1, 4 or 8; 0: 4 */
    uint8_t fixed;       /* 1: the pin CD_B does not say whether a card is in the slot, or the card
                            is soldered; then the library takes the card as present, and
                            mmcq_bring_up returns MMCQ_E_NO_CARD if none responds */
    uint8_t reserved[2]; /* 0 */
} mmcq_usdhc;

/* Opens NXP's uSDHC (i.MX 6, 7, 8, RT 10xx and 11xx); call it instead of mmcq_open. The contract of
 * mmcq_open applies. The library has this function if it was built with feature `usdhc`. Before this
 * call your program does what is outside of the controller:
 * - it switches on the controller's clock gate, and sets its root clock;
 * - it connects the pins, with pull-ups at all lines except the clock's;
 * - it switches on the card's supply. The library switches no supply, and the lines keep 3.3 V.
 * The controller must reach the memory of requests and the library's static memory (or `dma`), all
 * of it below 4 GiB. `read` and `write` are called for 4 bytes only. `flags` is MMCQ_QUICK_MAP or 0.
 * On an i.MX 6Q, 6SX, 6SL or 7D, `quirks` has "no-auto-cmd23".
 * The library uses default speed and high speed, up to 52 MHz. It does not use 1.8 V, DDR and tuning
 * (UHS-I, HS200), which the driver has never run with. MMCQ_E_ARGUMENT: also if a member of `board`
 * is out of range. */
int32_t mmcq_open_usdhc(uint32_t host, const mmcq_platform *platform, const mmcq_usdhc *board);

/* The board around ST's SDMMC. Set members without a meaning for your board to 0. */
typedef struct mmcq_stm32 {
    uint32_t kernel_hz;      /* kernel clock of the controller (sdmmc_ker_ck), in hertz; not 0 */
    uint32_t max_hz;         /* fastest clock that the wiring supports, in hertz; 0: 25 MHz. With
                                more than 25 MHz the library uses high speed */
    /* First and last address that the controller's DMA reaches; if both are 0, it reaches all
     * memory. SDMMC1 of an H7 reaches AXI SRAM and external memory, but not DTCM. */
    uint32_t dma_first, dma_last;
    uint32_t power_up_us;    /* time that the card's supply needs to rise, in microseconds; 0: 1 ms */
    uint8_t width;           /* number of data lines that are connected: 1, 4 or 8; 0: 4 */
    uint8_t fixed;           /* 1: the card is soldered */
    uint8_t busy_after_data; /* 1: the end of a write's data includes the end of its busy, as ST's
                                manual says. 0: the library reads the card's status after each write,
                                since users of other drivers saw cards that were still busy */
    uint8_t falling_edge;    /* 1: CMD and DAT change at the falling edge of the clock (NEGEDGE) */
    /* Resets the controller by the clock tree (RCC), so that its registers are as after power-on and
     * its DMA is stopped, and returns 1. Returns 0 if that failed. The library calls it with the lock
     * held, in any context. NULL: the board cannot do it. Then nothing can switch the slot's power
     * off again, or stop a transfer that the controller itself does not stop. */
    int32_t (*reset)(void *context);
} mmcq_stm32;

/* Opens ST's SDMMC, versions 2 and 3 (STM32 H7, H5, U5, L4+, L5, N6 and MP1); call it instead of
 * mmcq_open. The contract of mmcq_open applies. The library has this function if it was built with
 * feature `stm32-sdmmc`. The STM32 F1, F2, F4 and F7 have another controller, which the library does
 * not drive. Before this call your program does what is outside of the controller:
 * - it switches on the controller's clocks, and resets the controller;
 * - it connects the pins, with pull-ups at all lines except the clock's;
 * - it switches on the card's supply. The library switches no supply, and changes no voltage.
 * The controller must reach the memory of requests and the library's static memory (or `dma`).
 * `read` and `write` are called for 4 bytes only, at offsets below 128. `quirks` is NULL.
 * MMCQ_EMMC_18 in `flags` says that the lines always have 1.8 V; then the eMMC may have DDR. A
 * transfer uses memory in one piece: mmcq_card.pieces is 0, and MMCQ_PIECES=1 saves memory. The
 * library does not use the delay block, so there is no UHS-I and no HS200.
 * The controller does not detect a card: mmcq_card_present returns 1, and `card_event` reports only
 * once that a card is there. Without a card mmcq_bring_up and mmcq_io_bring_up return
 * MMCQ_E_NO_CARD. If the card is taken out later, calls return MMCQ_E_DEAD until mmcq_bring_up has
 * found a card.
 * MMCQ_E_ARGUMENT: also if a member of `board` is out of range. MMCQ_E_DMA: the controller does not
 * reach the library's memory. MMCQ_E_CONTROLLER: also if the controller has no DMA of its own. */
int32_t mmcq_open_stm32(uint32_t host, const mmcq_platform *platform, const mmcq_stm32 *board);

/* Switches the slot's power on, and initialises the card with the fastest bus that controller and
 * card support. Call it again after a change of cards. Afterwards the library keeps the card
 * working (see the beginning of this file). `card` may be NULL.
 * MMCQ_E_NO_CARD: the slot is empty, no card responds, or a card was put in some milliseconds ago.
 * Call again, with pauses of 50 ms or more. If another call has returned MMCQ_E_REMOVED, do the
 * same, or wait for `card_event`. */
int32_t mmcq_bring_up(uint32_t host, mmcq_card *card);

/* Returns whether a card is in the slot, by the slot's switch: 1, 0, or a negative result. Any
 * context may call it, except the functions of the platform that are called with the lock held. */
int32_t mmcq_card_present(uint32_t host);

/* Reads or writes blocks, and returns when that is done. `memory` has `blocks` times 512 bytes, and
 * its address is a multiple of mmcq_card.align. The memory belongs to the library until the call
 * returns: during a read nothing else may use it, and during a write nothing may change it. If more
 * calls than slots are in progress, calls wait for a free slot. With `map`, calls whose memory
 * overlaps also wait for each other. If no reset stops a controller that has the memory, the call
 * never returns, since the controller may still access the memory. */
int32_t mmcq_read(uint32_t host, uint64_t lba, uint32_t blocks, uint8_t *memory);
int32_t mmcq_write(uint32_t host, uint64_t lba, uint32_t blocks, const uint8_t *memory);

/* What survives a power cut: if volatile_cache is 1, a write that returned MMCQ_OK may be lost
 * until mmcq_flush has returned MMCQ_OK. mmcq_bring_up enables an eMMC's cache. docs/durable.md has
 * the rules for each call. */

/* Flushes: when this call returns MMCQ_OK, all earlier writes are on the medium.
 * MMCQ_E_CACHE_LOST, or MMCQ_E_CARD if the card reported it as an error: writes that were complete
 * are lost, whoever wrote them. Only one call reports a loss, so users that share a controller must
 * tell each other. */
int32_t mmcq_flush(uint32_t host);

/* Writes as mmcq_write does. When this call returns MMCQ_OK, these blocks are on the medium, past
 * every cache; earlier writes need not be. If the card supports such writes, the call takes less
 * time than mmcq_write and mmcq_flush. */
int32_t mmcq_write_durable(uint32_t host, uint64_t lba, uint32_t blocks, const uint8_t *memory);

/* Values of mmcq_request.op. */
enum {
    MMCQ_READ = 0, MMCQ_WRITE = 1, MMCQ_WRITE_DURABLE = 2, MMCQ_FLUSH = 3, MMCQ_DISCARD = 4,
    MMCQ_ZEROES = 5, MMCQ_SECURE_ERASE = 6
};

/* A request for which no thread waits. The structure and the request's memory belong to the library
 * from mmcq_submit until `done` is called. */
typedef struct mmcq_request {
    uint32_t op;
    /* `blocks`, `lba` and `memory` are as in mmcq_read, mmcq_write and mmcq_write_durable.
     * MMCQ_FLUSH uses none of them; MMCQ_DISCARD, MMCQ_ZEROES and MMCQ_SECURE_ERASE do not use
     * `memory`. */
    uint32_t blocks;
    uint64_t lba;
    uint8_t *memory;
    /* The library calls this one time, without the lock: in mmcq_on_irq, in mmcq_poll, in
     * mmcq_submit itself, or in a thread's other call. It must be short and must not wait. It may
     * call mmcq_submit, also with this request. MMCQ_E_MEMORY: the controller may still access the
     * memory, so do not use the memory again. */
    void (*done)(struct mmcq_request *request, int32_t code);
    void *context; /* for your program; the library does not use it */
} mmcq_request;

/* Begins a request. Any context may call it, except `lock`, `unlock` and `set_alarm`. With any
 * other result than MMCQ_OK the request has not begun, and `done` is not called. MMCQ_E_FULL: no
 * slot is free (MMCQ_SLOTS slots are shared with all other calls), `map` had no room, or the memory
 * overlaps that of another request.
 * Requests are executed in any order, with two exceptions: requests for the same blocks keep their
 * order, and no request overtakes MMCQ_FLUSH. A flush covers all writes that were submitted before
 * it, complete or not. (If such a write fails, its own `done` gets the error.)
 * Without `set_alarm`, call mmcq_poll at the time that mmcq_next_deadline_ns returns. mmcq_submit
 * calls `map`, and the library calls `unmap` just before `done`, both without the lock. */
int32_t mmcq_submit(uint32_t host, mmcq_request *request);

/* MMCQ_DISCARD does what mmcq_discard does. MMCQ_ZEROES makes exactly these blocks read as zeros,
 * by an erase. If the card cannot do that for exactly these blocks, mmcq_submit returns
 * MMCQ_E_UNSUPPORTED, and nothing has begun; then write zeros. After MMCQ_SECURE_ERASE an eMMC has
 * no copy of these blocks any more; they read as after mmcq_erase. It may take minutes. If the card
 * cannot do it for exactly these blocks (some can for whole erase groups only), mmcq_submit returns
 * MMCQ_E_UNSUPPORTED, and nothing has begun. */

/* Cancels a request that has not begun, for example because your program no longer needs it. Any
 * context may call it, except `lock`, `unlock` and `set_alarm`. MMCQ_OK: the request will never
 * begin, and `done` will not be called; `unmap` was called, and request and memory belong to your
 * program again, unchanged. MMCQ_E_STATE: the request has begun, has ended, or was never submitted.
 * Then nothing is changed, and a request that has begun calls `done` as usual, in bounded time. The
 * library compares only the address of the request. So if another context may submit the same
 * structure again, do not cancel it from two contexts at a time. */
int32_t mmcq_cancel(uint32_t host, const mmcq_request *request);

/* Declares the content of these blocks as not needed any more. Until they are written again, they
 * read as before or as erased. Blocks that the card cannot free exactly keep their content. */
int32_t mmcq_discard(uint32_t host, uint64_t lba, uint32_t blocks);

/* Erases blocks: when this call returns MMCQ_OK, they read as erased blocks do, all zeros or all
 * ones, as the card has it. MMCQ_E_UNSUPPORTED: the card cannot erase exactly these blocks. A card
 * may take minutes for many blocks. */
int32_t mmcq_erase(uint32_t host, uint64_t lba, uint32_t blocks);

/* ---- Other partitions of an eMMC ----
 * Boot areas and general purpose partitions. For each access the library waits until the queue is
 * empty, switches the card to the partition, transfers the data, and switches the card back; no
 * other request is executed in between. So other threads may make all calls at the same time, and
 * no partition stays selected. A long call consists of several accesses, and other requests may be
 * executed between two of them. Each call first reads the partition's parameters from the card's
 * EXT_CSD register.
 * Values of `partition`; 5 and 6 are the second and the third general purpose partition. */
enum { MMCQ_BOOT_1 = 1, MMCQ_BOOT_2 = 2, MMCQ_GENERAL_1 = 4, MMCQ_GENERAL_4 = 7 };

/* Stores the size of a partition, in blocks of 512 bytes, in `*blocks`. MMCQ_E_UNSUPPORTED: the
 * card has no such partition. */
int32_t mmcq_partition_blocks(uint32_t host, uint32_t partition, uint32_t *blocks);

/* Reads or writes blocks of a partition as mmcq_read and mmcq_write do, with less than 16 MiB in
 * one call. mmcq_flush covers all partitions. MMCQ_E_PROTECTED: the boot area is write-protected.
 * MMCQ_E_MEMORY: the controller may still access the memory, so do not use the memory again. */
int32_t mmcq_partition_read(uint32_t host, uint32_t partition, uint32_t lba, uint32_t blocks, uint8_t *memory);
int32_t mmcq_partition_write(uint32_t host, uint32_t partition, uint32_t lba, uint32_t blocks, const uint8_t *memory);

/* ---- The replay-protected area of an eMMC (RPMB) ----
 * Only a library that was built with feature `rpmb` has these functions. Only one thread at a time
 * may call them. */
typedef struct mmcq_rpmb {
    /* The authentication key: 32 bytes that only card and host know. May be NULL for mmcq_rpmb_size
     * and mmcq_rpmb_relay, which use no key. */
    const uint8_t *key;
    /* Numbers that were never used before. A write uses both; a read, and a read of the counter,
     * use the first. */
    uint8_t nonces[2][16];
    /* Memory for the frames: 512 bytes for each unit of a read or write, and 1024 more; at least
     * 1536. Its address is a multiple of mmcq_card.align. It belongs to the library until the call
     * returns, and is cleared then. MMCQ_E_MEMORY: do not use this memory again. */
    uint8_t *memory;
    uint32_t memory_bytes;
} mmcq_rpmb;

/* Stores the number of units of 256 bytes in the area in `*units`, and the largest number of units
 * in one write in `*write_units`. */
int32_t mmcq_rpmb_size(uint32_t host, const mmcq_rpmb *rpmb, uint32_t *units, uint32_t *write_units);

/* Programs the key, which is possible one time in the card's life and cannot be undone. `for_ever`
 * must be MMCQ_RPMB_FOR_EVER. */
#define MMCQ_RPMB_FOR_EVER 0x4b455921u
int32_t mmcq_rpmb_program_key(uint32_t host, const mmcq_rpmb *rpmb, uint32_t for_ever);

/* Reads the write counter, and stores it in `*counter`. */
int32_t mmcq_rpmb_counter(uint32_t host, const mmcq_rpmb *rpmb, uint32_t *counter);

/* Reads or writes units of 256 bytes from `address` on. A write has 1, 2 or 32 units. It is sent
 * one time, and either all of its units are written or none.
 * MMCQ_E_AMBIGUOUS: it is not known whether the write was done; read the units. The same holds after
 * MMCQ_E_MEMORY. After any other error it was not done. All of this holds while nothing else writes
 * to the area, since the card has one write counter for all writers.
 * MMCQ_E_FULL: no slot was free; the library does not try again, because a second try needs other
 * nonces. MMCQ_E_READ_ONLY: the write counter has reached its end. */
int32_t mmcq_rpmb_read(uint32_t host, const mmcq_rpmb *rpmb, uint16_t address, uint32_t units, uint8_t *data);
int32_t mmcq_rpmb_write(uint32_t host, const mmcq_rpmb *rpmb, uint16_t address, uint32_t units, const uint8_t *data);

/* Frames of a program that has the RPMB's key, and makes and checks the frames itself. The library
 * only transfers them, and never repeats a transfer. First it writes `out` frames (as a reliable
 * write if `reliable` is not 0), then one more frame in a write of its own if `ask` is not 0, and
 * then it reads `back` frames. */
typedef struct mmcq_rpmb_frames {
    uint16_t out, back;
    uint8_t reliable, ask;
} mmcq_rpmb_frames;

/* Transfers the frames. `frames` has 512 bytes for each frame, in the order of the transfers; the
 * frames that are read are stored there. `rpmb->memory` has as many bytes, and at least 1536; it
 * must not overlap `frames`. `rpmb->key` is not used, and may be NULL. After an error the card may
 * have done what the frames say: read the counter. MMCQ_E_UNSUPPORTED: there are no frames, or more
 * than the controller can transfer at once. */
int32_t mmcq_rpmb_relay(uint32_t host, const mmcq_rpmb *rpmb, const mmcq_rpmb_frames *counts, uint8_t *frames);

/* ---- I/O cards (SDIO) ----
 * Calls for the same function wait for each other. Calls for different functions share the bus,
 * also with the memory of a combo card. The library does not initialise a lost I/O card again,
 * because only your driver knows what the card's functions were doing. If several calls in a row
 * return MMCQ_E_TIMEOUT or MMCQ_E_CRC, call mmcq_io_bring_up again. */
typedef struct mmcq_io_card {
    uint64_t blocks;             /* size of a combo card's memory in blocks; 0: no memory */
    uint32_t clock_hz;           /* clock of the bus, in hertz */
    uint16_t vendor, product;    /* from the card's tuples; 0: the tuples have none */
    uint16_t max_block_bytes[7]; /* largest block size of functions 1 to 7 */
    uint8_t interface_code[7];   /* standard interface code: 2 Bluetooth Type-A, 7 wireless LAN */
    uint8_t functions;           /* number of functions */
    uint8_t width;               /* number of data lines: 1 or 4 */
} mmcq_io_card;

/* Initialises an I/O card; call this instead of mmcq_bring_up. The card's functions stay disabled.
 * MMCQ_E_NO_CARD: call again after 50 ms or more, as after mmcq_bring_up. */
int32_t mmcq_io_bring_up(uint32_t host, mmcq_io_card *card);

/* Enables a function (1 to 7) and waits until it is ready, or disables it (`on` is 0). Enable the
 * functions of a card one after the other. MMCQ_E_TIMEOUT: the function was not ready in the time
 * that the card declares. */
int32_t mmcq_io_enable(uint32_t host, uint32_t function, int32_t on);

/* Sets a function's block size for CMD53. Before that, long transfers use byte mode. Set it again
 * after each mmcq_io_bring_up. */
int32_t mmcq_io_block_size(uint32_t host, uint32_t function, uint32_t bytes);

/* Reads or writes one register by CMD52. Function 0 has the registers that all functions share;
 * only the vendor's registers, F0h to FFh, can be written there. `read_back` may be NULL; otherwise
 * it gets the value that the register has after the write. A register of function 0 is read back by
 * a second CMD52; if the call fails, the register may have been written. */
int32_t mmcq_io_read_byte(uint32_t host, uint32_t function, uint32_t address, uint8_t *value);
int32_t mmcq_io_write_byte(uint32_t host, uint32_t function, uint32_t address, uint8_t value, uint8_t *read_back);

/* Transfers data of a function (1 to 7) by CMD53, in as many commands as needed. `how` is
 * MMCQ_IO_FIFO: all bytes use one register. Or it is MMCQ_IO_INCREMENT: each byte uses the next
 * register. The memory's rules are those of mmcq_read, but its length need not be whole blocks: on
 * a machine with caches, no other data may share the last cache line of memory for a read. After an
 * error it is not known how many bytes were transferred. */
enum { MMCQ_IO_FIFO = 0, MMCQ_IO_INCREMENT = 1 };
int32_t mmcq_io_read(uint32_t host, uint32_t function, uint32_t address, uint32_t how, uint32_t bytes, uint8_t *memory);
int32_t mmcq_io_write(uint32_t host, uint32_t function, uint32_t address, uint32_t how, uint32_t bytes,
                      const uint8_t *memory);

/* A transfer for which no thread waits. The structure and the transfer's memory belong to the
 * library from mmcq_io_submit until `done` is called. */
typedef struct mmcq_io_request {
    uint32_t function; /* 1 to 7 */
    uint32_t op;       /* MMCQ_READ or MMCQ_WRITE */
    /* `address`, `how`, `bytes` and `memory` are as in mmcq_io_read and mmcq_io_write. */
    uint32_t address, how, bytes;
    uint8_t *memory;
    /* The rules of mmcq_request.done apply. It may call mmcq_io_submit, also with this request. */
    void (*done)(struct mmcq_io_request *request, int32_t code);
    void *context; /* for your program; the library does not use it */
} mmcq_io_request;

/* Begins a transfer. Any context may call it, except `lock`, `unlock` and `set_alarm`. With any
 * other result than MMCQ_OK the transfer has not begun, and `done` is not called. MMCQ_E_FULL:
 * another call or transfer uses the function, two transfers of this controller are in progress,
 * `map` had no room, or the memory overlaps that of another request.
 * While the transfer is in progress, calls for the same function wait for it. It ends in bounded
 * time, also if the card is removed or brought up again. */
int32_t mmcq_io_submit(uint32_t host, mmcq_io_request *request);

/* Allows a function (1 to 7) to interrupt, or not (`on` is 0). Only one thread at a time may use
 * the card's interrupt: while one of mmcq_io_irq_enable, mmcq_io_irq_wait and mmcq_io_irq_ack is in
 * progress, another of these calls returns MMCQ_E_STATE. MMCQ_E_UNSUPPORTED: the controller is
 * Realtek's reader, which does not report the card's interrupt; read the functions' registers from
 * time to time. */
int32_t mmcq_io_irq_enable(uint32_t host, uint32_t function, int32_t on);

/* Waits until a function requests attention, or until the time `until_ns` of now_ns; then it
 * returns MMCQ_E_TIMEOUT. `functions` may be NULL; otherwise it gets bit n for each function n that
 * requests attention, such as 2 for function 1. If a function requested attention before the call,
 * the call returns at once. */
int32_t mmcq_io_irq_wait(uint32_t host, uint64_t until_ns, uint8_t *functions);

/* Enables the card interrupt again, after your driver has cleared its causes in the functions. */
int32_t mmcq_io_irq_ack(uint32_t host);

/* Prepares for a sleep of the machine during which the card keeps its supply. Flushes, waits until
 * all requests in progress have ended, also the transfers of I/O functions, and suspends the
 * controller. Until mmcq_resume, new requests return MMCQ_E_STATE. With any other result than
 * MMCQ_OK the controller is not suspended. MMCQ_E_CACHE_LOST: earlier writes are lost; the next call
 * may succeed. If the card loses its supply during the sleep, call mmcq_close before it, and
 * mmcq_open and mmcq_bring_up after it. */
int32_t mmcq_suspend(uint32_t host);

/* Ends the suspension, after the sleep. If the card has lost its supply during the sleep, the first
 * request that needs the card initialises it again. */
int32_t mmcq_resume(uint32_t host);

/* Flushes, notifies the card of power-off, switches the slot's power off, and closes the
 * controller. An I/O card has nothing to flush. mmcq_open can open it again. Make sure that no other call for this controller is in
 * progress or begins: mask the interrupt and stop the alarm before. MMCQ_E_STATE: the controller is
 * still open, because a request is in progress, or because a controller that cannot be stopped
 * still uses memory. With any other result it is closed; an error then means that the last writes
 * may be lost, or that the card did not accept the notification. */
int32_t mmcq_close(uint32_t host);

/* Serves an interrupt of the controller. Returns 1 if the controller had an event. Returns 0 if it
 * had none, so another device on the same line has interrupted, and if the controller is not
 * open. */
int32_t mmcq_on_irq(uint32_t host);

/* Does the work that is due by time; the alarm calls it. A call too early does no harm. */
void mmcq_poll(uint32_t host);

/* Returns the time at which mmcq_poll must be called next; UINT64_MAX: no time. */
uint64_t mmcq_next_deadline_ns(uint32_t host);

/* Called by `wait` with its argument. Returns 1 if the thread may sleep: nothing that it waits for
 * has happened. Returns 0 if `wait` must return, and for NULL. Takes no lock; any context may call
 * it, also with interrupts masked. */
int32_t mmcq_may_sleep(const mmcq_idle *idle);

/* Counters since mmcq_open. They wrap to 0 after 2^64, or 2^32 on a 32-bit machine. */
typedef struct mmcq_statistics {
    /* Requests that were accepted, and data transfers that were started for reads and writes. */
    uint64_t requests, transfers;
    uint64_t merged;          /* requests that were sent in another request's transfer */
    uint64_t commands;        /* commands that were started */
    /* Calls of mmcq_on_irq that found an event, calls that found none, and commands whose end was
     * found without an interrupt when their deadline had passed. */
    uint64_t interrupts, spurious, lost_interrupts;
    uint64_t faults;          /* commands and transfers that failed */
    /* Polls of a busy card, and writes whose status was read by an extra CMD13. */
    uint64_t busy_polls, status_asked;
    uint64_t durable_flushes; /* durable writes that needed a flush */
    /* Losses of complete writes in the card's cache, and parts of long erases that were begun. */
    uint64_t cache_lost, erase_pieces;
    uint64_t recovery_steps;  /* steps of recovery that were taken */
} mmcq_statistics;
int32_t mmcq_stats(uint32_t host, mmcq_statistics *statistics);

/* The card's registers as the card sent them, for a report. They are from bring-up; only `ext_csd`
 * is read now. Registers that the card does not have are 0. */
typedef struct mmcq_registers {
    uint32_t ocr;
    uint8_t scr[8], ssr[64]; /* SD */
    uint8_t ext_csd[512];    /* eMMC */
} mmcq_registers;
int32_t mmcq_card_registers(uint32_t host, mmcq_registers *registers);

/* A step of recovery. */
typedef struct mmcq_step {
    uint64_t at_ns;  /* time of the step, by now_ns */
    uint32_t status; /* OR of all responses R1 of the card since this recovery began */
    uint32_t step;   /* what was done; see mmcq_step_name */
} mmcq_step;

/* Stores the last steps of recovery, oldest first, at most `most` of them, and returns their
 * number. The library keeps 16. A negative result is an error. */
int32_t mmcq_last_steps(uint32_t host, mmcq_step *steps, uint32_t most);

/* Returns the name of a step, such as "retry". The text is static and never NULL. */
const char *mmcq_step_name(uint32_t step);

/* Returns the name of a result, such as "MMCQ_E_NO_CARD". The text is static and never NULL. */
const char *mmcq_error_name(int32_t code);

/* Your program must define this function if the library was built with feature `panic-handler`. The
 * library calls it when it detects an error in its own code. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void mmcq_panic(void);

#ifdef __cplusplus
}
#endif
#endif
