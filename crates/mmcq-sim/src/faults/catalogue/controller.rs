//! Chapter E of the catalogue: the controller.

use super::{Entry, always, entry, from, once, profile, test};
use crate::faults::{Point, Strike};

/// Bit Software Reset For CMD Line of an SDHCI controller.
const RESET_CMD: u32 = 1 << 1;
/// Bit Data Timeout Error in the interrupt status of an SDHCI controller.
const DATA_TIMEOUT: u32 = 1 << 20;

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "E1",
        "An interrupt is lost: the status is there, the handler does not run",
        "the deadline looks at the status before it believes in a timeout",
        &[once("irq_drop", Point::Interrupt, Strike::Lost)],
    ),
    entry(
        "E2",
        "An interrupt without a cause, or for data that are not under way",
        "ignored and counted; nothing is looked up by what is stale",
        &[
            once("irq_spurious", Point::Interrupt, Strike::Spurious(1)),
            once("irq_stale", Point::Interrupt, Strike::Status(DATA_TIMEOUT)),
        ],
    ),
    entry(
        "E3",
        "A storm: the line stays up",
        "bounded work for each, the source masked, asked at intervals",
        &[once("irq_storm", Point::Interrupt, Strike::Spurious(200))],
    ),
    entry(
        "E4",
        "Events in another order: the end before the response, error and end at once, late DMA stops, late interrupts",
        "every legal order is taken; an error counts also when the end comes with it",
        &[
            once("order_end_first", Point::Response, Strike::Late(5_000_000)),
            once("order_error_end_read", Point::ReadBlock, Strike::CrcAndEnd),
            once("order_error_end_write", Point::WriteBlock, Strike::CrcAndEnd),
            once("order_dma_late", Point::Dma, Strike::Late(1_000_000)),
            once("irq_late", Point::Interrupt, Strike::Late(1_000_000)),
        ],
    ),
    entry(
        "E5",
        "Interrupts of others on the line, after it was disabled, during a reset",
        "the handler has an answer for every state and status",
        &[test("irq_any_time")],
    ),
    entry(
        "E6",
        "A DMA error: bad descriptor, bus error, or the engine stands",
        "reset the controller; another way to move data where the quirk asks for one",
        &[
            once("adma_err", Point::Dma, Strike::Fail),
            once("dma_hang", Point::Dma, Strike::Never),
            profile("zero-length-descriptor"),
        ],
    ),
    entry(
        "E7",
        "DMA to a wrong place, beyond the length, or after the end",
        "the simulator fails any access outside of what the device owns",
        &[always("dma_window")],
    ),
    entry(
        "E8",
        "An automatic CMD12 or CMD23 fails",
        "send it by hand; what was moved before counts",
        &[
            once("acmd_lost", Point::AutoCommand, Strike::Lost),
            once("acmd_crc", Point::AutoCommand, Strike::Crc),
            once("acmd_idx", Point::AutoCommand, Strike::Index),
            once("acmd_end", Point::AutoCommand, Strike::EndBit),
        ],
    ),
    entry(
        "E9",
        "A reset bit never clears itself",
        "a deadline; if even the whole reset hangs the controller is dead",
        &[
            once("reset_hang", Point::Reset, Strike::Never),
            from("reset_hang_cmd", Point::Reset, Strike::Status(RESET_CMD)),
        ],
    ),
    entry(
        "E10",
        "An inhibit bit stays set",
        "reset the whole controller",
        &[
            once("inhibit_stuck", Point::Response, Strike::Stuck),
            once("inhibit_dat_stuck_read", Point::ReadBlock, Strike::Stuck),
            once("inhibit_dat_stuck_write", Point::WriteBlock, Strike::Stuck),
        ],
    ),
    entry(
        "E11",
        "The clock never becomes stable, the base clock or the preset values are wrong",
        "a deadline, a divider of our own, never faster than the card allows",
        &[
            once("clk_unstable", Point::Clock, Strike::Never),
            profile("preset-broken"),
            profile("no-capabilities"),
        ],
    ),
    entry(
        "E12",
        "The FIFO runs over or empty in mid-block",
        "an error and slower again, never a success",
        // A block that has lost bytes on its way has no end bit where the controller expects it.
        &[once("fifo_ovr", Point::ReadBlock, Strike::EndBit)],
    ),
    entry(
        "E13",
        "Limits of DMA: 32 or 64 bits, the SDMA boundary, the 16-bit block count",
        "split before it is started; each limit has a test at, below and above it",
        &[profile("32-bit-only"), profile("broken-64-bit"), profile("broken-adma")],
    ),
    entry(
        "E14",
        "Caches are not coherent with DMA",
        "the simulator keeps a shadow copy: a missing cache operation is wrong data",
        &[always("coherency_model")],
    ),
    entry(
        "E15",
        "Registers read as all ones: no clock, or the bus lost the device",
        "the controller is gone: every request fails at once",
        &[
            once("mmio_dead", Point::Command, Strike::Gone),
            once("mmio_dead_read", Point::ReadBlock, Strike::Gone),
            once("mmio_dead_irq", Point::Interrupt, Strike::Gone),
        ],
    ),
    entry(
        "E16",
        "The model of the controller itself is wrong",
        "its registers are fuzzed too",
        &[test("model_fuzz")],
    ),
];
