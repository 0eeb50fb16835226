//! Samsung's SDI, the SD controller of the S3C2440, by register.
//!
//! A FIFO of 64 bytes, no buffers behind it: while it has no room for what comes in, or nothing to
//! send, the bus clock stops. [`S3cSdi`] is passive: it is told the time with every call, and
//! [`Device::next_event_ns`](crate::world::Device::next_event_ns) says when something will happen
//! by itself. Its parts: `registers.rs` (reads, writes and their side effects), `command.rs` (the
//! CMD line), `data.rs` (a transfer from DCON to its end), `blocks.rs` (its blocks, word by word),
//! `fifo.rs`, `dma.rs` (the platform's engine), `config.rs`.
//!
//! The board adds two windows: DAT1 as a GPIO (100h), and the DMA engine (110h to 118h; bit 31 of
//! the length is set for the way from memory to the card).
//!
//! Where nothing is written down the model takes the strict side:
//! - Command sent is latched after every token, response end and response CRC (R3 and R4 have none
//!   that is right) together.
//! - A command written while another is under way is dropped and counted
//!   ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)); so is a
//!   start of data without the bits that say when they begin, and a FIFO access without room or
//!   data.
//! - Without a clock a command stays on the line and nothing counts its time.
//! - After an error of data the transfer is over; the FIFO keeps what it has until it is reset.
//! - A falling edge of DAT1 is latched only while SDIO interrupts are enabled and neither command
//!   nor data are under way. The level is to be read from the GPIO.

mod bits;
mod blocks;
mod command;
mod config;
mod data;
mod dma;
mod fifo;
mod registers;
#[cfg(test)]
mod tests;

pub use crate::stats::{BusEvent, BusStats};
pub use config::S3cSdiConfig;

use crate::alarms::NEVER;
use crate::card::Card;
use crate::memory::ShadowMemory;
pub use crate::port::PortCounters;
use crate::probe::Probe;
use crate::slot::{Core, Slot};
use bits::{con, dsta};

/// The registers as a driver reaches them.
pub type Port = crate::port::Port<S3cSdi>;

crate::port::register_file!(S3cSdi);

/// Timers of the model, in the order in which simultaneous ones are handled.
#[derive(Clone, Copy)]
enum Timer {
    Command,
    Data,
    DataTimeout,
    Dma,
    Card,
}

const TIMERS: [Timer; 5] = [Timer::Command, Timer::Data, Timer::DataTimeout, Timer::Dma, Timer::Card];

type HoldLog = Box<dyn FnMut(u64, u64)>;
type Dat1Log = Box<dyn FnMut(u64, bool)>;

/// The controller, its slot and the bus.
pub struct S3cSdi {
    config: S3cSdiConfig,
    memory: ShadowMemory,
    slot: Slot,
    /// Whether the board powers the card.
    supply: bool,
    regs: registers::Registers,
    cmd: command::CmdLine,
    dat: data::DatLines,
    fifo: fifo::Fifo,
    dma: dma::Dma,
    /// Whether DAT1 was low when the edge detector last sampled it.
    was_low: bool,
    lost_edges: u64,
    /// Enabled events at the last update.
    pending: u32,
    hold_log: Option<HoldLog>,
    dat1_log: Option<Dat1Log>,
}

impl Core for S3cSdi {
    crate::slot::has_slot!();

    fn alarm(&mut self, alarm: usize, now: u64) {
        match TIMERS[alarm] {
            Timer::Command => self.command_event(now),
            Timer::Data => self.data_event(now),
            Timer::DataTimeout => self.data_timeout(now),
            Timer::Dma => self.dma_event(now),
            Timer::Card => {}
        }
    }

    fn look(&mut self, now: u64) {
        self.look_at_card(now);
    }
}

impl S3cSdi {
    /// Makes a controller after power-on reset, at time 0, with the card's power on.
    pub fn new(config: S3cSdiConfig, memory: ShadowMemory, card: Option<Box<dyn Card>>) -> Self {
        let mut model = S3cSdi {
            config,
            memory,
            slot: Slot::new(card),
            supply: true,
            regs: registers::Registers::default(),
            cmd: command::CmdLine::default(),
            dat: data::DatLines::default(),
            fifo: fifo::Fifo::default(),
            dma: dma::Dma::default(),
            was_low: false,
            lost_edges: 0,
            pending: 0,
            hold_log: None,
            dat1_log: None,
        };
        model.refresh_bus(0);
        model
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.slot.set_alarm(timer as usize, at_ns);
    }

    /// Switches the card's power, as the board does.
    pub fn set_supply(&mut self, on: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.supply = on;
        self.slot.busy_until_ns = 0;
        self.refresh_bus(now);
        self.look(now);
    }

    /// Returns the controller's parameters.
    pub fn config(&self) -> &S3cSdiConfig {
        &self.config
    }

    /// Returns the number of falling edges of DAT1 that were not latched because the controller was
    /// busy or SDIO interrupts were not enabled.
    pub fn lost_edges(&self) -> u64 {
        self.lost_edges
    }

    /// Sets the log that receives the begin and end of each time for which the bus clock was
    /// stopped because the FIFO had no room or no data.
    pub fn set_hold_log(&mut self, log: Option<HoldLog>) {
        self.hold_log = log;
    }

    /// Sets the log that is called when the card pulls DAT1 low for an interrupt (true), and when
    /// it releases it.
    pub fn set_dat1_log(&mut self, log: Option<Dat1Log>) {
        self.dat1_log = log;
    }

    /// Shows `probe` every signal at the slot from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.slot.set_probe(probe);
    }

    /// Returns whether the card pulls DAT1 low for an interrupt while no data use that line.
    fn dat1_low(&self, now: u64) -> bool {
        let free = self.slot.bus.width == 1 || !self.dat.moving();
        self.config.dat1_gpio && free && self.card_low(now)
    }

    fn card_low(&self, now: u64) -> bool {
        self.slot.card().is_some_and(|card| card.interrupt(self.slot.card_ns(now)))
    }

    /// Updates DAT1 and the events, after anything that may have changed them.
    fn look_at_card(&mut self, now: u64) {
        let at = self.slot.card_ns(now);
        let low = self.card_low(now);
        if low && !self.was_low {
            let busy = self.config.loses_edges && (self.cmd.active() || self.dat.busy());
            if busy || self.regs.con & con::SDIO_IRQ == 0 {
                self.lost_edges += 1;
            } else {
                self.regs.data_status |= dsta::SDIO_IRQ;
            }
        }
        if std::mem::replace(&mut self.was_low, low) != low
            && let Some(log) = &mut self.dat1_log
        {
            log(now, low);
        }
        let next = self.slot.card().and_then(|card| card.next_event_ns(at));
        self.set_timer(Timer::Card, next.unwrap_or(NEVER));
        self.update_irq(now);
    }

    /// Sets the interrupt line from the enabled events.
    fn update_irq(&mut self, now: u64) {
        let pending = self.events() & self.regs.mask;
        let new = pending & !self.pending != 0;
        self.pending = pending;
        self.drive_line(pending != 0, pending, new, now);
    }

    /// Returns whether there is a clock that carries bits.
    fn clocked(&self) -> bool {
        self.slot.bus.clock_hz != 0
    }
}
