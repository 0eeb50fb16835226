//! Model of an SD host controller, register by register, for the versions 3.00 to 4.20 of the
//! standard (SDHC).
//!
//! [`Sdhci`] is passive: each call gives it the time, and
//! [`Device::next_event_ns`](crate::world::Device::next_event_ns) returns the time of the next
//! event inside the model.
//!
//! Its parts:
//! - `registers.rs`: reads, writes and their side effects;
//! - `command.rs`: the CMD line, automatic commands;
//! - `data.rs`: a transfer from command to end, busy, tuning;
//! - `blocks.rs`: the blocks of a transfer;
//! - `dma.rs`: SDMA and ADMA2;
//! - `adma3.rs`: lists of commands;
//! - `pio.rs`: the buffer port;
//! - `config.rs`: features and delays of a controller;
//! - `mistakes.rs`: violations of the standard by a controller;
//! - `profile.rs`: controllers with known mistakes;
//! - `hurt.rs`: planned faults and their lasting effects;
//! - `cqhci/`: the command queue engine.
//!
//! Where the standard leaves something open, the model chooses the strict behaviour, so that a
//! driver that relies on luck fails here:
//! - After a response timeout Command Inhibit (CMD) stays set until the driver resets the CMD
//!   circuit. If a command that uses the DAT lines or its data had an error, Command Inhibit (DAT)
//!   stays set, and no more data are transferred until the driver resets the DAT circuit.
//! - With a damaged response (CRC, end bit, index) Command Complete is set together with the error.
//! - The lengths in an ADMA2 table must add up to exactly the length of the blocks, and the table
//!   must have an end [SDHC 2.2.28].
//! - A command that is written while an inhibit bit is set, during a reset, or before the last
//!   command was written completely is dropped. The model counts it in
//!   [`Controller::protocol_violations`](crate::slot::Controller::protocol_violations).
//! - UHS modes need 1.8 V signalling. A block of another length than the card sends is a CRC error.
//! - A write to a busy card waits for the end of busy before its first block; a read does not wait.

mod adma3;
mod bits;
mod blocks;
mod command;
mod config;
mod cqhci;
mod data;
mod dma;
mod hurt;
mod mistakes;
mod pio;
mod profile;
mod registers;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::stats::{BusEvent, BusStats};
pub use config::{Busy, SdhciConfig};
pub use cqhci::CqhciConfig;
pub use mistakes::Mistakes;
pub use profile::{PROFILES, Profile};

use crate::alarms::NEVER;
use crate::card::Card;
use crate::faults::{Point, Strike};
use crate::memory::DeviceMemory;
pub use crate::port::PortCounters;
use crate::probe::{Probe, Signal};
use crate::slot::{Core, Slot};
use bits::{int, reset};
use registers::Registers;

/// Access to the controller's registers, as a driver has it.
pub type Port = crate::port::Port<Sdhci>;

crate::port::register_file!(Sdhci);

/// Timers of the model. Timers with the same time are handled in the order of this enum.
#[derive(Clone, Copy)]
enum Timer {
    Command,
    Data,
    DataTimeout,
    Reset,
    ClockStable,
    Signal18,
    CardDetect,
    Card,
    /// Sets status bits that a fault has delayed.
    Status,
    /// Raises the interrupt line that a fault has delayed.
    Line,
    /// The command queue engine polls the card for ready tasks.
    QueuePoll,
    /// The coalescing timeout of the command queue engine.
    QueueCount,
}

const TIMERS: [Timer; 12] = [
    Timer::Command,
    Timer::Data,
    Timer::DataTimeout,
    Timer::Reset,
    Timer::ClockStable,
    Timer::Signal18,
    Timer::CardDetect,
    Timer::Card,
    Timer::Status,
    Timer::Line,
    Timer::QueuePoll,
    Timer::QueueCount,
];

/// Model of an SDHCI controller, with its card slot and bus.
pub struct Sdhci {
    config: SdhciConfig,
    memory: Box<dyn DeviceMemory>,
    slot: Slot,
    regs: Registers,
    cmd: command::CmdLine,
    dat: data::DatLines,
    dma: dma::Dma,
    list: adma3::List,
    pio: pio::Buffer,
    /// The command queue engine; `None`: the controller has none.
    cqe: Option<Box<cqhci::Engine>>,
    card_interrupt: bool,
    /// Whether a card with functions (I/O card) is in the slot, or was.
    functions: bool,
    /// Whether the card requests an interrupt on DAT1. While data use the line, the value from
    /// before these data.
    card_line: bool,
    hurt: hurt::Hurt,
    first_violation: Option<(u64, &'static str)>,
}

impl Core for Sdhci {
    crate::slot::has_slot!();

