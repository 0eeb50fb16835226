//! Model of Realtek's PCI Express card reader (rtsx), register by register, with its SD slot and
//! bus.
//!
//! [`Rtsx`] is passive, like [`Sdhci`](crate::sdhci::Sdhci): each call gives it the time, and
//! [`Device::next_event_ns`](crate::world::Device::next_event_ns) returns the time of the next
//! event inside the model.
//!
//! Its parts:
//! - `window.rs`: the MMIO window;
//! - `list.rs`: host command lists;
//! - `internal.rs`: internal registers and their side effects;
//! - `clock.rs`: PLL, dividers, phases and power, which drive the bus;
//! - `pads.rs`: supply, pull-ups, voltage and drive strength of the pads;
//! - `transfer.rs`: a transfer from START to its end;
//! - `command.rs`: the CMD line of a transfer;
//! - `blocks.rs`: the DAT lines of a transfer;
//! - `dma.rs`: SG tables and the ring buffer;
//! - `config.rs`: parameters of a chip.
//!
//! The chip has no public documentation. Names and bits of registers come from public drivers.
//! Where drivers show nothing, the model chooses a strict behaviour. It counts mistakes of a driver
//! ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)).
//!
//! # Window
//! The window has these 32-bit registers, from offset 00h on:
//! - HCBAR: address of the command list;
//! - HCBCTLR: bits 31 start, 30 write back, 28 stop, 23:0 number of bytes;
//! - HDBAR: address of the SG (scatter-gather) table;
//! - HDBCTLR: bits 31 trigger, 29 card to memory, 28 stop, 27:26 must be 2;
//! - HAIMR: access to one internal register without a command list;
//! - BIPR and BIER: pending and enabled interrupts;
//! - a scratch register.
//!
//! The model refuses and counts a list or DMA that is started during another one. HAIMR is busy
//! (bit 31) for `access_ns`. Then it holds the value of the internal register, or the value written
//! before any side effect.
//!
//! # Lists
//! The chip fetches the whole list half of `round_ns` after its start. Each entry takes `entry_ns`.
//! The chip reports the end after the other half, with CMD_DONE and TRANS_OK or TRANS_FAIL. It
//! writes READ and CHECK bytes back only on request. A list fails if a CHECK waits longer than
//! `check_timeout_ns`, or if a transfer fails while the list is executed; its later entries are not
//! executed.
//!
//! # SD
//! TRANSFER (FDB3) ends with END and IDLE, or with ERR and IDLE. Before the next START the driver
//! must clear ERR by CARD_STOP (FD54). The modes are:
//! - 8: a command without data;
//! - C (read) and 0 (write): a command and one block through the ping-pong buffer;
//! - E (read) and A (write): a command and blocks;
//! - 5 (read) and 1 (write): blocks of the transfer that is open on the card, without a command;
//! - F: a tuning command and its block.
//!
//! A read into the ring buffer ends when its last byte is in memory. A write ends with the last CRC
//! status or, with bit 3 of CFG2, when the card releases DAT0. A response must come within 80
//! clocks if bit 0 of CFG3 is set. Missing data do not end a transfer: the CHECK that waits for
//! them times out. A START needs FD52 3:0 = 4, FD55 bit 2, FD5C 2:0 = 2 and FD69 bit 2. FDA5 shows
//! line levels that the SD clock samples: they are up to date while a transfer or bit 7 keeps the
//! clock running.
//!
//! # Supply and pads
//! At the start the chip is as Linux's driver leaves it: the card and the pads without supply, CMD
//! and DAT pulled down, 3.3 V. Power is FD50 bits 1:0 (3 off, 1 or 2 partial, 0 on). The value of
//! partial power and its shortest time are those of the chip. No card answers before the pads have
//! supply (FE75 2:1) and the registers FD60 to FD63 pull CMD and DAT up.
//!
//! An RTS525A signals at 1.8 V by FDA6 bit 7 together with FF71 2:0. The other chips do so by bits
//! 9:6 of register 08h of the PCI Express link. An RTS5249 also needs bits 3:2 of the link's
//! register 11h clear. At 1.8 V the data of SD30 mode are right only with the drive strength of
//! 1.8 V (FD5A, FD5E, FD5F).
//!
//! # Clock and phases
//! The SD clock is (N + 2) * `base_hz` / D / H / C:
//! - N (80 to 208) is in FC0F. It takes effect when FC11 bit 7 rises, and the PLL has locked
//!   `pll_ns` later.
//! - D is 1, 2, 4 or 8 for the values 1 to 4 in FC03 6:4.
//! - H is 2 in SD20 and DDR mode, and 1 in SD30 mode.
//! - C is 1, 128 or 256, by CFG1 7:6.
//!
//! A change needs FC02 bit 0 set (which stops the SD clock) or FD69 bit 2 clear. In SD30 mode the
//! bits 4:0 of FC2A and FC2B hold the phases of sending and sampling; they take effect when bit 6
//! rises.
//!
//! # DMA
//! The DMA starts when HDBCTLR has triggered a table and bit 0 of DMACTL (FE2C) is set, in either
//! order. Each SG entry must be VALID and of type 2. Its length is at most 512 KiB, its address a
//! multiple of 4. The lengths must add up to DMATC (FE28), and the last entry must have END. Any
//! other table fails the DMA, the transfer and the list. The chip reports the end of a read's DMA
//! at once. It reports the end of a write's DMA only with the end of the transfer, since Linux's
//! driver waits for no other interrupt before its next command.

