//! I/O card, SD mode of the SDIO specification: up to seven functions, alone or with the memory
//! part of a combo card.
//!
//! `commands.rs` has the states and commands, `registers.rs` function 0 (CCCR, FBR, CIS),
//! `transfer.rs` the data of CMD53. `config.rs` has the identity of the card, `profile.rs` the
//! TOML, `function.rs` and `type_a.rs` the behaviour of functions.
//!
//! Where the standard is open, the card is strict. It answers ERROR to a command for a function
//! that is not ready, and to block mode without a block size. It answers OUT_OF_RANGE to byte mode
//! with more bytes than the largest block.

mod commands;
pub mod config;
pub mod function;
pub mod profile;
pub mod quirk;
mod registers;
mod sick;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;
pub mod type_a;

pub use config::{Cis, FunctionConfig, IoConfig};
pub use function::{Function, Loopback};
pub use profile::{Behind, IoProfile};
pub use quirk::IoQuirks;
pub use type_a::TypeA;

use super::cut::{AtStake, Kept};
use super::flash::Work;
use super::link::{self, IDENTIFICATION_HZ, Mode, PowerUp};
use super::sd::voltage::Voltage;
use super::trouble::{Trouble, Violation};
use super::{BusState, Card, Flow, ReadBlock, Reply, SdCard, WriteBlock, status};
use crate::faults::Faults;
use registers::{Registers, Speed};
use sick::Sick;
use transfer::Transfer;

/// The state of the I/O part [SDIO 3.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// State before CMD3: the card has no address.
    Init,
    /// The card has an address and is not selected.
    Stby,
    /// The card is selected; also while data are transferred.
    Cmd,
    /// Inactive: the card ignores all commands until the next power cycle.
    Ina,
}

/// A function of an I/O card: its model, its configuration and its state.
struct Slot {
    config: FunctionConfig,
    function: Box<dyn Function>,
    block_bytes: u16,
    /// Time in ns from which the enabled function is ready; `None`: not enabled.
    ready_ns: Option<u64>,
    /// Faults that strike the function.
    sick: Sick,
}

/// An I/O card, or a combo card.
pub struct IoCard {
    config: IoConfig,
    memory: Option<SdCard>,
    slots: Vec<Slot>,
    bus: BusState,
    power: PowerUp,
    voltage: Voltage,
    state: State,
    ready_ns: Option<u64>,
    switch_agreed: bool,
    rca: u16,
    /// Whether a command since the last response was illegal; the next R1, R5 or R6 reports it.
    illegal: bool,
    registers: Registers,
    transfer: Option<Transfer>,
    tuning: bool,
    busy_until_ns: u64,
    /// Whether the memory part of the card uses the DAT lines now.
    memory_moves: bool,
    /// Level of DAT1 while the clock is stopped: `Some(true)` is an interrupt. The card cannot
    /// change the level without a clock. `None`: the level follows the functions.
    frozen: Option<bool>,
    faults: Faults,
    trouble: Trouble,
    /// Whether the host has read CCCR 05h (pending interrupts) and has not read FFh since (a
    /// quirk).
    polled: bool,
    /// Whether CCCR 05h shows an interrupt that does not exist.
    fake_interrupt: bool,
    /// Whether the host has written the byte that wakes the functions (a quirk).
    woken: bool,
}

impl IoCard {
    /// Makes a card with these functions, function 1 first; the configuration must have an entry
    /// for each.
    ///
    /// # Panics
    ///
    /// If the number of functions differs from the configuration's, or is more than seven.
    #[must_use]
    pub fn new(config: IoConfig, functions: Vec<Box<dyn Function>>) -> Self {
        assert_eq!(config.functions.len(), functions.len(), "functions of an I/O card");
        assert!(functions.len() <= 7, "an I/O card has at most seven functions");
        let slots = config.functions.iter().zip(functions);
        let slots = slots.map(|(&config, function)| Slot {
            config,
            function,
            block_bytes: 0,
            ready_ns: None,
            sick: Sick::default(),
        });
        IoCard {
            slots: slots.collect(),
            config,
            memory: None,
            bus: BusState::default(),
            power: PowerUp::default(),
            voltage: Voltage::High,
            state: State::Init,
            ready_ns: None,
            switch_agreed: false,
            rca: 0,
            illegal: false,
            registers: Registers::default(),
            transfer: None,
            tuning: false,
            busy_until_ns: 0,
            memory_moves: false,
            frozen: None,
            faults: Faults::none(),
            trouble: Trouble::default(),
            polled: false,
            fake_interrupt: false,
            woken: false,
        }
    }

