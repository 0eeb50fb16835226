//! What the images share: a board with one SDHCI controller, a lock, a clock, memory without
//! caches.
//!
//! The images are built to be measured and to be linked, not to be run: the controller lies where a
//! SAM E54 has its first, at that part's reset clock of 48 MHz; its clocks and pins belong to no
//! board. Cores of other families stand in its place with what they have on QEMU's machines `virt`.
#![no_std]

#[path = "../../plan/alone.rs"]
pub mod alone;
pub mod board;
pub mod late;
#[cfg_attr(all(target_arch = "aarch64", target_os = "none"), path = "aarch64.rs")]
#[cfg_attr(all(target_arch = "riscv32", target_os = "none"), path = "riscv32.rs")]
#[cfg_attr(
    not(all(any(target_arch = "aarch64", target_arch = "riscv32"), target_os = "none")),
    path = "cortex_m/mod.rs"
)]
mod machine;

use core::panic::PanicInfo;
use core::ptr::NonNull;
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{self, SdhciInitError, Sdhci, Table};
use mmcq::host::{rtsx, s3c_sdi};
use mmcq::sched::{Profile, Prompt};
use mmcq::task::Timer;

/// Segments that a transfer may have; one ADMA2 descriptor moves up to 64 KiB.
pub const DESCRIPTORS: usize = 8;
/// The driver of this board's controller.
pub type Driver = Sdhci<Mmio, board::Identity, DESCRIPTORS>;
/// The driver of a PCIe card reader.
pub type CardReader = rtsx::Rtsx<Mmio, board::Identity>;
/// A card stack with `N` slots that starts at once whatever waits; with [`Lean`] without recovery
/// too.
pub type Stack<const N: usize, P = Prompt> = mmcq::task::Stack<(board::InterruptsOff, Driver, P), N>;

/// Registers of the controller.
const BASE: usize = 0x4500_0000;

static TABLE: late::Once<Table<DESCRIPTORS>> = late::Once::new(Table::new());
static BUFFERS: late::Once<rtsx::Buffers> = late::Once::new(rtsx::Buffers::new());
static SCRATCH: late::Once<[u8; mmcq::card::SCRATCH_BYTES as usize]> = late::Once::new([0; _]);

/// What this board says about its controller.
pub const CONFIG: sdhci::SdhciConfig = sdhci::SdhciConfig::new().base_clock_hz(Some(48_000_000));

/// The stack over this board's controller; `None` if it has been made before.
pub fn stack<const N: usize, P: Profile + Default>(
    config: sdhci::SdhciConfig,
) -> Option<Result<Stack<N, P>, SdhciInitError>> {
    let table = TABLE.take()?;
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: the linker script leaves the device's addresses alone, and `take` succeeds once.
    let regs = unsafe { Mmio::new(base) };
    Some(
        Sdhci::new(regs, board::Identity, table, config)
            .map(|host| Stack::with_policy(board::InterruptsOff, TIMER, host, Config::DEFAULT, P::default())),
    )
}

/// The same registers for the images that are linked and never run.
pub fn registers() -> Option<Mmio> {
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: nothing runs, so nothing touches them.
    Some(unsafe { Mmio::new(base) })
}

/// The board's clock.
pub const TIMER: Timer = Timer { now_ns: board::now_ns, set_alarm: |_| {} };

/// The driver of an SoC's controller.
pub type SocHost = s3c_sdi::S3cSdi<Mmio, board::Identity>;

/// Another controller at the same place; `None` if it has been made before.
pub fn card_reader(config: rtsx::RtsxConfig) -> Option<Result<CardReader, rtsx::RtsxInitError>> {
    let buffers = BUFFERS.take()?;
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: as above; only the images that are linked and never run have both.
    let regs = unsafe { Mmio::new(base) };
    Some(rtsx::Rtsx::new(regs, board::Identity, buffers, config))
}

/// Memory for bring-up; `None` if it is in use for good.
pub fn scratch() -> Option<DmaBuf> {
    Some(DmaBuf::from_static(SCRATCH.take()?))
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    #[cfg(feature = "no-panic")]
    {
        // SAFETY: a program that still refers to it does not link.
        unsafe extern "C" {
            /// Defined nowhere: a reference to it that survives is a panic that can be reached.
            fn a_panic_can_be_reached() -> !;
        }
        // SAFETY: an image with this call cannot be linked, so it is never made.
        unsafe { a_panic_can_be_reached() }
    }
    #[cfg(not(feature = "no-panic"))]
    loop {
        core::hint::spin_loop();
    }
}

pub use mmcq::block::BlockDevice;
pub use mmcq::card::Options;
pub use mmcq::sched::Lean;

/// A whole reader with this bring-up: block 0 is read and written back.
#[macro_export]
macro_rules! reader {
    ($bring_up:path) => {
        static STACK: $crate::late::Late<$crate::Stack<8, $crate::Lean>> = $crate::late::Late::new();
        static BLOCK: $crate::late::Once<[u8; 512]> = $crate::late::Once::new([0; _]);

        /// The program: block 0 is read and written back.
        #[unsafe(no_mangle)]
        pub extern "C" fn main() {
            $crate::board::start_clock();
            let _ = copy();
        }

        /// On a stack frame of its own: the stack is made there before it is moved to where it
        /// stays.
        #[inline(never)]
        fn made() -> Option<&'static $crate::Stack<8, $crate::Lean>> {
            STACK.set($crate::stack($crate::CONFIG)?.ok()?)
        }

        fn copy() -> Option<()> {
            let stack = made()?;
            let (card, _) = stack.block_on(
                $bring_up(stack, $crate::scratch()?, $crate::Options::DEFAULT),
                $crate::board::idle,
            );
            card.ok()?;
            let device = $crate::BlockDevice::new(stack);
            let block = BLOCK.take()?;
            device.read_blocking(0, block, $crate::board::idle).ok()?;
            device.write_blocking(0, block, $crate::board::idle).ok()?;
            device.flush_blocking($crate::board::idle).ok()
        }

        /// The controller's interrupt.
        #[unsafe(no_mangle)]
        pub extern "C" fn controller_interrupt() {
            if let Some(stack) = STACK.get() {
                stack.on_irq();
            }
        }
    };
}
