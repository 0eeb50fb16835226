//! Realtek's PCI Express card reader (rtsx) by register, with its SD slot and bus.
//!
//! [`Rtsx`] is passive, as [`Sdhci`](crate::sdhci::Sdhci) is: it is told the time with every call, and
//! [`Rtsx::next_event_ns`] says when something will happen by itself. Its parts: `window.rs` (the MMIO
//! window), `list.rs` (host command lists), `internal.rs` (the internal registers and their side effects),
//! `clock.rs` (PLL, dividers, phases, supply: how the bus is driven), `transfer.rs` (a transfer from START to
//! its end), `command.rs` (its CMD line), `blocks.rs` (its DAT lines), `dma.rs` (SG tables and the ring
//! buffer), `config.rs` (what a particular chip is), `hurt.rs` (what strikes it by a plan of faults).
//!
//! The chip has no documentation. Names and bits of registers are the ones that drivers use; where these are
//! silent the choice is ours, and strict. Things a driver does wrong are counted
//! ([`Rtsx::protocol_violations`]).
//!
//! # Window
//! 32-bit accesses at 00h to 1Ch. HCBAR, HCBCTLR (31 start, 30 write back, 28 stop, 23:0 bytes), HDBAR,
//! HDBCTLR (31 trigger, 29 card to memory, 28 stop, 27:26 must be 2), HAIMR, BIPR, BIER, a scratch register.
//! A list or DMA that is started while one is there is refused and counted. HAIMR is busy (bit 31) for
//! `access_ns`, then holds the register, or what was written to it before any side effect.
//!
//! # Lists
//! Fetched whole half of `round_ns` after the start; each entry takes `entry_ns`; the end is reported the
//! other half later with CMD_DONE and TRANS_OK or TRANS_FAIL. READ and CHECK bytes are written back only if
//! asked for. A CHECK that waits longer than `check_timeout_ns` fails the list, and so does a transfer that
//! fails while the list runs; what follows in it is not executed.
//!
//! # SD
//! TRANSFER (FDB3) ends as END and IDLE, or as ERR and IDLE; the next START needs ERR cleared by CARD_STOP
//! (FD54). Modes 8 (command), C and 0 (command and one block through the ping-pong buffer), E and A (command
//! and blocks), 5 and 1 (blocks of the transfer that is open on the card), F (tuning). A read into the ring
//! ends when its last byte is in memory; a write ends with the last CRC status or, with bit 3 of CFG2, when
//! DAT0 is released. A response must come within 80 clocks (if CFG3 bit 0 says so). Data that do not come end
//! nothing: the CHECK that waits for them times out. Supply: FD50 1:0 (3 off, 1 or 2 partial for at least 100
//! us, 0 on). FD52 3:0 = 4, FD55 bit 2, FD5C 2:0 = 2, FD69 bit 2 must be set before a START. FDA6 bit 7 is
//! 1.8 V. The line levels in FDA5 are sampled by the SD clock: they are fresh while a transfer or bit 7 lets
//! it run.
//!
//! # Clock and phases
//! SD clock = (N + 2) MHz / D / H / C: N (80 to 208) in FC0F, taken when FC11 bit 7 rises and locked `pll_ns`
//! later; D = 1, 2, 4, 8 for 1 to 4 in FC03 6:4; H = 2 in SD20 and DDR mode; C = 1, 128 or 256 in CFG1 7:6.
//! Changes need FC02 bit 0 (which stops the SD clock) or FD69 bit 2 clear. In SD30 mode FC2A and FC2B 4:0
//! hold the phases of sending and sampling; they apply when bit 6 rises.
//!
//! # DMA
//! Runs when HDBCTLR has triggered a table and DMACTL (FE2C) bit 0 is armed, in either order. Each SG entry
//! must be VALID, of type 2, with a length up to 512 KiB and an address that is a multiple of 4; the lengths
//! add up to DMATC (FE28) and the last entry has END. Anything else fails DMA, transfer and list.

mod bits;
mod blocks;
mod clock;
mod command;
mod config;
mod dma;
mod hurt;
mod internal;
mod list;
#[cfg(test)]
mod tests;
mod transfer;
mod window;

pub use crate::stats::{BusEvent, BusStats};
pub use config::RtsxConfig;

