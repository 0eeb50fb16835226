/* sdio.c: a driver of an I/O function in C: receives the packets of a Bluetooth Type-A card, each
 * of which an interrupt of the card reports. */
#include "board.h"
#include "mmcq.h"
#include <inttypes.h>
#include <stdio.h>

/* Registers of the function [SDIO Bluetooth 2]. */
enum { DATA = 0x00, READ_RETRY = 0x10, INTERRUPT = 0x13, INTERRUPT_ENABLE = 0x14, MODE = 0x20 };
enum { BLUETOOTH = 1, HEADER = 4, PACKETS = 8 };

static void lock(void *context) { (void)context; }
static void unlock(void *context) { (void)context; }

/* Sleeps until the interrupt or the next deadline, for a millisecond at most. */
static void wait_for_it(void *context, const mmcq_idle *idle) {
    (void)idle;
    uint64_t soon_ns = board_now_ns(context) + 1000000, next_ns = mmcq_next_deadline_ns(0);
    if (board_sleep(context, next_ns < soon_ns ? next_ns : soon_ns))
        mmcq_on_irq(0);
}

static int failed(const char *what, int32_t code) {
    fprintf(stderr, "%s: %s\n", what, mmcq_error_name(code));
    return 1;
}

/* Enables the function and its interrupt. Call it again after each mmcq_io_bring_up. */
static int32_t set_up(void) {
    int32_t code;
    if ((code = mmcq_io_enable(0, BLUETOOTH, 1)) || (code = mmcq_io_block_size(0, BLUETOOTH, 512)) ||
        (code = mmcq_io_irq_enable(0, BLUETOOTH, 1)) || (code = mmcq_io_write_byte(0, BLUETOOTH, MODE, 0, NULL)))
        return code;
    return mmcq_io_write_byte(0, BLUETOOTH, INTERRUPT_ENABLE, 1, NULL);
}

/* Waits for a packet, for at most a second, and stores it. Its header has its length. */
static int32_t receive(void *board, uint8_t *packet, uint32_t most, uint32_t *bytes) {
    int32_t code;
    uint8_t causes;
    if ((code = mmcq_io_irq_wait(0, board_now_ns(board) + 1000000000, NULL)) ||
        (code = mmcq_io_read_byte(0, BLUETOOTH, INTERRUPT, &causes)) ||
        (code = mmcq_io_write_byte(0, BLUETOOTH, INTERRUPT, causes, NULL)) ||
        (code = mmcq_io_read(0, BLUETOOTH, DATA, MMCQ_IO_FIFO, HEADER, packet)))
        return code;
    *bytes = packet[0] | (uint32_t)packet[1] << 8 | (uint32_t)packet[2] << 16;
    if (*bytes <= HEADER || *bytes > most)
        return MMCQ_E_CARD;
    if ((code = mmcq_io_read(0, BLUETOOTH, DATA, MMCQ_IO_FIFO, *bytes - HEADER, packet + HEADER)) ||
        (code = mmcq_io_write_byte(0, BLUETOOTH, READ_RETRY, 0, NULL)))
        return code;
    /* The cause is cleared, so the card may interrupt again. */
    return mmcq_io_irq_ack(0);
}

int main(void) {
    static uint8_t packet[4096] __attribute__((aligned(64)));
    void *board = board_open("bt-type-a");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    mmcq_io_card card;
    int32_t code;
    uint32_t bytes;
    if (!board)
        return failed("board", MMCQ_E_NO_CARD);
    if ((code = mmcq_open(0, &platform)))
        return failed("open", code);
    if ((code = mmcq_io_bring_up(0, &card)))
        return failed("bring-up", code);
    printf("%u function, %u lines at %" PRIu32 " Hz\n", card.functions, card.width, card.clock_hz);
    if ((code = set_up()))
        return failed("set-up", code);
    for (int i = 0; i < PACKETS; i++) {
        if ((code = receive(board, packet, sizeof packet, &bytes)))
            return failed("packet", code);
        printf("packet of %" PRIu32 " bytes at %" PRIu64 " us\n", bytes, board_now_ns(board) / 1000);
    }
    if (board_violations(board))
        return failed("card", MMCQ_E_CARD);
    return (code = mmcq_close(0)) ? failed("close", code) : 0;
}
