/* io.c: registers of a Bluetooth Type-A function, and packets that its interrupt reports. Prints
 * nothing if all is well. The argument is the length of a cache line. */
#include "board.h"
#include "expect.h"
#include "mapped.h"
#include "mmcq.h"
#include <stdlib.h>
#include <string.h>

static void wait_for_it(void *board, const mmcq_idle *idle) {
    (void)idle;
    if (board_sleep(board, board_now_ns(board) + 100000))
        mmcq_on_irq(0);
}

/* Registers of a Type-A function [SDIO Bluetooth 2]. */
enum { DATA = 0x00, READ_RETRY = 0x10, INTERRUPT = 0x13, INTERRUPT_ENABLE = 0x14, MODE = 0x20 };

/* Registers of the SDHCI controller: the slot's power is on (bit 0), and the events that the controller notes. */
enum { POWER_CONTROL = 0x29, STATUS_ENABLE = 0x34, CARD_INTERRUPT = 0x100 };

static uint8_t packet[2560] __attribute__((aligned(64)));

int main(int count, char **arguments) {
    void *board = board_open("bt-type-a");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = lock, .unlock = unlock,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = map, .unmap = unmap, .sync = board_sync,
        .cache_line = count > 1 ? (uint32_t)atoi(arguments[1]) : 0,
    };
    mmcq_io_card card;
    uint8_t value = 0, asking = 0;
    IS(mmcq_io_bring_up(0, &card), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_io_read_byte(0, 1, 0, &value), MMCQ_E_NO_CARD);
    IS(mmcq_io_irq_ack(0), MMCQ_E_NO_CARD);
    IS(mmcq_io_bring_up(0, &card), MMCQ_OK);
    EQUALS(card.functions, 1);
    EQUALS(card.vendor, 0x0104);
    EQUALS(card.product, 0x00c5);
    EQUALS(card.interface_code[0], 2);
    EQUALS(card.max_block_bytes[0], 512);
    EQUALS(card.blocks, 0);
    IS(mmcq_read(0, 0, 1, packet), MMCQ_E_NO_CARD); /* the card has no memory */

    /* Function 0 has the registers that all functions share. */
    IS(mmcq_io_read_byte(0, 0, 0, &value), MMCQ_OK);
    EQUALS(value, 0x22);
    IS(mmcq_io_write_byte(0, 0, 0x02, 2, NULL), MMCQ_E_ARGUMENT); /* not a vendor's register */
    IS(mmcq_io_read_byte(0, 2, 0, &value), MMCQ_E_ARGUMENT);      /* no such function */
    IS(mmcq_io_read_byte(0, 8, 0, &value), MMCQ_E_ARGUMENT);
    IS(mmcq_io_read_byte(0, 1, 1 << 17, &value), MMCQ_E_ARGUMENT);
    IS(mmcq_io_read_byte(0, 1, 0, NULL), MMCQ_E_ARGUMENT);
    IS(mmcq_io_block_size(0, 1, 513), MMCQ_E_ARGUMENT);
    IS(mmcq_io_enable(0, 0, 1), MMCQ_E_ARGUMENT);
    IS(mmcq_io_read(0, 1, DATA, 2, 4, packet), MMCQ_E_ARGUMENT);
    IS(mmcq_io_read(0, 1, DATA, MMCQ_IO_FIFO, 0, packet), MMCQ_E_ARGUMENT);
    IS(mmcq_io_read(0, 0, DATA, MMCQ_IO_FIFO, 4, packet), MMCQ_E_ARGUMENT);
    IS(mmcq_io_read(0, 1, DATA, MMCQ_IO_FIFO, 4, packet + 1), MMCQ_E_DMA);

    IS(mmcq_io_enable(0, 1, 1), MMCQ_OK);
    IS(mmcq_io_block_size(0, 1, 512), MMCQ_OK);
    IS(mmcq_io_irq_enable(0, 1, 1), MMCQ_OK);
    IS(mmcq_io_write_byte(0, 1, MODE, 0, NULL), MMCQ_OK);
    IS(mmcq_io_write_byte(0, 1, INTERRUPT_ENABLE, 1, &value), MMCQ_OK);
    EQUALS(value, 1);

    /* The card sends 250 packets a second. The test receives eight; the header of each has its
     * length. */
    for (int i = 0; i < 8; i++) {
        uint64_t until_ns = board_now_ns(board) + 100000000;
        IS(mmcq_io_irq_wait(0, until_ns, &asking), MMCQ_OK);
        EQUALS(asking, 2);
        IS(mmcq_io_read_byte(0, 1, INTERRUPT, &value), MMCQ_OK);
        EQUALS(value & 1, 1);
        IS(mmcq_io_write_byte(0, 1, INTERRUPT, 1, NULL), MMCQ_OK);
        memset(packet, 0, sizeof packet);
        if (i == 5) {
            /* The whole packet in one call, whose end is no multiple of a cache line. */
            IS(mmcq_io_read(0, 1, DATA, MMCQ_IO_FIFO, 2048 + 4, packet), MMCQ_OK);
            EQUALS(packet[0] | packet[1] << 8, 2048 + 4);
            uint64_t number = packet[4] | packet[5] << 8;
            for (uint64_t at = 4; at < 2048; at++)
                EQUALS(packet[4 + at], ((number << 20 | at) * 0x9e3779b97f4a7c15u) >> 56);
            IS(mmcq_io_write_byte(0, 1, READ_RETRY, 0, NULL), MMCQ_OK);
            IS(mmcq_io_irq_ack(0), MMCQ_OK);
            continue;
        }
        IS(mmcq_io_read(0, 1, DATA, MMCQ_IO_FIFO, 4, packet), MMCQ_OK);
        uint32_t bytes = packet[0] | packet[1] << 8 | (uint32_t)packet[2] << 16;
        EQUALS(bytes, 2048 + 4);
        if (bytes <= 4 || bytes > sizeof packet)
            return 1;
        IS(mmcq_io_read(0, 1, DATA, MMCQ_IO_FIFO, bytes - 4, packet), MMCQ_OK);
        IS(mmcq_io_write_byte(0, 1, READ_RETRY, 0, NULL), MMCQ_OK);
        IS(mmcq_io_irq_ack(0), MMCQ_OK);
    }

    /* A function whose interrupt is disabled reports nothing: the wait ends at `until_ns`. */
    IS(mmcq_io_irq_enable(0, 1, 0), MMCQ_OK);
    IS(mmcq_io_irq_ack(0), MMCQ_OK);
    uint64_t until_ns = board_now_ns(board) + 50000000;
    IS(mmcq_io_irq_wait(0, until_ns, NULL), MMCQ_E_TIMEOUT);
    if (board_now_ns(board) < until_ns || board_now_ns(board) > until_ns + 1000000)
        wrong = 1, puts("waited for another time");

    /* After another bring-up the function is disabled. */
    IS(mmcq_io_bring_up(0, NULL), MMCQ_OK);
    IS(mmcq_io_enable(0, 1, 1), MMCQ_OK);
    IS(mmcq_io_enable(0, 1, 0), MMCQ_OK);
    IS(mmcq_io_irq_enable(0, 1, 1), MMCQ_OK);
#ifdef ON_STM32
    IS(mmcq_close(0), MMCQ_OK);
#else
    EQUALS(board_read(board, POWER_CONTROL, 1) & 1, 1);
    EQUALS(board_read(board, STATUS_ENABLE, 2) & CARD_INTERRUPT, CARD_INTERRUPT);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(board_read(board, POWER_CONTROL, 1) & 1, 0);
    EQUALS(board_read(board, STATUS_ENABLE, 2) & CARD_INTERRUPT, 0);
#endif
    IS(mmcq_io_enable(0, 1, 1), MMCQ_E_STATE);
    if (locked || mapped || board_violations(board))
        wrong = 1, printf("locked %d, mapped %d, broken rules %d\n", locked, mapped, (int)board_violations(board));
    return wrong;
}
