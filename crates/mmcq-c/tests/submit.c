/* submit.c: requests that end in a callback, also callbacks that submit the next request. Prints
 * nothing if all is well. */
#include "expect.h"
#include "step.h"
#include <stdio.h>
#include <string.h>

static int locked, ended;
static void lock(void *context) { (void)context; wrong |= locked++ != 0; }
static void unlock(void *context) { (void)context; locked--; }
static int mapped;
static int32_t map(void *board, void *memory, size_t bytes, int32_t to_card, uint64_t *bus) {
    mapped++;
    return board_map(board, memory, bytes, to_card, bus);
}
static void unmap(void *board, uint64_t bus, void *memory, size_t bytes, int32_t to_card) {
    mapped--;
    board_unmap(board, bus, memory, bytes, to_card);
}

static uint8_t memory[8][8 * 512] __attribute__((aligned(64)));
static mmcq_request requests[8];
static int32_t codes[8];

static void done(mmcq_request *request, int32_t code) {
    if (locked)
        wrong = 1, puts("called back with the lock held");
    codes[request - requests] = code;
    ended++;
}

/* Callback of a chain of requests: it submits the next one. The first are writes of one block after
 * the other, the last 20 are flushes. On a card without a cache a flush ends at once, so its
 * callback runs inside mmcq_submit. */
static int chain_left;
static void next(mmcq_request *request, int32_t code) {
    IS(code, MMCQ_OK);
    if (chain_left == 0)
        return;
    chain_left--;
    request->lba++;
    if (chain_left < 20)
        request->op = MMCQ_FLUSH;
    IS(mmcq_submit(0, request), MMCQ_OK);
}

