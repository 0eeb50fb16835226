/* mapped.h: a lock that reports nested calls, and functions for DMA that count mappings. More than
 * 512 bytes must be mapped without the lock. */
#include "board.h"
#include <stdio.h>

static int locked, mapped;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }
static int32_t map(void *board, void *memory, size_t bytes, int32_t to_card, uint64_t *bus) {
    if (locked && bytes > 512)
        wrong = 1, puts("the program's memory is mapped with the lock held");
    mapped++;
    return board_map(board, memory, bytes, to_card, bus);
}
static void unmap(void *board, uint64_t bus, void *memory, size_t bytes, int32_t to_card) {
    mapped--;
    board_unmap(board, bus, memory, bytes, to_card);
}
