//! Mobile storage host: Synopsys' DesignWare MSHC (`dw_mshc`) and Allwinner's SMHC, by register.
//!
//! One core with two register layouts. Written from register tables, sequences and what drivers of
//! both have met; no driver of this project was read for it. [`Mshc`] is passive: it is told the
//! time with every call, and [`Device::next_event_ns`](crate::world::Device::next_event_ns) says
//! when something will happen by itself. Its parts: `map.rs` (where the registers are in each
//! layout), `registers.rs` (reads and writes), `clock.rs` (clock, bus, voltage switch),
//! `command.rs` (the command path), `data.rs` (the data path from its start to its end),
//! `blocks.rs` (its blocks), `fifo.rs`, `idmac.rs` (the internal DMA), `config.rs`.
//!
//! What belongs to the board is a method: the card's supply of an SMHC
//! ([`set_supply`](Mshc::set_supply)), its level shifter ([`set_signal18`](Mshc::set_signal18)) and
//! the phase at which the clock unit samples ([`set_phase`](Mshc::set_phase)). [`Board`] calls them
//! for a driver.
//!
//! # What surprises
//! - Divider and enable of the clock act with an update command alone. A command that waits for the
//!   data before it, an update too, keeps its START bit while DAT0 is low.
//! - While START is set the registers of a command are locked: a write is dropped, and bit 12 (HLE)
//!   tells.
//! - A command with an error is done all the same. A read goes on after a bad response, and not
//!   after none; a write does not begin then.
//! - Data over of a write comes before the card's busy, and bit 13 behind that, if there is one.
//!   Nothing tells of the end of an R1b's busy, and nothing limits a write's.
//! - Data over of a read may come before the last block is in memory: the internal DMA's own
//!   status tells.
//! - A wrong CRC of a read does not end the data; a missing block, a wrong end bit and a refused
//!   block do, with data over beside the error. No automatic CMD12 follows an error.
//! - What an ended transfer leaves in the FIFO is the beginning of the next one, if nothing resets
//!   the FIFO.
//! - A byte count of 0 has no end: no data over, and nothing tells that the card has the last block
//!   of a write. The internal DMA stops at a descriptor that it does not own, until the poll
//!   demand, and the card's clock stops with the FIFO full or empty. Without that clock no command
//!   is sent, CMD12 neither.
//! - CMD12 ends a read by the internal DMA when the FIFO is empty; the DMA writes it to memory, and
//!   needs a descriptor for that. Before, what is at or below the mark waits for more data.
//! - A descriptor that says it is the first one resets the FIFO, and what has come ahead is lost.
//! - After CMD11 with bit 28 there is no command done: bit 10 tells that the lines are low.
//! - Each update of the clock between CMD11 and the next running clock has bit 28 too, and no other
//!   update has it.
//! - Data on both edges of eight lines need a clock that is divided; in SMHC's new timing mode on any
//!   number of lines.
//! - Above 52 MHz the edge must be moved to where the eye is, by the board's clock unit or by SMHC's
//!   delay line, and a block does not survive that the clock stands in its middle.
//! - A reset of a DesignWare stops the card's clock until the next update.
//!
//! # Where nothing is written down
//! The model takes the strict side. What a driver must not do is ignored and counted
//! ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)): a data
//! command into data, a command without a clock, FIFO accesses without data or room, data into a
//! FIFO that is not empty, reserved values. Streams, boot and CE-ATA are not here, and the clock
//! does not stop by itself in low power. For the CPU words move one by one in their time; the
//! internal DMA moves a block as one piece.

mod bits;
mod blocks;
mod board;
mod clock;
mod command;
mod config;
mod data;
mod fifo;
mod idmac;
mod map;
mod registers;
#[cfg(test)]
mod tests;

pub use crate::stats::{BusEvent, BusStats};
pub use board::Board;
pub use config::{Layout, MshcConfig};

use crate::alarms::NEVER;
use crate::card::Card;
use crate::memory::DeviceMemory;
pub use crate::port::PortCounters;
use crate::probe::Probe;
use crate::slot::{Core, Slot};
use bits::{ctrl, int};

/// The registers as a driver reaches them.
pub type Port = crate::port::Port<Mshc>;

crate::port::register_file!(Mshc);

/// Timers of the model, in the order in which simultaneous ones are handled.
#[derive(Clone, Copy)]
enum Timer {
    Reset,
    Take,
    Go,
    Command,
    Data,
    DataTimeout,
    Dma,
    Busy,
    Voltage,
    Card,
}

const TIMERS: [Timer; 10] = [
    Timer::Reset,
    Timer::Take,
    Timer::Go,
    Timer::Command,
    Timer::Data,
    Timer::DataTimeout,
    Timer::Dma,
    Timer::Busy,
    Timer::Voltage,
    Timer::Card,
];

