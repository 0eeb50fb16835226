//! Tests of a decision of `mmcq.ko`, compiled by `cc` with stand-ins for the kernel and the
//! library: which errors before a sleep the next flush reports.

use std::path::Path;
use std::process::Command;

/// What `linux/power.c` needs of the kernel, of `host.h` and of the library. The stand-ins do
/// nothing; the flush and the close return what the test wants.
const PROGRAM: &str = r#"
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "mmcq.h"
#define MMCQ_KO_HOST_H
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, y) ((x) = (y))
#define SYSTEM_SLEEP_PM_OPS(sleep, wake) .suspend = sleep, .resume = wake,
#define RUNTIME_PM_OPS(sleep, wake, idle)
#define dev_err(device, ...) ((void)(device), printf(__VA_ARGS__))
struct device { struct { int autosuspend_delay; } power; void *data; };
struct dev_pm_ops { int (*suspend)(struct device *); int (*resume)(struct device *); };
struct pci_dev { struct device dev; };
struct request_queue;
struct disk { mmcq_card card; };
struct kind { uint16_t enable; };
struct host {
	uint32_t number; struct pci_dev *pci; const struct kind *kind; uint8_t *registers; struct disk *disk;
	bool leaving, silent, stopped; int losses;
};
static void writel(uint32_t value, uint8_t *place) { *place = (uint8_t)value; }
static void atomic_inc(int *value) { ++*value; }
static void *dev_get_drvdata(struct device *device) { return device->data; }
static void pm_runtime_set_autosuspend_delay(struct device *device, int ms) { device->power.autosuspend_delay = ms; }
static void pm_runtime_use_autosuspend(struct device *device) { (void)device; }
static void pm_runtime_dont_use_autosuspend(struct device *device) { (void)device; }
static void pm_runtime_mark_last_busy(struct device *device) { (void)device; }
static void pm_runtime_put_noidle(struct device *device) { (void)device; }
static void pm_runtime_get_noresume(struct device *device) { (void)device; }
static void pm_runtime_get_sync(struct device *device) { (void)device; }
static void pm_runtime_put_autosuspend(struct device *device) { (void)device; }
static void blk_pm_runtime_init(struct request_queue *queue, struct device *device) { (void)queue, (void)device; }
void mmcq_ko_cancel_look(struct host *host) { (void)host; }
void mmcq_ko_look_soon(struct host *host) { (void)host; }
void mmcq_ko_freeze(struct host *host) { (void)host; }
void mmcq_ko_wake(struct host *host) { (void)host; }
void mmcq_ko_listen(struct host *host) { (void)host; }
void mmcq_ko_remove_report(struct disk *disk) { (void)disk; }
void mmcq_poll(uint32_t number) { (void)number; }
int32_t mmcq_ko_open(struct host *host) { (void)host; return MMCQ_OK; }
static int32_t flushed, closed;
int32_t mmcq_flush(uint32_t number) { (void)number; return flushed; }
int32_t mmcq_ko_close(struct host *host) { (void)host; return closed; }
const char *mmcq_error_name(int32_t code) { (void)code; return ""; }
#include "power.c"

static int wrong;
static void sleeps_with(struct disk *disk, int32_t flush, int32_t close, int lost) {
	struct host host = { .disk = disk };
	struct pci_dev pci = { .dev.data = &host };
	host.pci = &pci;
	flushed = flush;
	closed = close;
	mmcq_ko_pm_ops.suspend(&pci.dev);
	mmcq_ko_pm_ops.resume(&pci.dev);
	if (host.losses != lost) {
		wrong = 1;
		printf("flush %d, close %d: %d losses\n", flush, close, host.losses);
	}
}

static void sleeps(int32_t flush, int32_t close, int lost) {
	struct disk disk = { .card.volatile_cache = 1 };
	sleeps_with(&disk, flush, close, lost);
}

int main(void) {
	struct disk without_cache = {};
	for (int32_t code = MMCQ_E_MEMORY; code <= MMCQ_OK; code++)
		sleeps(code, MMCQ_OK, code != MMCQ_OK && code != MMCQ_E_STATE);
	/* A card without a cache has lost nothing when it was taken out, nor has no card. */
	for (int32_t code = MMCQ_E_MEMORY; code <= MMCQ_OK; code++) {
		int away = code == MMCQ_E_NO_CARD || code == MMCQ_E_REMOVED;
		sleeps_with(&without_cache, code, MMCQ_OK, code != MMCQ_OK && code != MMCQ_E_STATE && !away);
		sleeps_with(NULL, code, MMCQ_OK, code != MMCQ_OK && code != MMCQ_E_STATE && !away);
	}
	sleeps(MMCQ_OK, MMCQ_E_CACHE_LOST, 1);
	sleeps(MMCQ_E_CRC, MMCQ_E_CACHE_LOST, 1);
	/* The power-off notification has failed, or the library could not be closed. */
	sleeps(MMCQ_OK, MMCQ_E_TIMEOUT, 0);
	sleeps(MMCQ_OK, MMCQ_E_STATE, 0);
	/* A library that could not be closed keeps the machine awake, unless its controller is cut off. */
	for (int stopped = 0; stopped < 2; stopped++) {
		static const struct kind kind = { 0 };
		uint8_t enabled = 1;
		struct host host = { .kind = &kind, .registers = &enabled, .stopped = stopped };
		struct pci_dev pci = { .dev.data = &host };
		host.pci = &pci;
		flushed = MMCQ_OK;
		closed = MMCQ_E_STATE;
		int error = mmcq_ko_pm_ops.suspend(&pci.dev);
		if ((error == 0) != stopped || enabled == stopped || (!stopped && (host.silent || host.leaving))) {
			wrong = 1;
			printf("stopped %d: suspend %d, interrupts %u\n", stopped, error, enabled);
		}
	}
	return wrong;
}
"#;

/// Tests that each flush which fails before a sleep makes the next flush report a loss, whatever its
/// error is. Without a library that is open there is nothing to lose.
#[test]
fn a_flush_that_fails_before_a_sleep_is_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::create_dir(folder.path().join("linux")).unwrap();
    for header in ["linux/blk-pm.h", "linux/pm_runtime.h"] {
        std::fs::write(folder.path().join(header), "").unwrap();
    }
    std::fs::write(folder.path().join("sleeps.c"), PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I."]).current_dir(folder.path());
    cc.arg("-I").arg(root.join("linux")).arg("-I").arg(root.join("crates/mmcq-c/include"));
    let compiled = cc.args(["-o", "sleeps", "sleeps.c"]).output().expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(folder.path().join("sleeps")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
