// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* rtsx.c: Realtek's PCIe card readers. The library knows which chips it drives, by their PCI
 * numbers, and refuses all others before it touches a register. */
#include "host.h"

/* RTS525A is the only chip with its registers at region 1. */
#define RTS525A 0x525a
#define REGISTER_BYTES 0x20
/* The reader's registers: PENDING has pending interrupts in its upper bits; ENABLE selects which of
 * them interrupt. */
#define PENDING 0x14
#define ENABLE 0x18
#define INTERRUPTS 0xffc00000
/* A card was put in or taken out, or draws too much current. */
#define CARD_EVENTS 0x02c00000

static int32_t open_reader(struct host *host, struct mmcq_platform *platform)
{
	/* `quirks` and `flags` are for SDHCI controllers only. */
	platform->quirks = NULL;
	platform->flags = 0;
	return mmcq_open_rtsx(host->number, platform, host->pci->vendor, host->pci->device);
}

static const struct kind reader = {
	.name = "Realtek reader", .bytes = REGISTER_BYTES, .open = open_reader, .status = PENDING, .enable = ENABLE, .events = INTERRUPTS,
	.card_events = CARD_EVENTS,
};
static const struct kind rts525a = {
	.name = "Realtek reader", .region = 1, .bytes = REGISTER_BYTES, .open = open_reader, .status = PENDING, .enable = ENABLE, .events = INTERRUPTS,
	.card_events = CARD_EVENTS,
};

/* Returns the kind of Realtek's reader, or NULL for a device of another vendor. */
const struct kind *mmcq_ko_reader(const struct pci_dev *pci)
{
	if (pci->vendor != PCI_VENDOR_ID_REALTEK)
		return NULL;
	return pci->device == RTS525A ? &rts525a : &reader;
}