    /// Adds a memory part: the card becomes a combo card.
    #[must_use]
    pub fn with_memory(self, memory: SdCard) -> Self {
        IoCard { memory: Some(memory), ..self }
    }

    /// Replaces the CIS of the card by this one, which need not be valid.
    #[must_use]
    pub fn with_cis(mut self, cis: Cis) -> Self {
        self.config.cis = cis;
        self
    }

    /// Returns the identity of the card.
    #[must_use]
    pub fn config(&self) -> &IoConfig {
        &self.config
    }

    /// Returns the memory part of a combo card; `None` for a card with functions only.
    pub fn memory_mut(&mut self) -> Option<&mut SdCard> {
        self.memory.as_mut()
    }

    /// Returns the bus settings that the card's present mode needs.
    fn mode(&self) -> Mode {
        let is_18 = self.voltage.is_18();
        let (max_hz, ddr) = match (self.state, self.registers.speed) {
            (State::Init, _) => (IDENTIFICATION_HZ, false),
            (_, Speed::Default) => (25_000_000, false),
            (_, Speed::High) => (50_000_000, false),
            (_, Speed::Sdr50) => (100_000_000, false),
            (_, Speed::Sdr104) => (208_000_000, false),
            (_, Speed::Ddr50) => (50_000_000, true),
        };
        Mode { max_hz, width: self.registers.width(), ddr, signal18: Some(is_18), strobe: false }
    }

    /// Resets the I/O part, by a CMD52 write of RES or by a power cycle. The memory part stays as
    /// it is.
    fn reset(&mut self, now_ns: u64) {
        self.state = State::Init;
        self.ready_ns = None;
        self.switch_agreed = false;
        self.rca = 0;
        self.illegal = false;
        self.registers = Registers::default();
        self.transfer = None;
        self.tuning = false;
        self.busy_until_ns = 0;
        self.frozen = None;
        (self.polled, self.fake_interrupt, self.woken) = (false, false, false);
        for slot in &mut self.slots {
            slot.block_bytes = 0;
            slot.sick = Sick::default();
            if slot.ready_ns.take().is_some() {
                slot.function.reset(now_ns);
            }
        }
    }

    /// Ends the transfer of a CMD53 whose last read block is over at this time.
    fn settle(&mut self, now_ns: u64) {
        if let Some(transfer) = &self.transfer
            && transfer.end_ns.is_some_and(|end_ns| now_ns >= end_ns)
        {
            self.end_transfer(now_ns);
        }
    }

    /// Returns whether data of the memory part are on the DAT lines.
    fn memory_is_moving(&mut self, now_ns: u64) -> bool {
        let state = self.memory.as_mut().map(|memory| memory.state(now_ns));
        matches!(state, Some(status::State::Data | status::State::Rcv))
    }

    /// Returns whether a function requests an interrupt that reaches the host. The result does not
    /// depend on whether the clock runs.
    fn asked(&self, now_ns: u64) -> bool {
        self.audible(now_ns).any(|slot| slot.interrupt(now_ns))
    }

    /// Returns the functions whose interrupt requests reach the host: those that are ready and
    /// whose interrupt is enabled.
    fn audible(&self, now_ns: u64) -> impl Iterator<Item = &Slot> {
        self.enabled().filter(move |slot| slot.ready(now_ns))
    }

    /// Returns the functions whose interrupt is enabled; none while the card is not selected.
    fn enabled(&self) -> impl Iterator<Item = &Slot> {
        let enable = if self.state == State::Cmd && self.registers.interrupts & 1 != 0 {
            self.registers.interrupts
        } else {
            0
        };
        let enabled = move |place: usize| enable >> (place + 1) & 1 != 0;
        self.slots.iter().enumerate().filter_map(move |(place, slot)| enabled(place).then_some(slot))
    }
}

impl Slot {
    fn ready(&self, now_ns: u64) -> bool {
        !self.sick.gone && self.ready_ns.is_some_and(|ready_ns| now_ns >= ready_ns)
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        self.sick.storm > 0 || self.function.interrupt(now_ns)
    }
}

