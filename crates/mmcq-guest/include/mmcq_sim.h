/* The laboratory's SDHCI controller, or DesignWare's, with a card in it, for a program that has a clock and a memory of its own.
 *
 * One call at a time for each model, and none from inside its DMA function. Times are nanoseconds of the caller's clock; one that goes
 * back counts as the latest that was told. */
#ifndef MMCQ_SIM_H
#define MMCQ_SIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct mmcq_sim mmcq_sim;

/* Copies count bytes from memory at a bus address, or to it if to_memory is not 0. Returns 0 if memory answered. */
typedef int mmcq_sim_dma(void *opaque, uint64_t address, void *bytes, size_t count, int to_memory);

/* The controller of a platform (`mmcq platforms`, or a file that ends in .toml) with a card (`mmcq cards`; "": the platform's own). What goes over the
 * bus is written to the file log, a line each ("": nowhere). NULL on an error: then error has one line of text. */
mmcq_sim *mmcq_sim_new(const char *platform, const char *card, const char *log, mmcq_sim_dma *dma, void *opaque, char *error, size_t error_bytes);
/* Ends it. Not 0 if the log could not be written. NULL is nothing. */
int mmcq_sim_free(mmcq_sim *sim);

/* What will happen to the slot, from a file: faults, loss of the card's supply, card out and in, with their times. Not 0 on an error: then error has one line
 * of text. The times count from the call of mmcq_sim_begin; only the first one counts. */
int mmcq_sim_schedule(mmcq_sim *sim, const char *file, char *error, size_t error_bytes);
void mmcq_sim_begin(mmcq_sim *sim, uint64_t now_ns);
/* What a line of such a file says, without its time, happens now: a fault of the catalogue at its next event, "cut 100", "out 500". Not 0 on an error. A fault
 * that has not struck yet is forgotten, and a schedule that has not begun. One that is not over is an error. */
int mmcq_sim_happen(mmcq_sim *sim, const char *what, uint64_t now_ns, char *error, size_t error_bytes);

/* A register of 1, 2 or 4 bytes at an offset of the standard's register map. */
uint32_t mmcq_sim_read(mmcq_sim *sim, uint16_t offset, uint8_t bytes, uint64_t now_ns);
void mmcq_sim_write(mmcq_sim *sim, uint16_t offset, uint8_t bytes, uint32_t value, uint64_t now_ns);

/* Lets everything happen up to a time; when something happens by itself (UINT64_MAX: never); the level of the interrupt. */
void mmcq_sim_advance(mmcq_sim *sim, uint64_t now_ns);
uint64_t mmcq_sim_next_event(mmcq_sim *sim);
int mmcq_sim_interrupt(mmcq_sim *sim);

/* How often the driver did what the standard forbids. */
uint64_t mmcq_sim_violations(mmcq_sim *sim);
/* Commands on the bus so far, automatic ones included. */
uint64_t mmcq_sim_commands(mmcq_sim *sim);

#endif
