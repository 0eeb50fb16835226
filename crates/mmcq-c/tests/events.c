/* events.c: cards that are taken out and put in, and how long a call waits for a slot. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include "pass.h"
#include <string.h>

static int locked, events, present = -1;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }
static void card_event(void *context, int32_t now) {
    (void)context;
    if (locked)
        wrong = 1, puts("told with the lock held");
    EQUALS(mmcq_card_present(0), now);
    events++;
    present = now;
}

/* A `map` that has no room while `no_room` is set. */
static int no_room;
static int32_t map(void *board, void *memory, size_t bytes, int32_t to_card, uint64_t *bus) {
    return no_room ? MMCQ_E_FULL : board_map(board, memory, bytes, to_card, bus);
}

int main(void) {
    static uint8_t block[512] __attribute__((aligned(64)));
    void *board = board_open("sdhc-16g-hs");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .set_alarm = set_alarm, .wait = wait_for_it, .map = map, .unmap = board_unmap,
        .sync = board_sync, .card_event = card_event, .patience_ms = 20,
    };
    IS(mmcq_card_present(0), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    EQUALS(events, 0);
    mmcq_poll(0);
    EQUALS(events == 1 && present == 1, 1); /* the card that was in the slot before mmcq_open */
    mmcq_poll(0);
    IS(mmcq_bring_up(0, NULL), MMCQ_OK);
    IS(mmcq_read(0, 0, 1, block), MMCQ_OK);
    EQUALS(events, 1);

    for (int round = 0; round < 3; round++) {
        events = 0;
        board_remove_or_insert(board);
        pass(board, 300000000);
        EQUALS(events == 1 && present == 0, 1);
        EQUALS(mmcq_card_present(0), 0);
        IS(mmcq_read(0, 0, 1, block), MMCQ_E_NO_CARD);
        board_remove_or_insert(board);
        pass(board, 300000000);
        EQUALS(events == 2 && present == 1, 1);
        IS(mmcq_bring_up(0, NULL), MMCQ_OK);
        IS(mmcq_read(0, 0, 1, block), MMCQ_OK);
        EQUALS(events, 2);
    }

    /* A call waits for `patience_ms`, 20 ms here, and not for the default of 30 s. */
    no_room = 1;
    uint64_t from_ns = board_now_ns(board);
    IS(mmcq_read(0, 0, 1, block), MMCQ_E_FULL);
    uint64_t took_ns = board_now_ns(board) - from_ns;
    if (took_ns < 20000000 || took_ns > 25000000)
        wrong = 1, printf("waited for %ld us\n", (long)(took_ns / 1000));
    no_room = 0;
    IS(mmcq_read(0, 0, 1, block), MMCQ_OK);
    IS(mmcq_close(0), MMCQ_OK);
    if (locked || board_violations(board))
        wrong = 1, puts("rules were broken");
    return wrong;
}