mod bits;
mod blocks;
mod clock;
mod command;
mod config;
mod dma;
mod internal;
mod list;
mod pads;
#[cfg(test)]
mod tests;
mod transfer;
mod window;

pub use crate::stats::{BusEvent, BusStats};
pub use config::RtsxConfig;

use crate::alarms::NEVER;
use crate::card::Card;
use crate::faults::{Point, Strike};
use crate::memory::DeviceMemory;
pub use crate::port::PortCounters;
use crate::slot::{Core, Slot};
use bits::int;

/// Access to the chip's registers, as a driver has it.
pub type Port = crate::port::Port<Rtsx>;

crate::port::register_file!(Rtsx);

/// Timers of the model. Timers with the same time are handled in the order of this enum.
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

/// Model of a card reader chip, with its card slot and bus.
pub struct Rtsx {
    config: RtsxConfig,
    memory: Box<dyn DeviceMemory>,
    slot: Slot,
    window: window::Window,
    list: Option<list::List>,
    regs: internal::Registers,
    needs: pads::Needs,
    clock: clock::Clock,
    sd: transfer::Transfer,
    dma: dma::Dma,
    inserted: bool,
    /// Fault: whether accesses to the chip's internal registers by HAIMR never end.
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
    /// Makes a chip in its state after power-on reset, at time 0.
    pub fn new(config: RtsxConfig, memory: impl DeviceMemory + 'static, card: Option<Box<dyn Card>>) -> Self {
        let inserted = card.is_some() || config.fixed;
        Rtsx {
            config,
            memory: Box::new(memory),
            slot: Slot::new(card),
            window: window::Window::default(),
            list: None,
            regs: internal::Registers::new(&config),
            needs: pads::Needs::of(config.device, config.version),
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

    /// Returns the parameters of the chip.
    pub fn config(&self) -> &RtsxConfig {
        &self.config
    }

    /// Sets the pending interrupt bits `bits`, whether they are enabled or not.
    fn raise(&mut self, bits: u32, now: u64) {
        self.window.pending |= bits;
        self.slot.line.forgive();
        self.update_irq(now);
    }

    /// Updates the interrupt line, which is asserted while a pending interrupt bit is enabled.
    fn update_irq(&mut self, now: u64) {
        let level = self.window.pending & self.window.enable & int::LATCHED != 0;
        self.drive_line(level, self.window.pending, false, now);
    }
}
