/* A model of a controller (SDHCI, Synopsys' DesignWare MSHC or Realtek's card reader) with a card
 * in its slot, for a program that has its own clock and memory.
 *
 * Only one call at a time may use a model, and its DMA function must not call it. Times are
 * nanoseconds of the caller's clock; a time before that of an earlier call counts as the time of
 * that call. */
#ifndef MMCQ_SIM_H
#define MMCQ_SIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct mmcq_sim mmcq_sim;

/* The caller's function that copies count bytes between `bytes` and memory at a bus address: into
 * the memory if to_memory is not 0, otherwise out of it. Returns 0 on success, another value if no
 * memory has this address. */
typedef int mmcq_sim_dma(void *opaque, uint64_t address, void *bytes, size_t count, int to_memory);

/* Makes the controller of a platform (a name from `mmcq platforms`, or a file that ends in .toml)
 * with a card (a name from `mmcq cards`; "": the platform's default card). Each event on the bus
 * becomes a line in the file `log` ("": no log). Returns NULL on an error, and writes one line of
 * text into `error`. */
mmcq_sim *mmcq_sim_new(const char *platform, const char *card, const char *log, mmcq_sim_dma *dma, void *opaque, char *error, size_t error_bytes);
/* Frees a simulation. Returns 0, or another value if the log could not be written completely. NULL
 * is allowed, and nothing is freed. */
int mmcq_sim_free(mmcq_sim *sim);

/* Reads a schedule from a file: faults, losses of the card's supply, removals and insertions of the
 * card, with their times. The times count from the first call of mmcq_sim_begin; further calls have
 * no effect. Returns 0, or another value on an error, and then writes one line of text into
 * `error`. */
int mmcq_sim_schedule(mmcq_sim *sim, const char *file, char *error, size_t error_bytes);
void mmcq_sim_begin(mmcq_sim *sim, uint64_t now_ns);
/* Executes one line of a schedule now; the line is given without its time: a fault of the
 * catalogue, which strikes at its next event, "cut 100", "out 500". Returns 0, or another value on
 * an error. It drops an earlier fault that has not struck yet, and a schedule that has not begun; a
 * schedule that has begun and is not over is an error. */
int mmcq_sim_happen(mmcq_sim *sim, const char *what, uint64_t now_ns, char *error, size_t error_bytes);

/* Read or write a register of 1, 2 or 4 bytes at an offset in the controller's register map. */
uint32_t mmcq_sim_read(mmcq_sim *sim, uint16_t offset, uint8_t bytes, uint64_t now_ns);
void mmcq_sim_write(mmcq_sim *sim, uint16_t offset, uint8_t bytes, uint32_t value, uint64_t now_ns);

/* mmcq_sim_advance executes all events up to a time. mmcq_sim_next_event returns the time of the
 * next event without a register access (UINT64_MAX: there is none). mmcq_sim_interrupt returns the
 * level of the interrupt line, 1 or 0. */
void mmcq_sim_advance(mmcq_sim *sim, uint64_t now_ns);
uint64_t mmcq_sim_next_event(mmcq_sim *sim);
int mmcq_sim_interrupt(mmcq_sim *sim);

/* Returns how often the driver violated the standard. */
uint64_t mmcq_sim_violations(mmcq_sim *sim);
/* Returns the number of commands on the bus so far, including those that the controller sends
 * automatically (such as Auto CMD12). */
uint64_t mmcq_sim_commands(mmcq_sim *sim);

#endif