    fn alarm(&mut self, alarm: usize, now: u64) {
        match TIMERS[alarm] {
            Timer::Command => self.command_event(now),
            Timer::Data => self.data_event(now),
            Timer::DataTimeout => self.data_timeout(now),
            Timer::Reset => self.reset_done(now),
            Timer::ClockStable => self.clock_is_stable(now),
            Timer::Signal18 => self.signal_settled(now),
            Timer::CardDetect => self.card_detected(now),
            Timer::Card => {}
            Timer::Status => self.late_status(now),
            Timer::Line => self.update_irq(now),
            Timer::QueuePoll => self.queue_goes_on(now),
            Timer::QueueCount => self.queue_counted(now),
        }
    }

    fn card_came(&mut self, now: u64) {
        self.functions |= self.slot.card().is_some_and(|card| card.has_functions());
        self.card_went(now);
    }

    fn card_went(&mut self, now: u64) {
        self.regs.detect_stable = false;
        self.set_timer(Timer::CardDetect, now.saturating_add(self.config.debounce_ns));
    }

    fn look(&mut self, now: u64) {
        self.look_at_card(now);
    }

    fn struck(&mut self, point: Point, strike: Strike, now: u64) -> Option<Strike> {
        self.hurt_by(point, strike, now)
    }
}

impl Sdhci {
    /// Makes a controller in its state after power-on reset, at time 0. `memory`: what its DMA
    /// accesses; `card`: the card in its slot.
    pub fn new(
        config: SdhciConfig,
        memory: impl DeviceMemory + 'static,
        card: Option<Box<dyn Card>>,
    ) -> Self {
        let inserted = card.is_some() || config.fixed;
        let functions = card.as_ref().is_some_and(|card| card.has_functions());
        Sdhci {
            config,
            memory: Box::new(memory),
            slot: Slot::new(card),
            regs: Registers { inserted, detect_stable: true, ..Registers::default() },
            cmd: command::CmdLine::default(),
            dat: data::DatLines::default(),
            dma: dma::Dma::default(),
            list: adma3::List::default(),
            pio: pio::Buffer::default(),
            cqe: config.command_queue.map(|config| Box::new(cqhci::Engine::new(config))),
            card_interrupt: false,
            functions,
            card_line: false,
            hurt: hurt::Hurt::default(),
            first_violation: None,
        }
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.slot.set_alarm(timer as usize, at_ns);
    }

    fn stop_timer(&mut self, timer: Timer) {
        self.slot.set_alarm(timer as usize, NEVER);
    }

    /// Updates the state of the card interrupt that the model shows, and the time at which the card
    /// may change it. In 4-bit mode the interrupt is hidden while data are on the lines [SDIO
    /// 8.1.2].
    pub(super) fn look_at_card(&mut self, now: u64) {
        if !self.functions {
            return;
        }
        let at = self.slot.card_ns(now);
        let hidden = self.slot.bus.width != 1 && self.dat.hides_interrupt();
        let (line, next) = match self.slot.card() {
            None => (false, None),
            Some(card) if hidden => (self.card_line, card.next_event_ns(at)),
            Some(card) => (card.interrupt(at), card.next_event_ns(at)),
        };
        self.set_timer(Timer::Card, next.unwrap_or(NEVER));
        if line != self.card_line {
            self.card_line = line;
            self.update_irq(now);
        }
    }

    /// Raises the card interrupt (DAT1) if `level`, otherwise lowers it, for a test without a model
    /// of the card that interrupts.
    pub fn set_card_interrupt(&mut self, level: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.card_interrupt = level;
        self.update_irq(now);
    }

    /// Returns the parameters of the controller.
    pub fn config(&self) -> &SdhciConfig {
        &self.config
    }

    /// Returns the first violation of the protocol by the driver: its time in ns and a description.
    /// `None`: the driver has not violated the protocol.
    pub fn first_violation(&self) -> Option<(u64, &'static str)> {
        self.first_violation
    }

    /// Shows `probe` every signal at the slot from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.slot.set_probe(probe);
    }

