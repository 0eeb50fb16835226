/* on_reader.h: before all else in a test of the SDHCI controller, makes it one of Realtek's card reader. */
#include "board.h"
#include "mmcq.h"
#define board_open board_open_rtsx
#define mmcq_open(host, platform) mmcq_open_rtsx(host, platform, 0x10ec, 0x5249)
