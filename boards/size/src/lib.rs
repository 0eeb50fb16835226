//! The code that the images share: a board with one SDHCI controller, a lock, a clock, and memory
//! without caches.
//!
//! The images are built to be measured and linked, not to be executed. The controller has the
//! address of a SAM E54's first one, with this chip's reset clock of 48 MHz; no board's clocks and
//! pins are set up. Images for other cores use the devices of QEMU's machines `virt`.
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
pub mod ssi;

use core::panic::PanicInfo;
use core::ptr::NonNull;
use mmcq::board::NoLock;
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::Host;
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{self, Sdhci, SdhciInitError, Table};
use mmcq::host::{rtsx, s3c_sdi};
use mmcq::sched::{Profile, Prompt};
use mmcq::task::Timer;

/// Largest number of segments in a transfer; one ADMA2 descriptor moves up to 64 KiB.
pub const DESCRIPTORS: usize = 8;
/// Type of the driver for this board's controller.
pub type Driver = Sdhci<Mmio, board::Identity, DESCRIPTORS>;
/// Type of the driver for this board's controller without descriptors.
pub type SmallDriver = Sdhci<Mmio, board::Identity, 0>;
/// Type of the driver for a PCIe card reader.
pub type CardReader = rtsx::Rtsx<Mmio, board::Identity>;
/// Type of a card stack with `N` slots. Its default profile starts each waiting request at once;
/// with [`Lean`] it has no recovery.
pub type Stack<const N: usize, P = Prompt> = mmcq::task::Stack<(board::InterruptsOff, Driver, P), N>;

/// Address of the controller's registers.
const BASE: usize = 0x4500_0000;

static TABLE: late::Once<Table<DESCRIPTORS>> = late::Once::new(Table::new());
static NO_TABLE: late::Once<Table<0>> = late::Once::new(Table::new());
static BUFFERS: late::Once<rtsx::Buffers> = late::Once::new(rtsx::Buffers::new());
static SCRATCH: late::Once<[u8; mmcq::card::SCRATCH_BYTES as usize]> = late::Once::new([0; _]);

/// Configuration of the driver for this board's controller.
pub const CONFIG: sdhci::SdhciConfig = sdhci::SdhciConfig::new().base_clock_hz(Some(48_000_000));

/// Makes a driver without descriptors (by SDMA, or the CPU) for this board's controller; `None` if
/// it was made before.
#[inline(always)]
pub fn small_driver(config: sdhci::SdhciConfig) -> Option<Result<SmallDriver, SdhciInitError>> {
    let table = NO_TABLE.take()?;
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: the linker script places nothing at the device's addresses. An image has only one of
    // the drivers, and `take` succeeds once.
    let regs = unsafe { Mmio::new(base) };
    Some(Sdhci::new(regs, board::Identity, table, config))
}

/// Makes the stack for this board's controller; `None` if it was made before.
pub fn stack<const N: usize, P: Profile + Default>(
    config: sdhci::SdhciConfig,
) -> Option<Result<Stack<N, P>, SdhciInitError>> {
    let table = TABLE.take()?;
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: the linker script places nothing at the device's addresses, and `take` succeeds once.
    let regs = unsafe { Mmio::new(base) };
    Some(
        Sdhci::new(regs, board::Identity, table, config)
            .map(|host| Stack::with_policy(board::InterruptsOff, TIMER, host, Config::DEFAULT, P::default())),
    )
}

/// Returns access to the controller's registers once more, for images that are linked and never
/// executed.
pub fn registers() -> Option<Mmio> {
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: nothing is executed, so nothing accesses the registers.
    Some(unsafe { Mmio::new(base) })
}

/// Clock of the board, for the stack; it has no alarm.
pub const TIMER: Timer = Timer { now_ns: board::now_ns, set_alarm: |_| {} };

/// Parts of a program that polls its host by blocking calls on its only thread.
#[derive(Debug)]
pub struct Polled<H>(core::marker::PhantomData<H>);

impl<H: Host> mmcq::task::Platform for Polled<H> {
    type Lock = NoLock;
    type Clock = board::Ticks;
    type Host = H;
    type Profile = Lean;
}

/// Type of the driver for the controller of a system-on-chip.
pub type SocHost = s3c_sdi::S3cSdi<Mmio, board::Identity>;

/// Makes a card reader's driver at the address of this board's SDHCI; `None` if it was made before.
pub fn card_reader(config: rtsx::RtsxConfig) -> Option<Result<CardReader, rtsx::RtsxInitError>> {
    let buffers = BUFFERS.take()?;
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(BASE))?;
    // SAFETY: the address is the device's; only images that are linked and never executed have both
    // drivers.
    let regs = unsafe { Mmio::new(base) };
    Some(rtsx::Rtsx::new(regs, board::Identity, buffers, config))
}

/// Returns memory for bring-up; `None` if it was taken before.
pub fn scratch() -> Option<DmaBuf> {
    Some(DmaBuf::from_static(SCRATCH.take()?))
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    #[cfg(feature = "no-panic")]
    {
        // SAFETY: a program that still refers to this function cannot be linked.
        unsafe extern "C" {
            /// A function that does not exist: a reference to it that survives optimisation is a
            /// reachable panic.
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

/// Makes a complete card reader with this bring-up function: it reads block 0 and writes it back.
#[macro_export]
macro_rules! reader {
    ($bring_up:path) => {
        static STACK: $crate::late::Late<$crate::Stack<8, $crate::Lean>> = $crate::late::Late::new();
        static BLOCK: $crate::late::Once<[u8; 512]> = $crate::late::Once::new([0; _]);

        /// Main function of the image: reads block 0 and writes it back.
        #[unsafe(no_mangle)]
        pub extern "C" fn main() {
            $crate::board::start_clock();
            let _ = copy();
        }

        /// Makes the stack in its own stack frame, from which it is moved to its static place.
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

        /// Interrupt handler of the controller.
        #[unsafe(no_mangle)]
        pub extern "C" fn controller_interrupt() {
            if let Some(stack) = STACK.get() {
                stack.on_irq();
            }
        }
    };
}
