/* on_stm32.h: before all else in a test of the SDHCI controller, makes it one of ST's SDMMC. */
#include "board.h"
#include "mmcq.h"
#define ON_STM32
static const mmcq_stm32 around = {.kernel_hz = 200000000, .max_hz = 50000000, .busy_after_data = 1, .reset = board_reset};
#define board_open board_open_stm32
#define mmcq_open(host, platform) mmcq_open_stm32(host, platform, &around)
