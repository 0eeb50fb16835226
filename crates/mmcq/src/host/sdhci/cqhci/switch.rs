//! Switches the command queue engine on and off, halts it, and clears its tasks.

use super::super::events::OF_PHASE;
use super::super::regs::*;
use super::super::{Shadow, UNKNOWN_NS};
use super::regs::*;
use super::{At, Cqhci, CqhciQuirks, Slots};
use crate::host::{Coalescing, Dma, QueueError, QueueEvents, QueueSettings, Regs};

/// Largest number of words that are read to empty the controller's buffer after a tuning.
const BUFFER_WORDS: u32 = 1024;
const BLOCK_BYTES: u16 = 512;

/// Returns the time `ns` in clocks of frequency `hz`, rounded up.
fn clocks(ns: u64, hz: u32) -> u64 {
    ns.saturating_mul(hz.into()).div_ceil(1_000_000_000)
}

/// Returns the value of the interrupt coalescing register IC; `None` switches coalescing off. `hz`:
/// the engine's timer clock.
fn coalescing(settings: Option<Coalescing>, hz: u32) -> u32 {
    let Some(Coalescing { tasks, wait_ns }) = settings else {
        // Threshold and timeout are both written as 0, which switches coalescing off.
        return IC_RESET | IC_TASKS_WRITE | IC_TIME_WRITE;
    };
    let steps = clocks(wait_ns, hz).div_ceil(IC_TIME_CLOCKS).clamp(1, IC_TIME_MAX) as u32;
    let tasks = u32::from(tasks.clamp(1, 31));
    IC_ENABLE | IC_RESET | IC_TASKS_WRITE | tasks << IC_TASKS_SHIFT | IC_TIME_WRITE | steps
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> Cqhci<R, D, DESCRIPTORS, PIECES> {
    pub(super) fn switch_on(&mut self, settings: &QueueSettings) -> Result<(), QueueError> {
        let caps = self.caps?;
        if self.at != At::Off {
            return Err(QueueError::State);
        }
        self.check_lines()?;
        self.slots = Slots::default();
        self.coalesces = settings.coalescing.is_some();
        self.timeout_ns = settings.timeout_ns;
        let direct = if caps.direct.is_some() { CFG_DIRECT } else { 0 };
        let config = if caps.wide { CFG_WIDE } else { 0 } | direct;
        // Written each time: some engines forget these registers when they are switched on or off.
        self.write(CFG, config);
        let list = self.list_bus.wrapping_add(self.form.offset as u64);
        self.write(TDLBA, list as u32);
        self.write(TDLBAU, (list >> 32) as u32);
        let clocks = clocks(settings.poll_ns, caps.timer_hz).clamp(1, SSC1_CLOCKS_MAX) as u32;
        let beside = !self.config.quirks.has(CqhciQuirks::NO_POLL_BESIDE);
        let blocks = if beside { u32::from(settings.poll_blocks.min(15)) } else { 0 };
        let polling = blocks << SSC1_BLOCKS_SHIFT | clocks;
        self.write(SSC1, polling);
        self.write(SSC2, settings.rca.into());
        self.write(RMEM, settings.r1_errors);
        self.write(IC, coalescing(settings.coalescing, caps.timer_hz));
        self.forget_events();
        self.write(ISTE, INT_HALT | INT_DONE | INT_RESPONSE | INT_CLEARED);
        self.write(ISGE, INT_DONE | INT_RESPONSE);
        self.take_lines();
        self.at = At::On;
        self.write(CFG, config | CFG_ENABLE);
        let seen = self.read(CFG);
        if seen != config | CFG_ENABLE {
            self.drop_tasks();
            return Err(QueueError::StaysOff(seen));
        }
        // Some engines fall back to a polling time of 8 clocks when they are switched on.
        self.write(SSC1, polling);
        // What the engine reports from before it was switched on is not trusted.
        self.slots = Slots { doubtful: u32::MAX, ..Slots::default() };
        if self.is_halted() && !self.leave_halt() {
            self.drop_tasks();
            return Err(QueueError::StaysHalted);
        }
        Ok(())
    }

    pub(super) fn switch_off(&mut self) -> Result<(), QueueError> {
        match self.at {
            At::Off => return Ok(()),
            At::On | At::Halted => {}
            _ => return Err(QueueError::State),
        }
        match self.slots.rung {
            0 => self.drop_tasks(),
            left => return Err(QueueError::Occupied(left)),
        }
        Ok(())
    }

    pub(super) fn ask_for_halt(&mut self) -> Result<(), QueueError> {
        match self.at {
            At::Halting => return Ok(()),
            At::On => {}
            _ => return Err(QueueError::State),
        }
        self.at = At::Halting;
        self.write(ISGE, INT_HALT | INT_DONE | INT_RESPONSE);
        self.write(CTL, CTL_HALT);
        Ok(())
    }

    pub(super) fn go_on(&mut self) -> Result<(), QueueError> {
        if self.at != At::Halted {
            return Err(QueueError::State);
        }
        self.check_lines()?;
        self.write(ISGE, INT_DONE | INT_RESPONSE);
        self.take_lines();
        self.at = At::On;
        if !self.leave_halt() {
            self.enter_halted();
            return Err(QueueError::StaysHalted);
        }
        Ok(())
    }

    pub(super) fn ask_for_clear(&mut self, slot: Option<u8>) -> Result<(), QueueError> {
        if self.at != At::Halted || self.host.active.is_some() {
            return Err(QueueError::State);
        }
        match slot {
            Some(slot) if slot < 32 && self.slots.rung >> slot & 1 == 1 => {
                self.at = At::Clearing(slot);
                self.write(ISGE, INT_CLEARED);
                self.route(INT_QUEUE);
                self.write(TCLR, 1 << slot);
            }
            Some(slot) => return Err(QueueError::Slot(slot)),
            None => {
                self.at = At::ClearingAll;
                self.write(ISGE, INT_CLEARED);
                self.route(INT_QUEUE);
                self.write(CTL, CTL_CLEAR_ALL | CTL_HALT);
            }
        }
        Ok(())
    }

    /// Adds the cleared tasks to `events` once the engine has cleared all requested tasks: their
    /// doorbells then read 0, whichever interrupt has come.
    pub(super) fn look_for_clear(&mut self, events: &mut QueueEvents) {
        let asked = match self.at {
            At::Clearing(slot) => 1 << slot,
            At::ClearingAll => self.slots.rung,
            _ => return,
        };
        let all = self.at == At::ClearingAll;
        if self.read(TDBR) & asked != 0 || all && self.read(CTL) & CTL_CLEAR_ALL != 0 {
            return;
        }
        events.cleared = asked;
        self.slots.rung &= !asked;
        self.slots.doubtful |= asked;
        if all {
            events.emptied = true;
            self.drop_tasks();
        } else {
            self.at = At::Halted;
            self.release_lines();
        }
    }

    pub(super) fn is_halted(&self) -> bool {
        self.read(CTL) & CTL_HALT != 0
    }

    fn leave_halt(&self) -> bool {
        self.write(CTL, 0);
        !self.is_halted()
    }

    /// Gives the lines back to the SD controller after the requested halt.
    pub(super) fn enter_halted(&mut self) {
        self.at = At::Halted;
        self.write(ISGE, 0);
        self.release_lines();
    }

    /// Switches the command queue engine off, whatever it does, and forgets its tasks.
    pub(super) fn drop_tasks(&mut self) {
        self.slots = Slots::default();
        if self.at == At::Off {
            return;
        }
        self.at = At::Off;
        self.write(ISGE, 0);
        self.forget_events();
        self.write(CFG, self.read(CFG) & !CFG_ENABLE);
        self.release_lines();
    }

    pub(super) fn forget_tasks(&mut self) {
        (self.at, self.slots) = (At::Off, Slots::default());
    }

    /// Clears the events and task ends that the command queue engine has reported but the driver
    /// has not taken.
    fn forget_events(&mut self) {
        self.write(IS, INT_HALT | INT_DONE | INT_RESPONSE | INT_CLEARED);
        let stale = self.read(TCN);
        if stale != 0 {
            self.write(TCN, stale);
        }
    }

    /// Checks that no command, data or busy is in progress, and reads the controller's buffer until
    /// it is empty. Some engines hang if a tuning has left data in the buffer.
    fn check_lines(&mut self) -> Result<(), QueueError> {
        let used = PRESENT_CMD_INHIBIT | PRESENT_DAT_INHIBIT;
        let state = self.host.present_state().ok_or(QueueError::Busy)?;
        if self.host.active.is_some() || self.host.concurrent.is_some() || state & used != 0 {
            return Err(QueueError::Busy);
        }
        if state & PRESENT_BUFFER_READ == 0 {
            return Ok(());
        }
        let port = &self.host.port;
        let empty = (0..BUFFER_WORDS).any(|_| {
            port.read32(BUFFER);
            port.read32(PRESENT) & PRESENT_BUFFER_READ == 0
        });
        if empty { Ok(()) } else { Err(QueueError::Buffer) }
    }

    /// Gives the bus lines to the command queue engine. Of the SD controller's interrupts, only
    /// errors and those that do not belong to a command or its data (such as the card's interrupt)
    /// stay enabled.
    fn take_lines(&mut self) {
        let host = &mut self.host;
        host.idle = false;
        host.port.write_pair(BLOCK_SIZE, BLOCK_BYTES | BOUNDARY_512K, 0);
        // Some controllers forget the timeout when the lines pass to the engine.
        host.shadow = Shadow { timeout: None, timeout_ns: UNKNOWN_NS, fast_blocks: 0, ..host.shadow };
        host.set_timeout(self.timeout_ns);
        let mode = self.config.quirks.has(CqhciQuirks::TRANSFER_MODE);
        if mode && !self.only_32() {
            // A 16-bit write: a 32-bit write would also write the Command register and send a
            // command.
            self.host.port.write16(TRANSFER_MODE, MODE_DMA | MODE_BLOCK_COUNT | MODE_MULTI);
        }
        self.host.port.write32(INT_STATUS, OF_PHASE);
        self.route(INT_QUEUE);
    }

    /// Enables the interrupts in `more`, errors, and the events that do not belong to a command or
    /// its data (such as the card's interrupt).
    fn route(&mut self, more: u32) {
        let phases = INT_COMMAND | INT_TRANSFER | INT_DMA | INT_BUFFER_READ | INT_BUFFER_WRITE;
        let enable = self.host.shadow.enable & !phases | more;
        self.host.set_enable(enable);
        let signal = self.host.shadow.base_signal | more;
        self.host.set_signal(signal);
    }

    /// Gives the lines back to the SD controller. Some controllers latched ends of commands while
    /// the engine had the lines, so the next phase checks the lines before it starts.
    fn release_lines(&mut self) {
        self.host.idle = false;
        self.host.enable_interrupts();
        self.host.port.write32(INT_STATUS, OF_PHASE);
    }
}