    /// Shows the probe a signal, if there is a probe.
    fn show<'a>(&'a mut self, signal: impl FnOnce(&'a data::DatLines) -> Signal<'a>) {
        if let Some(probe) = &mut self.slot.probe {
            probe(&signal(&self.dat));
        }
    }

    fn violation(&mut self, what: &'static str) {
        self.slot.violation();
        self.first_violation.get_or_insert((self.slot.now_ns(), what));
    }

    /// Sets status bits, if they are enabled.
    fn raise(&mut self, bits: u32, now: u64) {
        self.regs.status |= bits & self.regs.enable;
        self.slot.line.forgive();
        self.update_irq(now);
    }

    /// Sets the interrupt line: it is high while a status bit is set whose signal enable bit is set
    /// too.
    fn update_irq(&mut self, now: u64) {
        // The card interrupt is a level: while it is enabled, its status bit follows the line.
        self.regs.status &= !int::CARD;
        if self.card_interrupt || self.card_line {
            self.regs.status |= int::CARD & self.regs.enable;
        }
        if let Some(cqe) = &mut self.cqe {
            // The interrupt of most command queue engines is a level too.
            let is_set = cqe.status_bit(self.regs.status & int::QUEUE != 0);
            self.regs.status &= !int::QUEUE;
            if is_set {
                self.regs.status |= int::QUEUE & self.regs.enable;
            }
        }
        let causes = self.regs.status & self.regs.signal != 0;
        let level = causes || self.hurt.spurious > 0 && self.regs.signal != 0;
        if !level {
            self.slot.line.forgive();
            self.hurt.held_ns = None;
        }
        let rises = level && self.slot.line.may_rise() && self.line_obeys(now);
        if rises {
            let status = self.regs.status_word();
            self.slot.interrupt(now, status);
        }
        self.slot.set_line(level && (self.slot.line.is_high() || rises), now);
    }

    /// Begins a software reset. It takes effect at once, but its bits stay set for some time.
    fn software_reset(&mut self, bits: u8, now: u64) {
        if bits & reset::ALL != 0 {
            self.regs = Registers {
                inserted: self.regs.inserted,
                detect_stable: self.regs.detect_stable,
                ..Registers::default()
            };
            self.stop_timer(Timer::ClockStable);
            self.stop_timer(Timer::Signal18);
            self.hurt.stuck = 0;
            self.cqe = self.config.command_queue.map(|config| Box::new(cqhci::Engine::new(config)));
        }
        if bits & (reset::ALL | reset::CMD) != 0 {
            self.reset_command();
        }
        if bits & (reset::ALL | reset::DAT) != 0 {
            self.reset_data();
        }
        self.regs.reset |= bits;
        let mut ends_ns = now.saturating_add(self.config.reset_ns);
        self.hurt.resets &= !bits;
        if self.config.mistakes.reset_needs_clock && !self.hurt.clock_written {
            self.hurt.resets |= bits;
        }
        match self.strike(Point::Reset, now) {
            Some(Strike::Never) => self.hurt.resets |= bits,
            Some(Strike::Status(stay)) => self.hurt.resets |= bits & stay as u8,
            Some(Strike::Late(ns)) => ends_ns = ends_ns.saturating_add(ns),
            _ => {}
        }
        self.set_timer(Timer::Reset, ends_ns);
        self.refresh_bus(now);
        self.update_irq(now);
    }

    fn reset_done(&mut self, now: u64) {
        self.regs.reset &= self.hurt.resets;
        // A halt may have waited for the end of a task; the reset has ended this task.
        self.queue_goes_on(now);
    }

    fn card_detected(&mut self, now: u64) {
        let inserted = self.slot.card().is_some() || self.config.fixed;
        self.regs.detect_stable = true;
        if inserted == self.regs.inserted {
            return;
        }
        self.regs.inserted = inserted;
        if !inserted {
            // Without a card the controller switches off power and clock [SDHC 2.2.11, 2.2.14].
            // Data that this cuts off are not a mistake of the driver.
            self.regs.power &= !1;
            self.regs.clock &= !bits::clock::CARD;
            self.drive_bus(now);
        }
        if !self.config.mistakes.card_unseen {
            self.raise(if inserted { int::INSERTION } else { int::REMOVAL }, now);
        }
    }

    /// Returns whether a command can be sent: the card has power and the clock runs.
    fn clocked(&self) -> bool {
        self.slot.bus.powered && self.slot.bus.clock_hz != 0
    }
}