/// The controller, its slot and the bus.
pub struct Mshc {
    config: MshcConfig,
    memory: Box<dyn DeviceMemory>,
    slot: Slot,
    regs: registers::Registers,
    clock: clock::Clock,
    cmd: command::CmdLine,
    auto: command::Auto,
    dat: data::DatLines,
    fifo: fifo::Fifo,
    idmac: idmac::Idmac,
    /// Enabled causes at the last update: of the controller, and of the internal DMA.
    pending: [u32; 2],
}

impl Core for Mshc {
    crate::slot::has_slot!();

    fn alarm(&mut self, alarm: usize, now: u64) {
        match TIMERS[alarm] {
            Timer::Reset => self.resets_end(now),
            Timer::Take => self.take_command(now),
            Timer::Go => self.command_may_go(now),
            Timer::Command => self.command_event(now),
            Timer::Data => self.data_event(now),
            Timer::DataTimeout => self.data_timeout(now),
            Timer::Dma => self.last_block_arrives(now),
            Timer::Busy => self.busy_cleared(now),
            Timer::Voltage => self.voltage_event(now),
            Timer::Card => {}
        }
    }

    fn card_came(&mut self, _now: u64) {
        self.regs.raw |= if self.config.is_smhc() { int::CAME } else { int::DETECT };
    }

    fn card_went(&mut self, _now: u64) {
        self.regs.raw |= if self.config.is_smhc() { int::WENT } else { int::DETECT };
    }

    fn look(&mut self, now: u64) {
        self.look_at_lines(now);
    }
}

impl Mshc {
    /// Makes a controller after reset, at time 0. The card of an SMHC has its power.
    pub fn new(config: MshcConfig, memory: impl DeviceMemory + 'static, card: Option<Box<dyn Card>>) -> Self {
        let mut model = Mshc {
            config,
            memory: Box::new(memory),
            slot: Slot::new(card),
            regs: registers::Registers::new(&config),
            clock: clock::Clock::new(),
            cmd: command::CmdLine::default(),
            auto: command::Auto::default(),
            dat: data::DatLines::default(),
            fifo: fifo::Fifo::new(config.fifo_words.into()),
            idmac: idmac::Idmac::default(),
            pending: [0; 2],
        };
        model.refresh_bus(0);
        model
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.slot.set_alarm(timer as usize, at_ns);
    }

    fn timer_ns(&self, timer: Timer) -> u64 {
        self.slot.alarm_ns(timer as usize)
    }

    /// Returns the controller's parameters.
    pub fn config(&self) -> &MshcConfig {
        &self.config
    }

    /// Switches the card's power, as the board does.
    pub fn set_supply(&mut self, on: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.clock.supply = on;
        self.slot.busy_until_ns = 0;
        self.refresh_bus(now);
        self.look(now);
    }

    /// Switches the board's level shifter to 1.8 V, or back.
    pub fn set_signal18(&mut self, on: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.clock.signal18 = on;
        self.refresh_bus(now);
        self.look(now);
    }

    /// Sets the phase, in degrees, at which the board's clock unit samples.
    pub fn set_phase(&mut self, degrees: u16, now_ns: u64) {
        let now = self.reach(now_ns);
        self.clock.phase = degrees % 360;
        self.refresh_bus(now);
    }

    /// Shows `probe` every signal at the slot from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.slot.set_probe(probe);
    }

    /// Handles changes on the lines, after anything that happened.
    fn look_at_lines(&mut self, now: u64) {
        if self.slot.busy_until_ns == 0 {
            // The card is gone, or lost its supply: nothing holds DAT0.
            for (timer, waits) in [(Timer::Data, self.dat.waits_for_card()), (Timer::Busy, true)] {
                let at_ns = self.timer_ns(timer);
                if waits && at_ns != NEVER && at_ns > now {
                    self.set_timer(timer, now);
                }
            }
        }
        self.command_waits(now);
        self.fifo_asks();
        if self.slot.card().is_some_and(|card| card.has_functions()) {
            let at = self.slot.card_ns(now);
            let shown = self.slot.bus.width == 1 || !self.dat.active();
            if shown && self.slot.card().is_some_and(|card| card.interrupt(at)) {
                self.regs.raw |= int::SDIO;
            }
            let next = self.slot.card().and_then(|card| card.next_event_ns(at));
            self.set_timer(Timer::Card, next.unwrap_or(NEVER));
        }
        self.update_irq(now);
    }

    /// Sets the interrupt line from the enabled causes.
    fn update_irq(&mut self, now: u64) {
        let on = self.regs.control & ctrl::INTERRUPTS != 0;
        let dma = self.idmac.pending(!self.config.is_smhc());
        let pending = if on { [self.regs.raw & self.regs.mask, dma] } else { [0; 2] };
        let new = (pending[0] & !self.pending[0]) | (pending[1] & !self.pending[1]);
        self.pending = pending;
        self.drive_line(pending != [0; 2], pending[0], new != 0, now);
    }
}
