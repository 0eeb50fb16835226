//! Model of ST's SDMMC, the SD controller of STM32 H7, L4+, L5, U5, H5, MP1 and N6, register by
//! register.
//!
//! The model was written from register descriptions and the reference manual of the H745 and H755
//! (RM0399, chapter 58). A number such as [58.5.4] is a section of that manual. [`Stm32Sdmmc`] is
//! passive: each call gives it the time, and
//! [`Device::next_event_ns`](crate::world::Device::next_event_ns) returns the time of the next
//! event inside the model.
//!
//! Its parts:
//! - `registers.rs`: reads, writes, and refused writes;
//! - `clock.rs`: power states, clock, bus settings, voltage switch;
//! - `command.rs`: the command path;
//! - `data.rs`: the data path from start to end;
//! - `blocks.rs`: the blocks of the data path;
//! - `fifo.rs`: the FIFO;
//! - `idma.rs`: the internal DMA;
//! - `config.rs`: parameters of a controller and its board.
//!
//! Functions of the board are methods of the model, and [`Board`] is a board that calls them: the
//! reset line of the clock tree ([`reset`](Stm32Sdmmc::reset)), the card's supply
//! ([`set_supply`](Stm32Sdmmc::set_supply)), the level shifter
//! ([`set_signal18`](Stm32Sdmmc::set_signal18)) and the delay block
//! ([`set_phase`](Stm32Sdmmc::set_phase)).
//!
//! # What surprises
//! - Only a reset ends the power-on state: other writes to it are ignored [58.10.1].
//! - A data command with CMDTRANS starts the data path: for a read at the end of the command,
//!   whatever the response; for a write after a good response [58.5.4].
//! - After a data error the path stays active until an abort, which is a command with CMDSTOP.
//!   DABORT follows, and the path is idle. If the CPU moves the data, the driver must also write
//!   FIFORST [58.5.4, 58.6.2].
//! - Busy after a response makes the data path active, and the timer DTIMER counts. After its
//!   timeout the path stays active [58.5.4, table 486].
//! - A transfer error of the IDMA does not interrupt. It shows beside RXOVERR, TXUNDERR, DABORT or
//!   even DATAEND [58.5.6]. Version 3 does not show the first two while the IDMA is on.
//! - A read ends when the FIFO is empty, so DATAEND comes only after its last words were read.
//!   Fewer words than half a FIFO set no flag except that the FIFO is not empty [58.5.4].
//! - DBCKEND comes only with a hold or a read wait [58.10.11].
//!
//! # Where the manuals leave a choice
//! The model chooses the strict behaviour. It ignores and counts what a driver must not do
//! ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)): a command
//! during another one, writes to registers of an active path, a data command while data are active,
//! timer or length written after DCTRL, FIFO accesses without data or room, reserved values. A
//! command in the first 74 clocks waits for their end. Boot, streams, Wait-IRQ and suspend are not
//! modelled. For the CPU each word has its own time; the IDMA moves a block as a whole.

mod bits;
mod blocks;
mod board;
mod clock;
mod command;
mod config;
mod data;
mod fifo;
mod idma;
mod registers;
#[cfg(test)]
mod tests;

pub use crate::stats::{BusEvent, BusStats};
pub use board::Board;
use config::PHASES;
pub use config::{Buffers, Stm32SdmmcConfig, Version};

use crate::alarms::NEVER;
use crate::card::Card;
use crate::faults::{Point, Strike};
use crate::memory::ShadowMemory;
pub use crate::port::PortCounters;
use crate::probe::Probe;
use crate::slot::{Core, Slot};
use bits::{dctrl, sta};

/// Access to the controller's registers, as a driver has it.
pub type Port = crate::port::Port<Stm32Sdmmc>;

crate::port::register_file!(Stm32Sdmmc);

/// Timers of the model. Timers with the same time are handled in the order of this enum.
#[derive(Clone, Copy)]
enum Timer {
    Command,
    Sample,
    Data,
    DataTimeout,
    Busy,
    PowerUp,
    PowerSave,
    Voltage,
    Card,
}

const TIMERS: [Timer; 9] = [
    Timer::Command,
    Timer::Sample,
    Timer::Data,
    Timer::DataTimeout,
    Timer::Busy,
    Timer::PowerUp,
    Timer::PowerSave,
    Timer::Voltage,
    Timer::Card,
];

/// Model of an SDMMC, with its card slot and bus.
pub struct Stm32Sdmmc {
    config: Stm32SdmmcConfig,
    memory: ShadowMemory,
    slot: Slot,
    regs: registers::Registers,
    clock: clock::Clock,
    cmd: command::CmdLine,
    dat: data::DatLines,
    fifo: fifo::Fifo,
    idma: idma::Idma,
    /// Interrupt events that were present and enabled when the interrupt line was last updated, one
    /// bit each.
    pending: u32,
}