impl Card for IoCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.settle(now_ns);
        if let Some(memory) = &mut self.memory {
            memory.bus_changed(bus, now_ns);
        }
        let was = std::mem::replace(&mut self.bus, *bus);
        if bus.powered != was.powered {
            self.reset(now_ns);
            self.voltage = self.first_voltage();
            self.memory_moves = false;
            self.power = PowerUp::on(now_ns);
            if bus.powered {
                self.trouble.power_up(&self.faults);
            }
        }
        if !bus.powered {
            return;
        }
        self.power.clock(bus.clock_hz > 0, now_ns);
        self.voltage.bus_changed(&was, bus, now_ns, self.config.voltage_release_ns);
        let needs_clock = self.registers.width() == 4 && !self.registers.async_interrupt;
        self.frozen = match self.frozen {
            _ if bus.clock_hz > 0 || !needs_clock => None,
            Some(level) => Some(level),
            None => Some(self.asked(now_ns)),
        };
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.settle(now_ns);
        let from_memory = match &mut self.memory {
            // The memory part does not get CMD5, CMD52 and CMD53.
            Some(memory) if !matches!(index, 5 | 52 | 53) => memory.command(index, arg, now_ns),
            _ => Reply::SILENT,
        };
        let mode = self.mode();
        let deaf =
            !mode.hears(&self.bus) || self.voltage.is_deaf(now_ns) || !self.power.awake(&self.bus, now_ns);
        let own = if deaf || self.state == State::Ina || self.trouble.locked_up {
            Reply::SILENT
        } else {
            let mut reply = self.execute(index, arg, &from_memory, now_ns);
            if index != 19 && !mode.is_heard(&self.bus) {
                reply.answer = None;
            }
            reply
        };
        let reply = if from_memory.answer.is_some() { from_memory } else { own };
        if std::mem::take(&mut self.trouble.dips) {
            self.brown_out(now_ns);
        }
        if reply.flow != Flow::None {
            self.memory_moves = from_memory.answer.is_some();
        }
        reply
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.settle(now_ns);
        if let Some(memory) = self.memory.as_mut().filter(|_| self.memory_moves) {
            return memory.read_block(buffer, now_ns);
        }
        self.send_block(buffer, now_ns)
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.settle(now_ns);
        if let Some(memory) = self.memory.as_mut().filter(|_| self.memory_moves) {
            return memory.write_block(data, crc_ok, now_ns);
        }
        self.take_block(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        let memory = self.memory.as_ref().is_some_and(|memory| memory.busy(now_ns));
        let seen = self.trouble.shows_busy(now_ns) || self.trouble.stuck;
        memory || self.bus.powered && seen && now_ns < self.busy_until_ns
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        let memory = self.memory.as_ref().is_some_and(|memory| memory.switching_voltage(now_ns));
        memory || self.bus.powered && self.voltage.lines_low(now_ns)
    }

    fn write_protect_switch(&self) -> bool {
        self.memory.as_ref().is_some_and(Card::write_protect_switch)
    }

    fn has_functions(&self) -> bool {
        true
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        self.bus.powered && self.frozen.unwrap_or_else(|| self.asked(now_ns))
    }

    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.bus.powered || self.frozen.is_some() {
            return None;
        }
        let next = |slot: &Slot| match slot.ready_ns {
            Some(ready_ns) if ready_ns > now_ns => (ready_ns != u64::MAX).then_some(ready_ns),
            Some(_) => slot.function.next_event_ns(now_ns),
            None => None,
        };
        self.enabled().filter_map(next).min()
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        match &mut self.memory {
            Some(memory) => memory.peek(at, buffer),
            None => Err(std::io::Error::new(
                std::io::ErrorKind::Unsupported,
                "an I/O card has no medium to look at",
            )),
        }
    }

    fn touched(&self, each: &mut dyn FnMut(u8, std::ops::Range<u64>)) {
        if let Some(memory) = &self.memory {
            memory.touched(each);
        }
    }

    fn set_faults(&mut self, faults: Faults) {
        if let Some(memory) = &mut self.memory {
            memory.set_faults(faults.clone());
        }
        self.faults = faults;
    }

    fn take_work(&mut self) -> Work {
        self.memory.as_mut().map_or_else(Work::default, Card::take_work)
    }

    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        self.memory.as_mut().map_or_else(Vec::new, |memory| memory.at_stake(now_ns))
    }

    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        if let Some(memory) = &mut self.memory {
            memory.cut(now_ns, keep);
        }
        self.bus_changed(&BusState::default(), now_ns);
    }

    fn brown_out(&mut self, now_ns: u64) {
        if !self.bus.powered {
            return;
        }
        if let Some(memory) = &mut self.memory {
            memory.brown_out(now_ns);
        }
        self.reset(now_ns);
        self.voltage = self.first_voltage();
        self.memory_moves = false;
        self.power = PowerUp::on(now_ns);
        self.power.clock(self.bus.clock_hz > 0, now_ns);
    }

    fn spoil(&mut self, sector: u64) {
        if let Some(memory) = &mut self.memory {
            memory.spoil(sector);
        }
    }

    fn violations(&self) -> &[Violation] {
        match &self.memory {
            Some(memory) if self.trouble.violations().is_empty() => memory.violations(),
            _ => self.trouble.violations(),
        }
    }
}
