//! Model of Samsung's SDI, the SD controller of the S3C2440, register by register.
//!
//! The SDI has a FIFO of 64 bytes and no further buffer. The bus clock stops while the FIFO has no
//! room for received data, or no data to send. [`S3cSdi`] is passive: each call gives it the time,
//! and [`Device::next_event_ns`](crate::world::Device::next_event_ns) returns the time of the next
//! event inside the model.
//!
//! Its parts:
//! - `registers.rs`: reads, writes and their side effects;
//! - `command.rs`: the CMD line;
//! - `data.rs`: a transfer from DCON to its end;
//! - `blocks.rs`: the blocks of a transfer, word by word;
//! - `fifo.rs`: the FIFO;
//! - `dma.rs`: the DMA of the board;
//! - `config.rs`: parameters of a controller and its board.
//!
//! The board adds two groups of registers: DAT1 as a GPIO (100h), and the DMA (110h to 118h; bit 31
//! of the length selects memory to card).
//!
//! Where the manual leaves something open, the model chooses the strict behaviour:
//! - "Command sent" is set after every command. A response with a wrong CRC sets "response end" and
//!   "response CRC" together. So does an R3 or R4, which has no CRC.
//! - Some mistakes are ignored and counted
//!   ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)): a command
//!   during another one, a start of data without the bits that say when they begin, and a FIFO
//!   access without room or data.
//! - While the clock is stopped a command stays on the line, and its timeout does not count.
//! - An error in data ends the transfer; the FIFO keeps its content until it is reset.
//! - A falling edge of DAT1 is stored only while SDIO interrupts are enabled and neither a command
//!   nor data are under way. A driver can read the level from the GPIO.

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

/// Access to the controller's registers, as a driver has it.
pub type Port = crate::port::Port<S3cSdi>;

crate::port::register_file!(S3cSdi);

/// Timers of the model. Timers with the same time are handled in the order of this enum.
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

/// Model of an SDI controller, with its card slot and bus.
pub struct S3cSdi {
    config: S3cSdiConfig,
    memory: ShadowMemory,
    slot: Slot,
    /// Whether the board gives power to the card.
    supply: bool,
    regs: registers::Registers,
    cmd: command::CmdLine,
    dat: data::DatLines,
    fifo: fifo::Fifo,
    dma: dma::Dma,
    /// Whether DAT1 was low at the last sample of the edge detector.
    was_low: bool,
    lost_edges: u64,
    /// Interrupt events that were present and enabled when the interrupt line was last updated, one
    /// bit each.
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
    /// Makes a controller in its state after power-on reset, at time 0; the card has power.
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

    /// Switches the card's power on or off (`on`), as the board does.
    pub fn set_supply(&mut self, on: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.supply = on;
        self.slot.busy_until_ns = 0;
        self.refresh_bus(now);
        self.look(now);
    }

    /// Returns the parameters of the controller.
    pub fn config(&self) -> &S3cSdiConfig {
        &self.config
    }

    /// Returns the number of falling edges of DAT1 that the controller has missed, because it was
    /// busy or SDIO interrupts were not enabled.
    pub fn lost_edges(&self) -> u64 {
        self.lost_edges
    }

    /// Sets a callback that gets the begin and the end in ns of each time for which the FIFO has
    /// stopped the bus clock; `None` removes it.
    pub fn set_hold_log(&mut self, log: Option<HoldLog>) {
        self.hold_log = log;
    }

    /// Sets a callback for the card interrupt: true when the card pulls DAT1 low for it, false when
    /// the card releases DAT1. `None` removes it.
    pub fn set_dat1_log(&mut self, log: Option<Dat1Log>) {
        self.dat1_log = log;
    }

    /// Shows `probe` every signal at the slot from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.slot.set_probe(probe);
    }

    /// Returns whether the GPIO shows DAT1 low: the card requests an interrupt, and no data use
    /// DAT1.
    fn dat1_low(&self, now: u64) -> bool {
        let free = self.slot.bus.width == 1 || !self.dat.moving();
        self.config.dat1_gpio && free && self.card_low(now)
    }

    fn card_low(&self, now: u64) -> bool {
        self.slot.card().is_some_and(|card| card.interrupt(self.slot.card_ns(now)))
    }

    /// Reads the level of DAT1 and the interrupt events again, after any event of the model that
    /// may have changed them.
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

    /// Updates the interrupt line, which is asserted while an enabled event is present.
    fn update_irq(&mut self, now: u64) {
        let pending = self.events() & self.regs.mask;
        let new = pending & !self.pending != 0;
        self.pending = pending;
        self.drive_line(pending != 0, pending, new, now);
    }

    /// Returns whether the bus clock runs, so that bits can be sent.
    fn clocked(&self) -> bool {
        self.slot.bus.clock_hz != 0
    }
}
