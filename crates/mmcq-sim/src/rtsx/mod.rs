//! Realtek's PCI Express card reader (rtsx) by register, with its SD slot and bus.
//!
//! [`Rtsx`] is passive, as [`Sdhci`](crate::sdhci::Sdhci) is: it is told the time with every call,
//! and [`Device::next_event_ns`](crate::world::Device::next_event_ns) says when something will
//! happen by itself. Its parts: `window.rs` (the MMIO window), `list.rs` (host command lists),
//! `internal.rs` (the internal registers and their side effects), `clock.rs` (PLL, dividers,
//! phases, supply: how the bus is driven), `transfer.rs` (a transfer from START to its end),
//! `command.rs` (its CMD line), `blocks.rs` (its DAT lines), `dma.rs` (SG tables and the ring
//! buffer), `config.rs` (what a particular chip is).
//!
//! The chip has no documentation. Names and bits of registers are the ones that drivers use; where
//! these are silent the choice is ours, and strict. Things a driver does wrong are counted
//! ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)).
//!
//! # Window
//! 32-bit accesses at 00h to 1Ch. HCBAR, HCBCTLR (31 start, 30 write back, 28 stop, 23:0 bytes),
//! HDBAR, HDBCTLR (31 trigger, 29 card to memory, 28 stop, 27:26 must be 2), HAIMR, BIPR, BIER, a
//! scratch register. A list or DMA that is started while one is there is refused and counted. HAIMR
//! is busy (bit 31) for `access_ns`, then holds the register, or what was written to it before any
//! side effect.
//!
//! # Lists
//! Fetched whole half of `round_ns` after the start; each entry takes `entry_ns`; the end is
//! reported the other half later with CMD_DONE and TRANS_OK or TRANS_FAIL. READ and CHECK bytes are
//! written back only if asked for. A CHECK that waits longer than `check_timeout_ns` fails the
//! list, and so does a transfer that fails while the list runs; what follows in it is not executed.
//!
//! # SD
//! TRANSFER (FDB3) ends as END and IDLE, or as ERR and IDLE; the next START needs ERR cleared by
//! CARD_STOP (FD54). Modes 8 (command), C and 0 (command and one block through the ping-pong
//! buffer), E and A (command and blocks), 5 and 1 (blocks of the transfer that is open on the
//! card), F (tuning). A read into the ring ends when its last byte is in memory; a write ends with
//! the last CRC status or, with bit 3 of CFG2, when DAT0 is released. A response must come within
//! 80 clocks (if CFG3 bit 0 says so). Data that do not come end nothing: the CHECK that waits for
//! them times out. Supply: FD50 1:0 (3 off, 1 or 2 partial for at least 100 us, 0 on). FD52 3:0 =
//! 4, FD55 bit 2, FD5C 2:0 = 2, FD69 bit 2 must be set before a START. FDA6 bit 7 is 1.8 V. The
//! line levels in FDA5 are sampled by the SD clock: they are fresh while a transfer or bit 7 lets
//! it run.
//!
//! # Clock and phases
//! SD clock = (N + 2) MHz / D / H / C: N (80 to 208) in FC0F, taken when FC11 bit 7 rises and
//! locked `pll_ns` later; D = 1, 2, 4, 8 for 1 to 4 in FC03 6:4; H = 2 in SD20 and DDR mode; C = 1,
//! 128 or 256 in CFG1 7:6. Changes need FC02 bit 0 (which stops the SD clock) or FD69 bit 2 clear.
//! In SD30 mode FC2A and FC2B 4:0 hold the phases of sending and sampling; they apply when bit 6
//! rises.
//!
//! # DMA
//! Runs when HDBCTLR has triggered a table and DMACTL (FE2C) bit 0 is armed, in either order. Each
//! SG entry must be VALID, of type 2, with a length up to 512 KiB and an address that is a multiple
//! of 4; the lengths add up to DMATC (FE28) and the last entry has END. Anything else fails DMA,
//! transfer and list.

