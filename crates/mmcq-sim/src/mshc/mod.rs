//! Model of mobile storage hosts, register by register: Synopsys' DesignWare MSHC (`dw_mshc`) and
//! Allwinner's SMHC.
//!
//! Both are one core with two register layouts. The model was written from register tables,
//! sequences and the experience of drivers of both, without reading this project's driver. [`Mshc`]
//! is passive: each call gives it the time, and
//! [`Device::next_event_ns`](crate::world::Device::next_event_ns) returns the time of the next
//! event inside the model.
//!
//! Its parts:
//! - `map.rs`: register offsets of each layout;
//! - `registers.rs`: reads and writes;
//! - `clock.rs`: clock, bus, voltage switch;
//! - `command.rs`: the command path;
//! - `data.rs`: the data path from start to end;
//! - `blocks.rs`: the blocks of the data path;
//! - `fifo.rs`: the FIFO;
//! - `idmac.rs`: the internal DMA;
//! - `config.rs`: parameters of a controller.
//!
//! Functions of the board are methods of the model: the card's supply on an SMHC
//! ([`set_supply`](Mshc::set_supply)), the level shifter ([`set_signal18`](Mshc::set_signal18)) and
//! the sampling phase of the clock unit ([`set_phase`](Mshc::set_phase)). [`Board`] calls them for
//! a driver.
//!
//! # What surprises
//! - Divider and clock enable take effect only with an update command. A command that waits for the
//!   data before it (also an update) keeps its bit START set while DAT0 is low.
//! - While START is set the registers of a command are locked: a write to them is dropped and sets
//!   bit 12 (HLE).
//! - A command with an error is also reported as done. A read continues after a damaged response,
//!   but not after a missing one; a write does not begin in either case.
//! - The interrupt "data over" of a write comes before the card's busy ends; bit 13 follows at the
//!   end of busy, if there was one. No bit reports the end of an R1b's busy, and no timeout limits
//!   the busy of a write.
//! - "Data over" of a read may come before the last block is in memory; the status register of the
//!   internal DMA reports when the block is there.
//! - A wrong CRC of a read does not end the data. A missing block, a wrong end bit and a refused
//!   block end them, with "data over" beside the error. After an error no automatic CMD12 is sent.
//! - Bytes that an ended transfer leaves in the FIFO become the beginning of the next transfer,
//!   unless the driver resets the FIFO.
//! - A CMD11 with bit 28 causes no interrupt "command done": bit 10 reports that the lines are low.
//! - Each clock update from CMD11 until the clock runs again must have bit 28; no other update may
//!   have it.
//! - Double data rate on eight lines needs a divided clock; in SMHC's new timing mode also on fewer
//!   lines.
//! - Above 52 MHz the sampling edge must be moved into the data eye, by the board's clock unit or
//!   by SMHC's delay line. Above this clock a block is lost if the clock stops inside it.
//! - A reset of a DesignWare stops the card's clock until the next update.
//!
//! # Where the manuals leave a choice
//! The model chooses the strict behaviour. It ignores and counts what a driver must not do
//! ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)): a data
//! command during data, a command without a clock, FIFO accesses without data or room, data with a
//! FIFO that is not empty, reserved values. Streams, boot and CE-ATA are not modelled, and the
//! clock never stops by itself for low power. For the CPU each word has its own time; the internal
//! DMA moves a block as a whole.

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

/// Access to the controller's registers, as a driver has it.
pub type Port = crate::port::Port<Mshc>;

crate::port::register_file!(Mshc);

/// Timers of the model. Timers with the same time are handled in the order of this enum.
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

/// Model of a mobile storage host, with its card slot and bus.
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
    /// Interrupt causes that were set and enabled when the interrupt line was last updated: first
    /// those of the controller, then those of the internal DMA.
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
    /// Makes a controller in its state after reset, at time 0. On an SMHC the card has power.
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

    /// Returns the parameters of the controller.
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

    /// Sets the sampling phase of the board's clock unit in degrees.
    pub fn set_phase(&mut self, degrees: u16, now_ns: u64) {
        let now = self.reach(now_ns);
        self.clock.phase = degrees % 360;
        self.refresh_bus(now);
    }

    /// Shows `probe` every signal at the slot from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.slot.set_probe(probe);
    }

    /// Updates what depends on the lines (busy, card interrupt) and on the FIFO, after any event of
    /// the model.
    fn look_at_lines(&mut self, now: u64) {
        if self.slot.busy_until_ns == 0 {
            // A card that was removed or has no power does not hold DAT0 low.
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

    /// Updates the interrupt line, which is asserted while an enabled interrupt cause is set.
    fn update_irq(&mut self, now: u64) {
        let on = self.regs.control & ctrl::INTERRUPTS != 0;
        let dma = self.idmac.pending(!self.config.is_smhc());
        let pending = if on { [self.regs.raw & self.regs.mask, dma] } else { [0; 2] };
        let new = (pending[0] & !self.pending[0]) | (pending[1] & !self.pending[1]);
        self.pending = pending;
        self.drive_line(pending != [0; 2], pending[0], new != 0, now);
    }
}
