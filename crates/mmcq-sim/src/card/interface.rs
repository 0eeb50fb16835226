//! Bus interface of the memory cards: power-up, when a card receives commands, and when it is busy.

use super::flash::Flash;
use super::link::{Mode, PowerUp};
use super::status::State;
use super::trouble::Trouble;
use super::{BusState, Reply, WriteBlock};

/// State of a card's bus interface.
#[derive(Debug)]
pub(super) struct Interface {
    pub bus: BusState,
    pub power: PowerUp,
    pub state: State,
    /// Time in ns of the last bit of the last block of a read; `None` until that block is sent.
    pub data_end_ns: Option<u64>,
    pub busy_until_ns: u64,
    pub trouble: Trouble,
}

impl Default for Interface {
    fn default() -> Self {
        Interface {
            bus: BusState::default(),
            power: PowerUp::default(),
            state: State::Idle,
            data_end_ns: None,
            busy_until_ns: 0,
            trouble: Trouble::default(),
        }
    }
}

impl Interface {
    /// Resets the interface to `idle`.
    pub fn reset(&mut self) {
        (self.state, self.data_end_ns, self.busy_until_ns) = (State::Idle, None, 0);
    }
}

/// A memory card on the bus. Each card model implements the methods without a body; the others are
/// common to all cards.
pub(super) trait Interfaced {
    /// Number of the tuning command: 19 (SD) or 21 (eMMC).
    const TUNING: u8;

    fn interface(&self) -> &Interface;

    fn interface_mut(&mut self) -> &mut Interface;

    fn flash_mut(&mut self) -> &mut Flash;

    /// Returns the bus settings that the card's present mode needs.
    fn mode(&self) -> Mode;

    /// Brings the state of the card up to this time: for example, ends a busy or a read that is
    /// over by then.
    fn settle(&mut self, now_ns: u64);

    /// Loses the data that are only in volatile memory, such as the write cache, as at a loss of
    /// power.
    fn lose_cache(&mut self, now_ns: u64);

    /// Puts the card into its state after power-up: when the power comes, and at the end of a dip
    /// of the supply voltage.
    fn supply_comes(&mut self, now_ns: u64);

    fn supply_goes(&mut self, now_ns: u64);

    /// Lets the card react to a change of the bus while it has power; `was` is the state of the bus
    /// before.
    fn bus_moved(&mut self, was: &BusState, now_ns: u64) {
        let _ = (was, now_ns);
    }

    /// Returns whether the card ignores all commands at this time, independently of the state of
    /// the bus.
    fn hears_nothing(&self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }

    fn execute(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply;

    /// Takes a written block with these data. `crc_ok`: its CRC was right at the card. The busy
    /// time in the result is that of a card without faults; faults are applied later.
    fn take_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock;

    fn power_on(&mut self, now_ns: u64) {
        self.supply_comes(now_ns);
        let interface = self.interface_mut();
        interface.power = PowerUp::on(now_ns);
        interface.power.clock(interface.bus.clock_hz > 0, now_ns);
    }

    /// Begins busy until `until_ns`. Returns the end of busy that the host sees: a fault may change
    /// it.
    fn busy_begins(&mut self, until_ns: u64) -> Option<u64> {
        let faults = self.flash_mut().faults.clone();
        let interface = self.interface_mut();
        let (until_ns, seen_ns) = interface.trouble.busy(&faults, until_ns);
        interface.busy_until_ns = until_ns;
        seen_ns
    }

    /// Handles a dip of the supply voltage: volatile data are lost, and the card is back in `idle`.
    fn dips(&mut self, now_ns: u64) {
        if self.interface().bus.powered {
            self.lose_cache(now_ns);
            self.power_on(now_ns);
        }
    }

    /// Handles a dip of the supply voltage, if a fault has planned one for now. Returns true if it
    /// has.
    fn due_dip(&mut self, now_ns: u64) -> bool {
        let dips = std::mem::take(&mut self.flash_mut().dips);
        let dips = std::mem::take(&mut self.interface_mut().trouble.dips) | dips;
        if dips {
            self.dips(now_ns);
        }
        dips
    }

    fn bus_moves(&mut self, bus: &BusState, now_ns: u64) {
        self.settle(now_ns);
        let was = std::mem::replace(&mut self.interface_mut().bus, *bus);
        if !bus.powered {
            if was.powered {
                self.lose_cache(now_ns);
                self.supply_goes(now_ns);
            }
            return;
        }
        if !was.powered {
            let faults = self.flash_mut().faults.clone();
            self.interface_mut().trouble.power_up(&faults);
            self.power_on(now_ns);
        }
        self.interface_mut().power.clock(bus.clock_hz > 0, now_ns);
        self.bus_moved(&was, now_ns);
    }

    fn hears(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.settle(now_ns);
        let mode = self.mode();
        let deaf = self.hears_nothing(now_ns);
        let interface = self.interface_mut();
        if deaf
            || interface.trouble.locked_up
            || interface.state == State::Ina
            || !mode.hears(&interface.bus)
            || !interface.power.awake(&interface.bus, now_ns)
        {
            return Reply::SILENT;
        }
        let mut reply = self.execute(index, arg, now_ns);
        // CMD7 may select a card whose busy began before; no fault strikes that busy again.
        if index != 7
            && let Some(until_ns) = reply.busy_until_ns.filter(|&until_ns| until_ns > now_ns)
        {
            reply.busy_until_ns = self.busy_begins(until_ns);
        }
        if self.due_dip(now_ns) {
            reply.busy_until_ns = None;
        }
        // The host ignores the response to a tuning command and uses only the block.
        if index != Self::TUNING && !mode.is_heard(&self.interface().bus) {
            reply.answer = None;
        }
        reply
    }

    fn takes(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        if self.interface().trouble.locked_up {
            return WriteBlock { status: None, busy_until_ns: now_ns };
        }
        let mut taken = self.take_block(data, crc_ok, now_ns);
        if taken.status == Some(true) && taken.busy_until_ns > now_ns {
            taken.busy_until_ns = self.busy_begins(taken.busy_until_ns).unwrap_or(now_ns);
        }
        if self.due_dip(now_ns) {
            taken.busy_until_ns = now_ns;
        }
        taken
    }
}