mod bits;
mod blocks;
mod clock;
mod command;
mod config;
mod dma;
mod internal;
mod list;
#[cfg(test)]
mod tests;
mod transfer;
mod window;

pub use crate::stats::{BusEvent, BusStats};
pub use config::RtsxConfig;

use crate::alarms::NEVER;
use crate::card::Card;
use crate::faults::{Point, Strike};
use crate::memory::ShadowMemory;
pub use crate::port::PortCounters;
use crate::slot::{Core, Slot};
use bits::int;

/// The registers as a driver reaches them.
pub type Port = crate::port::Port<Rtsx>;

crate::port::register_file!(Rtsx);

/// Timers of the model, in the order in which simultaneous ones are handled.
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

/// The chip, its slot and the bus.
pub struct Rtsx {
    config: RtsxConfig,
    memory: ShadowMemory,
    slot: Slot,
    window: window::Window,
    list: Option<list::List>,
    regs: internal::Registers,
    clock: clock::Clock,
    sd: transfer::Transfer,
    dma: dma::Dma,
    inserted: bool,
    /// Whether immediate accesses never end.
    access_hangs: bool,
}

impl Core for Rtsx {
    crate::slot::has_slot!();

    fn alarm(&mut self, alarm: usize, now: u64) {
        match TIMERS[alarm] {
            Timer::Pll => self.pll_locked(now),
            Timer::Signal18 => self.signal_settled(now),
            Timer::Dma => self.dma_event(now),
            Timer::Sd => self.sd_event(now),
            Timer::Access => self.access_event(now),
            Timer::List => self.list_event(now),
            Timer::CheckTimeout => self.check_timed_out(now),
            Timer::CardDetect => self.card_detected(now),
        }
    }

    fn card_came(&mut self, now: u64) {
        self.card_went(now);
    }

    fn card_went(&mut self, now: u64) {
        self.sd.open = None;
        self.set_timer(Timer::CardDetect, now.saturating_add(self.config.detect_ns));
    }

    fn look(&mut self, now: u64) {
        self.check_again(now);
    }

    fn struck(&mut self, _: Point, strike: Strike, _: u64) -> Option<Strike> {
        if strike == Strike::Stuck {
            self.access_hangs = true;
            return None;
        }
        Some(strike)
    }
}

impl Rtsx {
    /// Makes a chip after power-on reset, at time 0.
    pub fn new(config: RtsxConfig, memory: ShadowMemory, card: Option<Box<dyn Card>>) -> Self {
        let inserted = card.is_some() || config.fixed;
        Rtsx {
            config,
            memory,
            slot: Slot::new(card),
            window: window::Window::default(),
            list: None,
            regs: internal::Registers::default(),
            clock: clock::Clock::default(),
            sd: transfer::Transfer::default(),
            dma: dma::Dma::default(),
            inserted,
            access_hangs: false,
        }
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.slot.set_alarm(timer as usize, at_ns);
    }

    fn stop_timer(&mut self, timer: Timer) {
        self.slot.set_alarm(timer as usize, NEVER);
    }

    fn card_detected(&mut self, now: u64) {
        let inserted = self.slot.card().is_some() || self.config.fixed;
        if inserted == self.inserted {
            return;
        }
        self.inserted = inserted;
        if !inserted {
            self.take_supply_away(now);
        }
        self.raise(int::SD, now);
    }

    /// Returns the chip's parameters.
    pub fn config(&self) -> &RtsxConfig {
        &self.config
    }

    /// Latches pending bits, enabled or not.
    fn raise(&mut self, bits: u32, now: u64) {
        self.window.pending |= bits;
        self.slot.line.forgive();
        self.update_irq(now);
    }

    /// Sets the interrupt line from pending and enable bits.
    fn update_irq(&mut self, now: u64) {
        let level = self.window.pending & self.window.enable & int::LATCHED != 0;
        self.drive_line(level, self.window.pending, false, now);
    }
}
