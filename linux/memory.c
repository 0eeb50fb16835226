// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* memory.c: maps the memory of requests for the controller's DMA.
 *
 * The memory of a request is a list of pages. Instead of an address the library gets a number that
 * stands for the request, and calls mmcq_ko_piece for the real addresses when it writes
 * descriptors. The library's own descriptors, and its buffer for registers of the card, lie in
 * coherent memory that mmcq_open gets. */
#include "host.h"

/* All numbers of a controller, and the two ranges that they may lie in. */
#define ALL_BYTES ((MMCQ_SLOTS + 1) * NUMBER_BYTES)
#define NUMBERS 0x40000000u

/* Chooses the first number. The library's coherent memory has real addresses, so the numbers lie
 * beside it. */
void mmcq_ko_choose_numbers(struct host *host)
{
	bool apart = host->dma_bus >= NUMBERS + ALL_BYTES || host->dma_bus + MMCQ_DMA_BYTES <= NUMBERS;

	host->first_number = apart ? NUMBERS : NUMBERS + 2 * ALL_BYTES;
}

static bool is_number(const struct host *host, u64 number)
{
	return number - host->first_number < ALL_BYTES;
}

/* Returns what the library gets as the address of memory in the areas' buffer: a number, or the real
 * address if the controller has no descriptors. 0: the memory is not in that buffer. */
static u64 bus_of_area(const struct host *host, const void *memory)
{
	const struct disk *disk = READ_ONCE(host->disk);
	size_t offset;

	if (!disk || !disk->areas.memory)
		return 0;
	offset = (const char *)memory - (const char *)disk->areas.memory;
	if (offset >= AREA_BYTES)
		return 0;
	return (disk->card.pieces ? host->first_number + AREAS_TAG * NUMBER_BYTES : disk->areas.bus) + offset;
}

int32_t mmcq_ko_map(void *context, void *memory, size_t bytes, int32_t to_card, uint64_t *bus)
{
	struct host *host = context;
	dma_addr_t mapped;

	*bus = is_number(host, (uintptr_t)memory) ? (uintptr_t)memory : bus_of_area(host, memory);
	if (*bus)
		return MMCQ_OK;
	/* The controller has no descriptors, so the request's memory is contiguous and has a real
	 * address. */
	mapped = dma_map_single(&host->pci->dev, memory, bytes, to_card ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
	if (dma_mapping_error(&host->pci->dev, mapped))
		return MMCQ_E_FULL;
	*bus = mapped;
	return MMCQ_OK;
}

void mmcq_ko_unmap(void *context, uint64_t bus, void *memory, size_t bytes, int32_t to_card)
{
	struct host *host = context;

	if (!is_number(host, (uintptr_t)memory) && !bus_of_area(host, memory))
		dma_unmap_single(&host->pci->dev, bus, bytes, to_card ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
}

/* Makes later writes of the CPU visible to the controller. The library calls it only for memory
 * that mmcq_ko_map mapped: that of controllers without descriptors. */
void mmcq_ko_sync(void *context, uint64_t bus, void *memory, size_t bytes)
{
	struct host *host = context;

	dma_sync_single_for_device(&host->pci->dev, bus, bytes, DMA_TO_DEVICE);
}

uint32_t mmcq_ko_piece(void *context, uint64_t bus, uint32_t bytes, uint64_t *real)
{
	struct host *host = context;
	struct disk *disk = READ_ONCE(host->disk);
	u64 number = bus - host->first_number;
	u32 offset = number % NUMBER_BYTES;
	struct command *command;

	/* Real addresses: the library's own memory, and all memory if the controller has no
	 * descriptors. */
	if (!disk || !disk->card.pieces || !is_number(host, bus))
		return bytes;
	if (number / NUMBER_BYTES == AREAS_TAG) {
		if (offset >= AREA_BYTES)
			return 0;
		*real = disk->areas.bus + offset;
		return min(bytes, AREA_BYTES - offset);
	}
	command = disk->commands[number / NUMBER_BYTES];
	if (!command)
		return 0;
	if (offset < command->before)
		command->at = command->before = 0;
	for (; command->at < command->count; command->at++) {
		struct piece *piece = &command->pieces[command->at];
		u32 skip = offset - command->before;

		if (skip < piece->bytes) {
			*real = piece->bus + skip;
			return min(bytes, piece->bytes - skip);
		}
		command->before += piece->bytes;
	}
	return 0;
}

/* Maps the pages of a request for DMA. Returns false if there is no room for the mapping now. */
bool mmcq_ko_map_request(struct disk *disk, struct request *rq)
{
	struct device *device = &disk->host->pci->dev;
	struct command *command = blk_mq_rq_to_pdu(rq);
	struct scatterlist *entry;
	int i;

	command->at = command->before = 0;
	command->entries = 0;
	command->count = 1;
	if (!disk->card.pieces) {
		struct bio_vec all = req_bvec(rq);

		command->count = 0;
		command->request.memory = page_address(all.bv_page) + all.bv_offset;
		return true;
	}
	command->request.memory = (void *)(uintptr_t)(disk->host->first_number + rq->tag * NUMBER_BYTES);
	disk->commands[rq->tag] = command;
	if (blk_rq_nr_phys_segments(rq) == 1) {
		struct bio_vec all = req_bvec(rq);

		command->pieces[0].bytes = blk_rq_bytes(rq);
		command->pieces[0].bus = dma_map_page(device, all.bv_page, all.bv_offset, blk_rq_bytes(rq), rq_dma_dir(rq));
		if (!dma_mapping_error(device, command->pieces[0].bus))
			return true;
		command->count = 0;
		return false;
	}
	sg_init_table(command->list, blk_rq_nr_phys_segments(rq));
	command->entries = blk_rq_map_sg(rq->q, rq, command->list);
	command->count = dma_map_sg(device, command->list, command->entries, rq_dma_dir(rq));
	for_each_sg(command->list, entry, command->count, i)
		command->pieces[i] = (struct piece) { sg_dma_address(entry), sg_dma_len(entry) };
	return command->count != 0;
}

void mmcq_ko_unmap_request(struct request *rq)
{
	struct command *command = blk_mq_rq_to_pdu(rq);
	struct device *device = &command->host->pci->dev;

	if (!command->count)
		return;
	if (command->entries)
		dma_unmap_sg(device, command->list, command->entries, rq_dma_dir(rq));
	else
		dma_unmap_page(device, command->pieces[0].bus, command->pieces[0].bytes, rq_dma_dir(rq));
	command->count = 0;
}
