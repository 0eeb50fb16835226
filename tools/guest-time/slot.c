// slot.c: a driver of QEMU's sdhci-pci, as small as one can be, for what Debian's sdhci-pci does not do there: eight data lines where the controller has them
// (the board has the pins), and Linux's software queue with queue=1. Requests are ended in the interrupt handler and the next one is sent from there, as
// drivers of soldered cards do; with cqe=1 the card's own queue by the controller's queue engine (cqhci), as Debian's sdhci-pci has it for Intel's; with
// defer=1, in the work behind it, as they do for cards that can be taken out. With hs400=1 the board's lines allow
// HS400; with fixed=1 the card is soldered. With aside=1 another driver has the device, and this one does no more than mark. Built by tools/guest-parts.sh against Debian's source of Linux 6.1.
#include <linux/delay.h>
#include <linux/mmc/host.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "cqhci.h"
#include "mmc_hsq.h"
#include "sdhci.h"

/* Where all of the model's registers are (plugin.c), and its queue engine among them. */
#define WINDOW 0xfed80000
#define WINDOW_BYTES 4096
#define ENGINE 0x200

static bool queue, cqe, defer, hs400, fixed, aside;
module_param(queue, bool, 0444);
module_param(cqe, bool, 0444);
module_param(defer, bool, 0444);
module_param(hs400, bool, 0444);
module_param(fixed, bool, 0444);
module_param(aside, bool, 0444);

/* What is written to /sys/module/slot/parameters/mark goes to the plugin, which notes its counters beside it. */
static void __iomem *registers;

static int set_mark(const char *text, const struct kernel_param *param)
{
	u32 value;
	int error = kstrtou32(text, 0, &value);

	if (!error && registers)
		writel(value, registers + 0xf0);
	return error;
}

static const struct kernel_param_ops mark = { .set = set_mark };
module_param_cb(mark, &mark, NULL, 0200);

static void request_done(struct sdhci_host *host, struct mmc_request *request)
{
	if (!queue || !mmc_hsq_finalize_request(host->mmc, request))
		mmc_request_done(host->mmc, request);
}

static int enable_dma(struct sdhci_host *host)
{
	pci_set_master(to_pci_dev(mmc_dev(host->mmc)));
	return 0;
}

/* How often Linux has pulled RST_n. */
static unsigned int resets;
module_param(resets, uint, 0444);

/* RST_n of a soldered eMMC, where the controller has it: low for a microsecond, then 200 until it listens. */
static void hw_reset(struct sdhci_host *host)
{
	u8 power = sdhci_readb(host, SDHCI_POWER_CONTROL);

	sdhci_writeb(host, power | BIT(4), SDHCI_POWER_CONTROL);
	udelay(2);
	sdhci_writeb(host, power, SDHCI_POWER_CONTROL);
	usleep_range(300, 1000);
	resets++;
}

static void reset(struct sdhci_host *host, u8 mask)
{
	if (mask & SDHCI_RESET_ALL && cqe && host->mmc->cqe_private)
		cqhci_deactivate(host->mmc);
	sdhci_reset(host, mask);
}

static u32 irq(struct sdhci_host *host, u32 status)
{
	int command, data;

	if (!sdhci_cqe_irq(host, status, &command, &data))
		return status;
	cqhci_irq(host->mmc, status, command, data);
	return 0;
}

static const struct cqhci_host_ops engine_ops = { .enable = sdhci_cqe_enable, .disable = sdhci_cqe_disable };

static int add_engine(struct sdhci_host *host, struct device *device)
{
	struct cqhci_host *engine = devm_kzalloc(device, sizeof(*engine), GFP_KERNEL);
	bool wide = host->flags & SDHCI_USE_64_BIT_DMA;

	if (!engine)
		return -ENOMEM;
	engine->mmio = devm_ioremap(device, WINDOW + ENGINE, WINDOW_BYTES - ENGINE);
	if (!engine->mmio)
		return -ENOMEM;
	engine->quirks = CQHCI_QUIRK_SHORT_TXFR_DESC_SZ;
	engine->caps = wide ? CQHCI_TASK_DESC_SZ_128 : 0;
	engine->ops = &engine_ops;
	return cqhci_init(engine, host->mmc, wide);
}

static const struct sdhci_ops ops = {
	.hw_reset = hw_reset,
	.set_clock = sdhci_set_clock,
	.enable_dma = enable_dma,
	.set_bus_width = sdhci_set_bus_width,
	.reset = reset,
	.irq = irq,
	.set_uhs_signaling = sdhci_set_uhs_signaling,
	.request_done = request_done,
};

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	struct sdhci_host *host;
	struct mmc_hsq *hsq;
	int error = pcim_enable_device(device);

	if (!error)
		error = pcim_iomap_regions(device, BIT(0), "slot");
	if (error)
		return error;
	hsq = devm_kzalloc(&device->dev, sizeof(*hsq), GFP_KERNEL);
	if (!hsq)
		return -ENOMEM;
	host = sdhci_alloc_host(&device->dev, 0);
	if (IS_ERR(host))
		return PTR_ERR(host);
	host->hw_name = "slot";
	host->ops = &ops;
	host->irq = device->irq;
	host->ioaddr = pcim_iomap_table(device)[0];
	host->always_defer_done = defer;
	registers = host->ioaddr;
	pci_set_drvdata(device, host);
	sdhci_read_caps(host);
	if (hs400)
		host->mmc->caps2 |= MMC_CAP2_HS400_1_8V;
	if (fixed)
		host->mmc->caps |= MMC_CAP_NONREMOVABLE | MMC_CAP_HW_RESET;
	if (host->caps & SDHCI_CAN_DO_8BIT)
		host->mmc->caps |= MMC_CAP_8_BIT_DATA;
	if (queue && !defer)
		host->mmc_host_ops.request_atomic = sdhci_request_atomic;
	if (queue)
		error = mmc_hsq_init(hsq, host->mmc);
	if (cqe)
		host->mmc->caps2 |= MMC_CAP2_CQE | MMC_CAP2_CQE_DCMD;
	if (!error)
		error = sdhci_setup_host(host);
	if (!error && cqe)
		error = add_engine(host, &device->dev);
	if (!error)
		error = __sdhci_add_host(host);
	if (error)
		sdhci_free_host(host);
	return error;
}

static const struct pci_device_id devices[] = { { PCI_DEVICE(0x1b36, 0x0007) }, {} };
MODULE_DEVICE_TABLE(pci, devices);

/* The slot is taken off the bus; another probe finds the card anew. Not with a queue. */
static void gone(struct pci_dev *device)
{
	struct sdhci_host *host = pci_get_drvdata(device);

	registers = NULL;
	sdhci_remove_host(host, 0);
	sdhci_free_host(host);
}

static int __maybe_unused sleep(struct device *device)
{
	return sdhci_suspend_host(dev_get_drvdata(device));
}

static int __maybe_unused wake(struct device *device)
{
	return sdhci_resume_host(dev_get_drvdata(device));
}

static SIMPLE_DEV_PM_OPS(power, sleep, wake);

static struct pci_driver driver = {
	.name = "slot",
	.id_table = devices,
	.probe = probe,
	.remove = gone,
	.driver.pm = &power,
	.driver.suppress_bind_attrs = true,
};

static int __init begin(void)
{
	if (!aside)
		return pci_register_driver(&driver);
	registers = ioremap(WINDOW, WINDOW_BYTES);
	return registers ? 0 : -ENOMEM;
}
module_init(begin);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("The model's slot");
