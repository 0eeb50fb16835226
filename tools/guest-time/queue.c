// queue.c: Linux's software queue on the model's slot. Debian's sdhci-pci does not have it; this driver of QEMU's sdhci-pci is as small as one can be that has. Requests
// are ended in the interrupt handler and the next one is sent from there, as drivers of soldered cards do, or, with defer=1, in the work behind it, as
// they do for cards that can be taken out. Built by tools/guest-time.sh against Debian's source of Linux 6.1.
#include <linux/mmc/host.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "mmc_hsq.h"
#include "sdhci.h"

static bool defer;
module_param(defer, bool, 0444);

static void request_done(struct sdhci_host *host, struct mmc_request *request)
{
	if (!mmc_hsq_finalize_request(host->mmc, request))
		mmc_request_done(host->mmc, request);
}

static int enable_dma(struct sdhci_host *host)
{
	pci_set_master(to_pci_dev(mmc_dev(host->mmc)));
	return 0;
}

static const struct sdhci_ops ops = {
	.set_clock = sdhci_set_clock,
	.enable_dma = enable_dma,
	.set_bus_width = sdhci_set_bus_width,
	.reset = sdhci_reset,
	.set_uhs_signaling = sdhci_set_uhs_signaling,
	.request_done = request_done,
};

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	struct sdhci_host *host;
	struct mmc_hsq *queue;
	int error = pcim_enable_device(device);

	if (!error)
		error = pcim_iomap_regions(device, BIT(0), "queue");
	if (error)
		return error;
	queue = devm_kzalloc(&device->dev, sizeof(*queue), GFP_KERNEL);
	if (!queue)
		return -ENOMEM;
	host = sdhci_alloc_host(&device->dev, 0);
	if (IS_ERR(host))
		return PTR_ERR(host);
	host->hw_name = "slot";
	host->ops = &ops;
	host->irq = device->irq;
	host->ioaddr = pcim_iomap_table(device)[0];
	host->always_defer_done = defer;
	if (!defer)
		host->mmc_host_ops.request_atomic = sdhci_request_atomic;
	error = mmc_hsq_init(queue, host->mmc);
	if (!error)
		error = sdhci_add_host(host);
	if (error)
		sdhci_free_host(host);
	return error;
}

static const struct pci_device_id devices[] = { { PCI_DEVICE(0x1b36, 0x0007) }, {} };
MODULE_DEVICE_TABLE(pci, devices);

/* It stays until the machine is switched off. */
static struct pci_driver driver = { .name = "queue", .id_table = devices, .probe = probe, .driver.suppress_bind_attrs = true };

static int __init begin(void)
{
	return pci_register_driver(&driver);
}
module_init(begin);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Linux's software queue on the model's slot");
