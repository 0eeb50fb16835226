// load.c: a command of U-Boot's, `mmcqload`, that does what jobs/guest/table.sh has Linux do one request at a time: 1024 reads of 4 KiB each from the card, at random
// and in sequence. tools/uboot.sh puts it into U-Boot's tree as cmd/mmcqload.c. It says what `mmcq guest` reads, and ends the machine. Licence: MIT OR Apache-2.0.
#include <common.h>
#include <command.h>
#include <memalign.h>
#include <mmc.h>
#include <pci.h>
#include <asm/io.h>
#include <linux/math64.h>

enum { REQUESTS = 1024, BLOCKS = 8, MARK = 0xf0, LOAD_BEGINS = 1, LOAD_ENDS = 2, REPORT = 0xe9, EXIT = 0xf4, WELL = 16, WRONG = 17 };

/* The debug port is free of cost; the console is not. */
static void say(const char *format, ...)
{
	char text[512], *at;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (at = text; *at; at++)
		outb(*at, REPORT);
}

static int wrong(const char *what)
{
	say("guest: wrong: %s\n", what);
	outb(WRONG, EXIT);
	return CMD_RET_FAILURE;
}

static int do_mmcqload(struct cmd_tbl *cmdtp, int flag, int argc, char *const argv[])
{
	struct mmc *mmc = find_mmc_device(0);
	void *page = memalign(4096, BLOCKS * 512), *registers;
	int random;

	if (!mmc || !page)
		return wrong("no controller");
	if (mmc_init(mmc))
		return wrong("no card");
	registers = dm_pci_map_bar(mmc->dev, PCI_BASE_ADDRESS_0, 0, 0, PCI_REGION_TYPE, PCI_REGION_MEM);
	say("%s, %u Hz, %u lines\nguest: begin\n", mmc_mode_name(mmc->selected_mode), mmc->clock, mmc->bus_width);
	for (random = 1; random >= 0; random--) {
		u64 state = 1, ns, kib_per_s, places = lldiv(mmc->capacity_user, BLOCKS * 512), begin;
		unsigned int each, number;

		writel(LOAD_BEGINS, registers + MARK);
		begin = timer_get_us();
		for (number = 0; number < REQUESTS; number++) {
			u64 place = number;

			if (random) {
				/* As boards/pc has it. */
				state = state * 6364136223846793005ull + 1442695040888963407ull;
				place = state >> 32;
			}
			place -= lldiv(place, places) * places;
			if (blk_dread(mmc_get_blk_desc(mmc), place * BLOCKS, BLOCKS, page) != BLOCKS)
				return wrong("a read failed");
		}
		ns = (timer_get_us() - begin) * 1000;
		writel(LOAD_ENDS, registers + MARK);
		each = lldiv(ns, REQUESTS * 10);
		kib_per_s = lldiv(REQUESTS * 4096ull * 1000000, lldiv(ns, 1000)) * 1000 >> 20;
		say("{\"load\": \"%s\", \"bytes\": 4096, \"depth\": 1, \"jobs\": 1, \"requests\": %u, \"reaps\": \"one\", \"mib_per_s\": %llu.%03llu, "
		    "\"latency_us\": %u.%02u, \"merged\": 1.000, \"elapsed_us\": %llu.0, \"switches\": 0, \"percentiles_us\": {}}\n",
		    random ? "randread" : "read", REQUESTS, lldiv(kib_per_s, 1000), kib_per_s - lldiv(kib_per_s, 1000) * 1000, each / 100, each % 100,
		    lldiv(ns, 1000));
	}
	writel(0, registers + MARK);
	say("guest: end\n");
	outb(WELL, EXIT);
	return CMD_RET_SUCCESS;
}

U_BOOT_CMD(mmcqload, 1, 0, do_mmcqload, "read the card, for mmcq guest", "");
