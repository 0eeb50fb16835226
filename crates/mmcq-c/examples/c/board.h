/* board.h: the board of the examples. Here it is simulated (examples/simulator.rs); yours has registers, an interrupt and a timer instead. */
#ifndef BOARD_H
#define BOARD_H
#include <stddef.h>
#include <stdint.h>

/* A controller with this card, one of the simulator's; NULL: no such card. */
void *board_open(const char *card);
/* The same with Realtek's card reader in the place of the SDHCI controller. */
void *board_open_rtsx(const char *card);
uint32_t board_read(void *board, uint16_t offset, uint8_t bytes);
void board_write(void *board, uint16_t offset, uint8_t bytes, uint32_t value);
uint64_t board_now_ns(void *board);
/* Sleeps until the interrupt or this time; 1: the interrupt is there. */
int32_t board_sleep(void *board, uint64_t until_ns);
/* This board's controller sees memory at other addresses, and late. */
int32_t board_map(void *board, void *memory, size_t bytes, int32_t to_card, uint64_t *bus);
void board_unmap(void *board, uint64_t bus, void *memory, size_t bytes, int32_t to_card);
void board_sync(void *board, uint64_t bus, void *memory, size_t bytes);
/* Memory that the controller sees as the CPU does, from now on; returns where. */
uint64_t board_coherent(void *board, void *memory, size_t bytes);
/* What happens to cards: the supply dips for a moment; it is taken out, or put in again. */
void board_brown_out(void *board);
void board_remove_or_insert(void *board);
/* Rules of controller and memory that were broken since. */
uint64_t board_violations(void *board);
#endif
