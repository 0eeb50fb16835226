/* board.h: the board of the examples. Here it is simulated (examples/simulator.rs). Your board has
 * registers, an interrupt and a timer instead. */
#ifndef BOARD_H
#define BOARD_H
#include <stddef.h>
#include <stdint.h>

/* Makes an SDHCI controller with this card of the simulator; NULL: the simulator has no such
 * card. */
void *board_open(const char *card);
/* Makes Realtek's card reader with this card of the simulator; NULL: the simulator has no such
 * card. */
void *board_open_rtsx(const char *card);
uint32_t board_read(void *board, uint16_t offset, uint8_t bytes);
void board_write(void *board, uint16_t offset, uint8_t bytes, uint32_t value);
uint64_t board_now_ns(void *board);
/* Sleeps until the controller interrupts, or until this time. Returns 1 if the interrupt is
 * pending. */
int32_t board_sleep(void *board, uint64_t until_ns);
/* This board's controller sees memory at other addresses than the CPU. It sees what the CPU writes
 * only after `map` or `sync`, and the CPU sees what it writes only after `unmap`. */
int32_t board_map(void *board, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
void board_unmap(void *board, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
void board_sync(void *board, uint64_t bus, void *memory, size_t bytes);
/* From now on the controller sees this memory as the CPU does. Returns the address that the
 * controller uses. */
uint64_t board_coherent(void *board, void *memory, size_t bytes);
/* Events of the card: its supply fails for a moment; the card is taken out, or put in again. */
void board_brown_out(void *board);
void board_remove_or_insert(void *board);
/* Returns the number of rules of controller and memory that were violated since board_open. */
uint64_t board_violations(void *board);
#endif