use crate::alarms::{Alarms, NEVER};
use crate::card::{BusState, Card};
use crate::faults::{Faults, Point, Strike};
use crate::memory::ShadowMemory;
pub use crate::port::PortCounters;
use bits::int;

/// The registers as a driver reaches them.
pub type Port = crate::port::Port<Rtsx>;

impl crate::port::RegisterFile for Rtsx {
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        Rtsx::read(self, offset, size, now_ns)
    }

    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        Rtsx::write(self, offset, size, value, now_ns);
    }
}

/// Things that happen by themselves, in the order in which simultaneous ones happen.
#[derive(Clone, Copy)]
enum Timer {
    Pll,
    Signal18,
    Dma,
    Sd,
    Access,
    List,
    CheckTimeout,
    CardDetect,
}

const TIMERS: [Timer; 8] = [
    Timer::Pll,
    Timer::Signal18,
    Timer::Dma,
    Timer::Sd,
    Timer::Access,
    Timer::List,
    Timer::CheckTimeout,
    Timer::CardDetect,
];

type Log = Box<dyn FnMut(BusEvent)>;

/// The chip, its slot and the bus.
pub struct Rtsx {
    config: RtsxConfig,
    memory: ShadowMemory,
    card: Option<Box<dyn Card>>,
    /// What is due to happen, by [`Timer`].
    timers: Alarms<{ TIMERS.len() }>,
    now: u64,
    /// What the card was told last; its time never goes back.
    card_now: u64,
    /// DAT0 is low until then.
    card_busy_until: u64,
    window: window::Window,
    list: Option<list::List>,
    regs: internal::Registers,
    clock: clock::Clock,
    bus: BusState,
    sd: transfer::Transfer,
    dma: dma::Dma,
    inserted: bool,
    irq: bool,
    irq_lost: bool,
    irq_rose_ns: Option<u64>,
    faults: Faults,
    hurt: hurt::Hurt,
    violations: u64,
    stats: BusStats,
    log: Option<Log>,
}

impl Rtsx {
    /// A chip after power-on reset, at time 0.
    pub fn new(config: RtsxConfig, memory: ShadowMemory, card: Option<Box<dyn Card>>) -> Self {
        let inserted = card.is_some() || config.fixed;
        Rtsx {
            config,
            memory,
            card,
            timers: Alarms::NONE,
            now: 0,
            card_now: 0,
            card_busy_until: 0,
            window: window::Window::default(),
            list: None,
            regs: internal::Registers::default(),
            clock: clock::Clock::default(),
            bus: BusState { width: 1, ..BusState::default() },
            sd: transfer::Transfer::default(),
            dma: dma::Dma::default(),
            inserted,
            irq: false,
            irq_lost: false,
            irq_rose_ns: None,
            faults: Faults::none(),
            hurt: hurt::Hurt::default(),
            violations: 0,
            stats: BusStats::default(),
            log: None,
        }
    }

    /// The level of the interrupt line.
    pub fn irq(&self) -> bool {
        self.irq && !self.hurt.gone
    }

    /// When the interrupt line last rose.
    pub fn irq_rose_ns(&self) -> Option<u64> {
        self.irq_rose_ns
    }

