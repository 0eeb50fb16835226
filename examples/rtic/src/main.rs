//! A card under RTIC. Three tasks drive the stack: the controller's interrupt, the tick with the
//! stack's deadlines, and the supervisor of the card. A fourth task is the program: sequential code
//! that awaits its requests.
//!
//! The chip is an ATSAM E54 at its reset clock. Your program must set up its pins and the clock of
//! the controller.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use mmcq::board::{Buffer, Coherent, CriticalSection, Home, Once};
use mmcq::engine::Config;
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table};
use mmcq::task::Timer;

const CONTROLLER: usize = 0x4500_0000;
const CLOCK_HZ: u32 = 48_000_000;

type Board = (CriticalSection, Sdhci<Mmio, Coherent, 9>);
static CARD: Home<Board, 8> = Home::new();
static TABLE: Once<Table<9>> = Once::new(Table::new());
static SCRATCH: Buffer<1> = Buffer::new();
static BLOCKS: Buffer<8> = Buffer::new();
/// Counter of milliseconds. It overflows after 49 days; a product should count 64 bits, as the
/// template does.
static MILLISECONDS: AtomicU32 = AtomicU32::new(0);

/// Returns the time in ns. A tick of a millisecond is exact enough for the stack's deadlines.
fn now_ns() -> u64 {
    u64::from(MILLISECONDS.load(Relaxed)) * 1_000_000
}

fn start() -> Option<&'static mmcq::task::Stack<Board, 8>> {
    // SAFETY: the address is the controller's register block, which no other code uses; the
    // controller sees memory as the CPU does.
    let (registers, memory) = unsafe { (Mmio::at_address(CONTROLLER), Coherent::new()) };
    let config = SdhciConfig::new().base_clock_hz(Some(CLOCK_HZ));
    let host = Sdhci::new(registers, memory, TABLE.take()?, config).ok()?;
    CARD.put(mmcq::task::Stack::new(CriticalSection, Timer::polled(now_ns), host, Config::DEFAULT))
}

#[rtic::app(device = atsame54p, peripherals = false, dispatchers = [SERCOM0_0])]
mod app {
    use super::{BLOCKS, CARD, CLOCK_HZ, MILLISECONDS, SCRATCH, start};
    use core::sync::atomic::Ordering::Relaxed;
    use cortex_m::peripheral::syst::SystClkSource;
    use mmcq::block::BlockDevice;
    use mmcq::card::{Card, Options, bring_up, supervise};
    use mmcq::engine::{DmaBuf, Error};

    #[shared]
    struct Shared {}

    #[local]
    struct Local {}

    #[init]
    fn init(context: init::Context) -> (Shared, Local) {
        let mut tick = context.core.SYST;
        tick.set_clock_source(SystClkSource::Core);
        tick.set_reload(CLOCK_HZ / 1000 - 1);
        tick.clear_current();
        tick.enable_counter();
        tick.enable_interrupt();
        if start().is_some() {
            let _begun = program::spawn();
        }
        (Shared {}, Local {})
    }

    /// Interrupt of the controller. It wakes the tasks whose requests have ended.
    #[task(binds = SDHC0, priority = 2)]
    fn controller(_: controller::Context) {
        CARD.on_irq();
    }

    /// Tick: counts the time and handles the stack's deadlines.
    #[task(binds = SysTick, priority = 2)]
    fn tick(_: tick::Context) {
        MILLISECONDS.store(MILLISECONDS.load(Relaxed).wrapping_add(1), Relaxed);
        CARD.poll();
    }

    /// Brings the card up, and copies its first blocks to the blocks after them.
    #[task(priority = 1)]
    async fn program(_: program::Context) {
        let (Some(stack), Some(scratch), Some(blocks)) = (CARD.get(), SCRATCH.take(), BLOCKS.take()) else {
            return;
        };
        let (mut scratch, mut tries) = (scratch, 5);
        let card = loop {
            let (card, back) = bring_up(stack, scratch, Options::DEFAULT).await;
            scratch = back;
            match card {
                // The slot reports its card when the contact is stable, some milliseconds after
                // power-on.
                Err(Error::NoCard) if tries > 0 => tries -= 1,
                Err(_) => return,
                Ok(card) => break card,
            }
            let since = MILLISECONDS.load(Relaxed);
            while MILLISECONDS.load(Relaxed).wrapping_sub(since) < 50 {
                cortex_m::asm::wfi();
            }
        };
        let _begun = supervisor::spawn(card, scratch);
        let device = BlockDevice::new(stack);
        let (read, blocks) = device.read(0, blocks).await;
        if read.is_ok() {
            let (_written, _blocks) = device.write(8, blocks).await;
            let _flushed = device.flush().await;
        }
    }

    /// Supervises the card: helps a card that misbehaves, and brings up each inserted card.
    #[task(priority = 1)]
    async fn supervisor(_: supervisor::Context, mut card: Card, mut scratch: DmaBuf) {
        let Some(stack) = CARD.get() else { return };
        loop {
            let (event, back) = supervise(stack, scratch, Options::DEFAULT, card).await;
            scratch = back;
            match event {
                mmcq::card::Event::Inserted(Ok(now))
                | mmcq::card::Event::Changed(now)
                | mmcq::card::Event::Exception { card: now, .. } => card = now,
                mmcq::card::Event::Dismissed => return,
                _ => {}
            }
        }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}
