/* io_submit.c: packets of a Bluetooth Type-A function by mmcq_io_submit, so that no thread waits.
 * Prints nothing if all is well. The argument is the length of a cache line. */
#include "board.h"
#include "expect.h"
#include "mapped.h"
#include "mmcq.h"
#include <stdlib.h>
#include <string.h>

static void *board;

static void step(void) {
    if (board_sleep(board, board_now_ns(board) + 100000))
        mmcq_on_irq(0);
    else
        mmcq_poll(0);
}

static void wait_for_it(void *of, const mmcq_idle *idle) {
    (void)of, (void)idle;
    step();
}

enum { DATA = 0x00, READ_RETRY = 0x10, INTERRUPT = 0x13, INTERRUPT_ENABLE = 0x14, MODE = 0x20 };

static uint8_t packet[2560] __attribute__((aligned(64)));
static int ended, last, under_lock;
static uint32_t payload;

/* Callbacks of the request: header_done submits it again for the packet's payload. */
static void payload_done(mmcq_io_request *request, int32_t code) {
    (void)request;
    under_lock |= locked;
    ended++;
    last = code;
}

static void header_done(mmcq_io_request *request, int32_t code) {
    under_lock |= locked;
    payload = (packet[0] | packet[1] << 8 | (uint32_t)packet[2] << 16) - 4;
    request->done = payload_done;
    request->bytes = payload;
    if (code == MMCQ_OK && payload <= sizeof packet)
        code = mmcq_io_submit(0, request);
    if (code != MMCQ_OK)
        payload_done(request, code);
}

static void until_ended(void) {
    for (int steps = 0; !ended && steps < 100000; steps++)
        step();
}

int main(int count, char **arguments) {
    board = board_open("bt-type-a");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = map, .unmap = unmap, .sync = board_sync,
        .cache_line = count > 1 ? (uint32_t)atoi(arguments[1]) : 0,
    };
    mmcq_io_request request = { .function = 1, .op = MMCQ_READ, .address = DATA, .how = MMCQ_IO_FIFO, .bytes = 4,
                                .memory = packet, .done = payload_done };
    uint8_t value = 0;
    IS(mmcq_io_submit(0, &request), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_io_submit(0, &request), MMCQ_E_NO_CARD);
    IS(mmcq_io_bring_up(0, NULL), MMCQ_OK);
    int before = mapped;

    /* Transfers with wrong arguments are refused, and no memory stays mapped. */
    mmcq_io_request odd = request;
    IS(mmcq_io_submit(0, NULL), MMCQ_E_ARGUMENT);
    odd.function = 0;
    IS(mmcq_io_submit(0, &odd), MMCQ_E_ARGUMENT);
    odd.function = 2; /* the card has only function 1 */
    IS(mmcq_io_submit(0, &odd), MMCQ_E_ARGUMENT);
    odd = request, odd.op = MMCQ_FLUSH;
    IS(mmcq_io_submit(0, &odd), MMCQ_E_ARGUMENT);
    odd = request, odd.how = 2;
    IS(mmcq_io_submit(0, &odd), MMCQ_E_ARGUMENT);
    odd = request, odd.bytes = 0;
    IS(mmcq_io_submit(0, &odd), MMCQ_E_ARGUMENT);
    odd = request, odd.done = NULL;
    IS(mmcq_io_submit(0, &odd), MMCQ_E_ARGUMENT);
    odd = request, odd.memory = packet + 1;
    IS(mmcq_io_submit(0, &odd), MMCQ_E_DMA);
    EQUALS(mapped, before);

    IS(mmcq_io_enable(0, 1, 1), MMCQ_OK);
    IS(mmcq_io_block_size(0, 1, 512), MMCQ_OK);
    IS(mmcq_io_irq_enable(0, 1, 1), MMCQ_OK);
    IS(mmcq_io_write_byte(0, 1, MODE, 0, NULL), MMCQ_OK);
    IS(mmcq_io_write_byte(0, 1, INTERRUPT_ENABLE, 1, NULL), MMCQ_OK);
    for (int i = 0; i < 8; i++) {
        uint8_t asking = 0;
        IS(mmcq_io_irq_wait(0, board_now_ns(board) + 100000000, &asking), MMCQ_OK);
        EQUALS(asking, 2);
        IS(mmcq_io_write_byte(0, 1, INTERRUPT, 1, NULL), MMCQ_OK);
        memset(packet, 0, sizeof packet);
        request.bytes = 4, request.done = header_done, ended = 0, payload = 0;
        if (i == 5) {
            /* The whole packet by two commands: mmcq_suspend waits for the end of both. */
            request.bytes = 4 + 2048, request.done = payload_done, payload = 2048;
            IS(mmcq_io_submit(0, &request), MMCQ_OK);
            IS(mmcq_suspend(0), MMCQ_OK);
            EQUALS(ended, 1);
            IS(last, MMCQ_OK);
            IS(mmcq_io_submit(0, &request), MMCQ_E_STATE);
            IS(mmcq_io_read_byte(0, 1, INTERRUPT_ENABLE, &value), MMCQ_E_STATE);
            IS(mmcq_resume(0), MMCQ_OK);
        } else {
            IS(mmcq_io_submit(0, &request), MMCQ_OK);
        }
        if (i == 3) {
            /* The function is in use: another transfer is refused, and a call waits until the
             * transfers of header and payload have ended. */
            IS(mmcq_io_submit(0, &request), MMCQ_E_FULL);
            IS(mmcq_close(0), MMCQ_E_STATE);
            IS(mmcq_io_read_byte(0, 1, INTERRUPT_ENABLE, &value), MMCQ_OK);
            EQUALS(value, 1);
        }
        until_ended();
        EQUALS(ended, 1);
        EQUALS(payload, 2048);
        IS(last, MMCQ_OK);
        IS(mmcq_io_write_byte(0, 1, READ_RETRY, 0, NULL), MMCQ_OK);
        IS(mmcq_io_irq_ack(0), MMCQ_OK);
    }
    EQUALS(mapped, before);

    /* After the card was taken out, a transfer is refused or ends with an error. */
    request.bytes = 4, request.done = payload_done, ended = 0, last = MMCQ_OK;
    board_remove_or_insert(board);
    int code = mmcq_io_submit(0, &request);
    if (code == MMCQ_OK)
        until_ended(), code = last;
    if (code >= 0)
        wrong = 1, printf("without a card: %d\n", code);
    EQUALS(mapped, before);
    IS(mmcq_close(0), MMCQ_OK);
    if (locked || under_lock || board_violations(board))
        wrong = 1, printf("locked %d, %d, broken rules %d\n", locked, under_lock, (int)board_violations(board));
    return wrong;
}