int main(int argc, char **argv) {
    void *board = board_open(argc > 1 ? argv[1] : "sdhc-16g-hs");
    int by_thread = argc > 2 && !strcmp(argv[2], "thread");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .set_alarm = set_alarm, .wait = wait_for_it, .map = map, .unmap = unmap,
        .sync = board_sync,
    };
    mmcq_card card;
    mmcq_request one = {.op = MMCQ_READ, .blocks = 1, .memory = memory[0], .done = done};
    IS(mmcq_submit(0, &one), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_submit(0, &one), MMCQ_E_NO_CARD);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    int before = mapped;
    IS(mmcq_submit(0, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_submit(0, (mmcq_request *)((char *)&one + 1)), MMCQ_E_ARGUMENT);
#define REFUSED(change, code)                                                                                 \
    do {                                                                                                      \
        mmcq_request bad = one;                                                                               \
        bad.change;                                                                                           \
        IS(mmcq_submit(0, &bad), code);                                                                       \
    } while (0)
    REFUSED(done = NULL, MMCQ_E_ARGUMENT);
    REFUSED(op = 7, MMCQ_E_ARGUMENT);
    REFUSED(memory = NULL, MMCQ_E_ARGUMENT);
    REFUSED(blocks = 0, MMCQ_E_ARGUMENT);
    REFUSED(lba = card.blocks, MMCQ_E_RANGE);
    REFUSED(memory = memory[0] + 1, MMCQ_E_DMA);
    if (ended || mapped != before)
        wrong = 1, puts("what was refused has left something");

    /* MMCQ_SLOTS requests are accepted at a time, and the next one is refused. */
    for (int round = 0; round < 4; round++) {
        int began = 0;
        ended = 0;
        for (int i = 0; i < 8; i++) {
            int write = round % 2 == 0;
            if (write)
                memset(memory[i], 16 * round + i + 1, sizeof memory[i]);
            else
                memset(memory[i], 0, sizeof memory[i]);
            codes[i] = 1;
            requests[i] = (mmcq_request){
                .op = write ? (i == 3 ? MMCQ_WRITE_DURABLE : MMCQ_WRITE) : MMCQ_READ,
                .blocks = 8, .lba = 4096 + 64 * i, .memory = memory[i], .done = done,
            };
            int32_t code = mmcq_submit(0, &requests[i]);
            if (code == MMCQ_OK)
                began++;
            else
                IS(code, MMCQ_E_FULL);
        }
        if (began != MMCQ_SLOTS)
            wrong = 1, printf("only %d began\n", began);
        if (by_thread)
            IS(mmcq_flush(0), MMCQ_OK); /* calls the callbacks in its wait or at its end */
        for (int i = 0; i < 1000 && ended < began; i++)
            step(board);
        if (ended != began || mapped != before)
            wrong = 1, printf("%d of %d ended, %d mapped\n", ended, began, mapped - before);
        for (int i = 0; i < began; i++) {
            IS(codes[i], MMCQ_OK);
            for (int k = 0; round % 2 && k < 8 * 512; k++)
                if (memory[i][k] != 16 * (round - 1) + i + 1) {
                    wrong = 1, printf("request %d reads %02x\n", i, memory[i][k]);
                    break;
                }
        }
    }

    /* A request that waits can be cancelled; a request that has begun cannot, and ends as usual. */
    ended = 0;
    for (int i = 0; i < 4; i++) {
        memset(memory[i], 0xee, sizeof memory[i]);
        codes[i] = 1;
        requests[i].op = MMCQ_WRITE, requests[i].lba = 8192 + 64 * i;
        IS(mmcq_submit(0, &requests[i]), MMCQ_OK);
    }
    IS(mmcq_cancel(0, &requests[0]), MMCQ_E_STATE);
    IS(mmcq_cancel(0, &requests[2]), MMCQ_OK);
    IS(mmcq_cancel(0, &requests[2]), MMCQ_E_STATE);
    IS(mmcq_cancel(0, &requests[3]), MMCQ_OK);
    IS(mmcq_cancel(0, NULL), MMCQ_E_STATE);
    IS(mmcq_cancel(1, &requests[1]), MMCQ_E_STATE);
    for (int i = 0; i < 1000 && ended < 2; i++)
        step(board);
    for (int i = 0; i < 20; i++)
        step(board);
    if (ended != 2 || codes[0] != MMCQ_OK || codes[1] != MMCQ_OK || codes[2] != 1 || codes[3] != 1 || mapped != before)
        wrong = 1, printf("taken back: %d ended, %d mapped\n", ended, mapped - before);
    IS(mmcq_cancel(0, &requests[1]), MMCQ_E_STATE);
    for (int i = 1; i < 3; i++) {
        IS(mmcq_read(0, 8192 + 64 * i, 1, memory[7]), MMCQ_OK);
        if ((memory[7][0] == 0xee) != (i == 1))
            wrong = 1, printf("taken back: write %d left %02x\n", i, memory[7][0]);
    }

    mmcq_request chain = {.op = MMCQ_WRITE, .blocks = 1, .lba = 9000, .memory = memory[0], .done = next};
    chain_left = 60;
    IS(mmcq_submit(0, &chain), MMCQ_OK);
    IS(mmcq_close(0), MMCQ_E_STATE); /* a request is in progress */
    for (int i = 0; i < 10000 && chain_left; i++)
        step(board);
    if (chain_left)
        wrong = 1, printf("the chain stands with %d to go\n", chain_left);
    for (int i = 0; i < 10; i++)
        step(board);

    /* After a refused mmcq_close the controller is open as before: the library still initialises a
     * card again that has lost its supply. */
    board_brown_out(board);
    IS(mmcq_read(0, 4096, 8, memory[0]), MMCQ_OK);
    if (memory[0][0] != 33)
        wrong = 1, printf("after a refused close and a loss of the supply: %02x\n", memory[0][0]);

    /* After the card was taken out, the request in progress ends with an error. */
    ended = 0, requests[0].done = done, requests[0].op = MMCQ_READ;
    IS(mmcq_submit(0, &requests[0]), MMCQ_OK);
    board_remove_or_insert(board);
    for (int i = 0; i < 3000 && !ended; i++)
        step(board);
    if (ended != 1 || codes[0] == MMCQ_OK)
        wrong = 1, printf("ended %d times, %s\n", ended, mmcq_error_name(codes[0]));
    IS(mmcq_close(0), MMCQ_OK);
    if (locked || mapped || board_violations(board))
        wrong = 1, printf("locked %d, mapped %d, broken rules %d\n", locked, mapped, (int)board_violations(board));
    return wrong;
}