impl Core for Stm32Sdmmc {
    crate::slot::has_slot!();

    fn alarm(&mut self, alarm: usize, now: u64) {
        match TIMERS[alarm] {
            Timer::Command => self.command_event(now),
            Timer::Sample => self.sample_busy(now),
            Timer::Data => self.data_event(now),
            Timer::DataTimeout => self.data_timeout(now),
            Timer::Busy => self.busy_ended(now),
            Timer::PowerUp => self.powered_up(now),
            Timer::PowerSave => self.save_power(now),
            Timer::Voltage => self.voltage_event(now),
            Timer::Card => {}
        }
    }

    fn look(&mut self, now: u64) {
        self.look_at_lines(now);
    }
}

impl Stm32Sdmmc {
    /// Makes a controller in its state after reset, at time 0; the card has power.
    pub fn new(config: Stm32SdmmcConfig, memory: ShadowMemory, card: Option<Box<dyn Card>>) -> Self {
        let mut model = Stm32Sdmmc {
            config,
            memory,
            slot: Slot::new(card),
            regs: registers::Registers::default(),
            clock: clock::Clock::new(),
            cmd: command::CmdLine::default(),
            dat: data::DatLines::default(),
            fifo: fifo::Fifo::new(config.fifo_words()),
            idma: idma::Idma::default(),
            pending: 0,
        };
        model.refresh_bus(0);
        model
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.slot.set_alarm(timer as usize, at_ns);
    }

    /// Returns the parameters of the controller.
    pub fn config(&self) -> &Stm32SdmmcConfig {
        &self.config
    }

    /// Resets the controller by its reset line in the clock tree. Registers, command path, data
    /// path, FIFO and IDMA are then as after power-on [58.6.7].
    pub fn reset(&mut self, now_ns: u64) {
        let now = self.reach(now_ns);
        if self.slot.is_gone() || !self.config.bus_clock {
            return;
        }
        if self.strike(Point::Reset, now) == Some(Strike::Never) {
            return;
        }
        for timer in &TIMERS[..TIMERS.len() - 1] {
            self.set_timer(*timer, NEVER);
        }
        self.cut_block(now);
        self.regs = registers::Registers::default();
        self.cmd = command::CmdLine::default();
        self.dat.forget();
        self.fifo.clear();
        self.idma = idma::Idma::default();
        self.clock.reset();
        self.refresh_bus(now);
        self.look(now);
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

    /// Sets the phase, of twelve, that the delay block gives to the receive clock.
    pub fn set_phase(&mut self, phase: u8, now_ns: u64) {
        let now = self.reach(now_ns);
        self.clock.phase = phase % PHASES;
        self.refresh_bus(now);
    }

    /// Shows `probe` every signal at the slot from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.slot.set_probe(probe);
    }

    /// Updates what depends on the lines (busy, card interrupt), after any event of the model.
    fn look_at_lines(&mut self, now: u64) {
        if self.slot.busy_until_ns == 0 {
            // A card that was removed or has no power does not hold DAT0 low.
            for (timer, waits) in [(Timer::Data, self.dat.waits_for_card()), (Timer::Busy, true)] {
                let at_ns = self.slot.alarm_ns(timer as usize);
                if waits && at_ns != NEVER && at_ns > now {
                    self.set_timer(timer, now);
                }
            }
        }
        self.power_save_follows(now);
        let at = self.slot.card_ns(now);
        if self.slot.card().is_some_and(|card| card.has_functions()) {
            self.sample_interrupt(now);
            let next = self.slot.card().and_then(|card| card.next_event_ns(at));
            self.set_timer(Timer::Card, next.unwrap_or(NEVER));
        }
        self.update_irq(now);
    }

    /// Samples the interrupt of an I/O card: a level on DAT1 that counts only in its interrupt
    /// period [58.6.1].
    fn sample_interrupt(&mut self, now: u64) {
        let period = self.slot.bus.width == 1 || !self.dat.hides_interrupt();
        if self.regs.dctrl & dctrl::SDIO != 0 && period && self.card_low(now) {
            self.regs.status |= sta::SDIO;
        }
    }

    fn card_low(&self, now: u64) -> bool {
        self.slot.card().is_some_and(|card| card.interrupt(self.slot.card_ns(now)))
    }

    /// Updates the interrupt line, which is asserted while an enabled flag is set.
    fn update_irq(&mut self, now: u64) {
        let pending = self.status() & self.regs.mask;
        let new = pending & !self.pending != 0;
        self.pending = pending;
        self.drive_line(pending != 0, pending, new, now);
    }
}