    /// When something will happen by itself, if nothing is done before.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.timers.next().map(|(_, at)| at)
    }

    /// Lets everything happen up to and including `until_ns`, in order; stops early at the moment the
    /// interrupt line rises. Returns how far it came. A time in the past changes nothing.
    pub fn advance(&mut self, until_ns: u64) -> u64 {
        let mut before = self.irq;
        while self.fire(until_ns) {
            if self.irq && !before {
                return self.now;
            }
            before = self.irq;
        }
        self.now = self.now.max(until_ns);
        until_ns
    }

    /// Lets everything happen up to `now_ns`, and takes that as the time; whatever the caller says, time does
    /// not go back.
    fn reach(&mut self, now_ns: u64) -> u64 {
        while self.fire(now_ns) {}
        self.now = self.now.max(now_ns);
        self.now
    }

    /// The next event, if it is due by `until_ns`.
    fn fire(&mut self, until_ns: u64) -> bool {
        let Some((timer, at)) = self.timers.next().filter(|&(_, at)| at <= until_ns) else { return false };
        let timer = TIMERS[timer];
        self.stop_timer(timer);
        self.now = self.now.max(at);
        let now = self.now;
        match timer {
            Timer::Pll => self.pll_locked(now),
            Timer::Signal18 => self.signal_settled(now),
            Timer::Dma => self.dma_event(now),
            Timer::Sd => self.sd_event(now),
            Timer::Access => self.access_event(now),
            Timer::List => self.list_event(now),
            Timer::CheckTimeout => self.check_timed_out(now),
            Timer::CardDetect => self.card_detected(now),
        }
        self.check_again(now);
        true
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.timers.set(timer as usize, at_ns);
    }

    fn stop_timer(&mut self, timer: Timer) {
        self.timers.set(timer as usize, NEVER);
    }

    /// A card comes into the slot.
    pub fn insert(&mut self, card: Box<dyn Card>, now_ns: u64) {
        let now = self.reach(now_ns);
        self.card = Some(card);
        self.card_busy_until = 0;
        self.sd.open = None;
        let bus = self.bus;
        self.with_card(now, |card, now| card.bus_changed(&bus, now));
        self.set_timer(Timer::CardDetect, now.saturating_add(self.config.detect_ns));
    }

    /// The card leaves the slot, and is handed back.
    pub fn remove(&mut self, now_ns: u64) -> Option<Box<dyn Card>> {
        let now = self.reach(now_ns);
        self.take_card(now)
    }

    fn take_card(&mut self, now: u64) -> Option<Box<dyn Card>> {
        self.card_busy_until = 0;
        self.sd.open = None;
        self.set_timer(Timer::CardDetect, now.saturating_add(self.config.detect_ns));
        self.card.take()
    }

    fn card_detected(&mut self, now: u64) {
        let inserted = self.card.is_some() || self.config.fixed;
        if inserted == self.inserted {
            return;
        }
        self.inserted = inserted;
        if !inserted {
            self.take_supply_away(now);
        }
        self.raise(int::SD, now);
    }

    /// The card in the slot.
    pub fn card_mut(&mut self) -> Option<&mut (dyn Card + 'static)> {
        self.card.as_deref_mut()
    }

    /// What goes wrong with the controller and its bus from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The card that a fault took out of the slot, if one did.
    pub fn removed(&mut self) -> Option<Box<dyn Card>> {
        self.hurt.removed.take()
    }

    /// The chip's parameters.
    pub fn config(&self) -> &RtsxConfig {
        &self.config
    }

    /// How the bus is driven now.
    pub fn bus(&self) -> &BusState {
        &self.bus
    }

    /// What went over the bus so far.
    pub fn stats(&self) -> &BusStats {
        &self.stats
    }

    /// Counts from zero again, and returns what there was.
    pub fn take_stats(&mut self) -> BusStats {
        std::mem::take(&mut self.stats)
    }

    /// What the driver did that the chip does not bear: START while a transfer runs, a clock changed while
    /// the card sees it, reserved values ...
    pub fn protocol_violations(&self) -> u64 {
        self.violations
    }

    /// Tells `log` about everything on the bus from now on; `None` for silence.
    pub fn set_log(&mut self, log: Option<Log>) {
        self.log = log;
    }

    fn note(&mut self, event: BusEvent) {
        if let Some(log) = &mut self.log {
            log(event);
        }
    }

    fn violation(&mut self) {
        self.violations += 1;
    }

    /// Calls the card, if there is one; its time never goes back.
    fn with_card<T>(&mut self, now: u64, call: impl FnOnce(&mut dyn Card, u64) -> T) -> Option<T> {
        let card = self.card.as_deref_mut()?;
        self.card_now = self.card_now.max(now);
        Some(call(card, self.card_now))
    }

    /// Latches pending bits, enabled or not.
    fn raise(&mut self, bits: u32, now: u64) {
        self.window.pending |= bits;
        self.irq_lost = false;
        self.update_irq(now);
    }

    /// The interrupt line follows pending and enable bits.
    fn update_irq(&mut self, now: u64) {
        let level = self.window.pending & self.window.enable & int::LATCHED != 0;
        if !level {
            self.irq_lost = false;
        } else if !self.irq && !self.irq_lost {
            if self.strike(Point::Interrupt, now) == Some(Strike::Lost) {
                self.irq_lost = true;
            } else {
                self.stats.interrupts += 1;
                self.irq_rose_ns = Some(now);
                self.note(BusEvent::Interrupt { at_ns: now, status: self.window.pending });
            }
        }
        self.irq = level && !self.irq_lost;
    }
}
