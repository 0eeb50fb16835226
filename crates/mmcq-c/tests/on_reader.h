/* on_reader.h: turns a test of the SDHCI controller into a test of Realtek's card reader. The test
 * includes it before all other headers. */
#include "board.h"
#include "mmcq.h"
#define board_open board_open_rtsx
#define mmcq_open(host, platform) mmcq_open_rtsx(host, platform, 0x10ec, 0x5249)
