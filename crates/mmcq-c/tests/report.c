/* report.c: the registers of a card and the last steps of recovery, as a report has them. Prints nothing if all is well. */
#include "board.h"
#include "expect.h"
#include "mmcq.h"
#include "wait.h"
#include <string.h>

static mmcq_registers registers;
static mmcq_step steps[20];
static uint8_t block[512] __attribute__((aligned(64)));

int main(int count, char **words) {
    void *board = board_open(count > 1 ? words[1] : "emmc-hs200");
    mmcq_platform platform = {
        .context = board, .read = board_read, .write = board_write, .lock = nothing, .unlock = nothing,
        .now_ns = board_now_ns, .wait = wait_for_it, .map = board_map, .unmap = board_unmap, .sync = board_sync,
    };
    static const uint8_t zeros[512];
    mmcq_card card;
    IS(mmcq_card_registers(0, &registers), MMCQ_E_STATE);
    IS(mmcq_last_steps(0, steps, 20), MMCQ_E_STATE);
    IS(mmcq_open(0, &platform), MMCQ_OK);
    IS(mmcq_card_registers(0, &registers), MMCQ_E_NO_CARD);
    IS(mmcq_bring_up(0, &card), MMCQ_OK);
    IS(mmcq_card_registers(0, NULL), MMCQ_E_ARGUMENT);
    memset(&registers, 0xee, sizeof registers);
    IS(mmcq_card_registers(0, &registers), MMCQ_OK);
    EQUALS(registers.ocr >> 31, 1);
    if (card.emmc) {
        uint32_t sectors = registers.ext_csd[212] | registers.ext_csd[213] << 8 | registers.ext_csd[214] << 16 | (uint32_t)registers.ext_csd[215] << 24;
        EQUALS(sectors, card.blocks);
        EQUALS(memcmp(registers.scr, zeros, 8) || memcmp(registers.ssr, zeros, 64), 0);
    } else {
        EQUALS(registers.scr[0] != 0 && memcmp(registers.ssr, zeros, 64) != 0, 1);
        EQUALS(memcmp(registers.ext_csd, zeros, 512), 0);
    }

    IS(mmcq_last_steps(0, NULL, 20), MMCQ_E_ARGUMENT);
    IS(mmcq_last_steps(0, steps, 20), 0);
    board_brown_out(board);
    IS(mmcq_read(0, 0, 1, block), MMCQ_OK);
    int32_t taken = mmcq_last_steps(0, steps, 20);
    EQUALS(taken >= 2 && taken <= 16, 1);
    for (int32_t i = 1; i < taken; i++)
        EQUALS(steps[i - 1].at_ns <= steps[i].at_ns, 1);
    EQUALS(strcmp(mmcq_step_name(steps[0].step), "classify"), 0);
    mmcq_step last = steps[taken - 1];
    EQUALS(mmcq_last_steps(0, steps, 1), 1);
    EQUALS(memcmp(&last, steps, sizeof last), 0);
    EQUALS(mmcq_last_steps(0, steps, 0), 0);
    EQUALS(strcmp(mmcq_step_name(10), "dead") || strcmp(mmcq_step_name(11), "unknown step"), 0);
    IS(mmcq_close(0), MMCQ_OK);
    EQUALS(board_violations(board), 0);
    return wrong;
}
