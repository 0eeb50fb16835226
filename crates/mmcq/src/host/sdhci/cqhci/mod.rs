//! CQHCI 5.10: the command queue engine for an eMMC [eMMC 5.1, B], which works with an SDHCI. In
//! these files "the engine" means the command queue engine.
//!
// Read first: `list.rs` (what the engine reads in memory), then `tasks.rs` (how a task starts),
// `events.rs` (how a task ends) and `switch.rs` (on, off, halt, clear). `config.rs` has the
// settings that a board gives.
//!
//! Engine and SD controller share bus lines, DMA and interrupt. While the engine is on, the SD
//! controller raises only error interrupts, and the driver refuses phases. While the engine is off
//! or halted, the SD controller uses everything.
//!
//! A task without other events takes five register accesses:
//!
//! - the driver writes the doorbell,
//! - clears CQIS's bit for ended tasks, without reading CQIS first,
//! - reads the ended tasks (CQTCN),
//! - reads CQIS for errors of responses,
//! - acknowledges the ended tasks.
//!
//! Any other event keeps the interrupt line asserted, and the next call handles it.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod config;
mod events;
mod list;
mod regs;
mod switch;
mod tasks;
#[cfg(test)]
mod tests;

use super::capabilities::ByCpu;
use super::config::TransferMode;
use super::{Sdhci, SdhciQuirks};
use crate::host::{
    BusOp, CommandQueueHost, Direction, Dma, DmaError, Events, FastEnd, Host, Phase, QueueCaps, QueueError,
    QueueEvents, QueueSettings, QueueState, Regs, Segment, StartError, Step, Task,
};
use crate::spec::command::Command;
pub use config::{CqhciConfig, CqhciQuirks};
use core::ptr::NonNull;
use list::Form;
pub use list::TaskList;
use regs::*;

/// The driver of an SDHCI with its command queue engine, and memory for `PIECES` transfer
/// descriptors of each task.
///
/// If the engine cannot be used ([`queue_caps`](CommandQueueHost::queue_caps) has the reason), the
/// driver works like the wrapped driver.
pub struct Cqhci<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> {
    host: Sdhci<R, D, DESCRIPTORS>,
    list: &'static mut TaskList<PIECES>,
    list_bus: u64,
    form: Form,
    config: CqhciConfig,
    caps: Result<QueueCaps, QueueError>,
    at: At,
    slots: Slots,
    coalesces: bool,
    timeout_ns: u64,
}

/// State of the command queue engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Off,
    On,
    Halting,
    Halted,
    /// The engine is halted, and the task of this slot is being cleared.
    Clearing(u8),
    /// The engine is halted, and all tasks are being cleared.
    ClearingAll,
}

/// Sets of slots, one bit for each slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    /// Slots whose task is described, but whose doorbell was not written.
    prepared: u32,
    /// Slots whose doorbell was written, and whose task is neither done nor cleared.
    rung: u32,
    /// Slots whose next reported end counts only if the slot's doorbell reads 0. The engine may
    /// still report the end of an earlier task of the slot: one that was cleared, or that was
    /// dropped when the engine was switched off.
    doubtful: u32,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> Cqhci<R, D, DESCRIPTORS, PIECES> {
    /// Joins an SDHCI driver with the command queue engine of its controller. Reads version and
    /// capabilities, and maps the list for DMA for the lifetime of the program; writes no register.
    /// Some engines respond only while the controller's internal clock runs; then the board must
    /// start that clock before this call.
    pub fn new(
        host: Sdhci<R, D, DESCRIPTORS>,
        list: &'static mut TaskList<PIECES>,
        config: CqhciConfig,
    ) -> Self {
        let wide = host.model.wide;
        let words = match wide {
            false => 2,
            true if config.quirks.has(CqhciQuirks::SHORT_DESCRIPTORS) => 3,
            true => 4,
        };
        let bounded = config.quirks.has(CqhciQuirks::BOUNDARY_128M);
        let form = Form { wide, words, chunk: host.model.form.chunk, bounded, offset: 0 };
        let caps = Err(QueueError::Transfer);
        let (at, slots) = (At::Off, Slots::default());
        let mut made =
            Cqhci { host, list, list_bus: 0, form, config, caps, at, slots, coalesces: false, timeout_ns: 0 };
        made.caps = made.look();
        made
    }

    fn look(&mut self) -> Result<QueueCaps, QueueError> {
        if self.host.model.mode != TransferMode::Adma2 {
            return Err(QueueError::Transfer);
        }
        // One segment may cross a 128 MiB boundary and needs one more descriptor. No task is long
        // enough to cross two.
        let pieces = PIECES.saturating_sub(self.form.bounded.into());
        let (segments, bytes, _) = self.host.model.scatter(pieces);
        let caps = self.config.caps(self.read(VER), self.read(CAP), self.form.wide, (segments, bytes))?;
        let bytes = TaskList::<PIECES>::BYTES;
        let place = NonNull::from(&mut *self.list).cast();
        let bus = self.host.dma.map(place, bytes, Direction::Write).map_err(QueueError::List)?;
        let end = bus.checked_add(bytes as u64);
        let within = end.is_some_and(|end| self.form.wide || end <= 1 << 32);
        let Some(offset) = TaskList::<PIECES>::offset(bus).filter(|_| within) else {
            self.host.dma.unmap(bus, place, bytes, Direction::Write);
            let why = if within { DmaError::Alignment } else { DmaError::Unreachable };
            return Err(QueueError::List(why));
        };
        (self.list_bus, self.form.offset) = (bus, offset);
        self.list.link(&self.form, bus);
        if let Some(slot) = caps.direct {
            self.list.unlink(&self.form, slot);
        }
        self.sync(0, bytes);
        Ok(caps)
    }

    /// Returns the driver of the SD controller.
    pub fn controller(&self) -> &Sdhci<R, D, DESCRIPTORS> {
        &self.host
    }

    #[inline(always)]
    fn read(&self, register: u16) -> u32 {
        self.host.port.read32(self.config.offset.wrapping_add(register))
    }

    #[inline(always)]
    fn write(&self, register: u16, value: u32) {
        self.host.port.write32(self.config.offset.wrapping_add(register), value);
    }

    /// Makes `bytes` bytes of the list, from offset `at` on, visible to the controller.
    #[inline(always)]
    fn sync(&mut self, at: usize, bytes: usize) {
        let whole: NonNull<u8> = NonNull::from(&mut *self.list).cast();
        if at <= TaskList::<PIECES>::BYTES {
            // SAFETY: `at` is inside the list, or at its end.
            let place = unsafe { whole.add(at) };
            self.host.dma.sync(self.list_bus.wrapping_add(at as u64), place, bytes);
        }
    }

    /// Returns whether the engine uses the bus lines and the controller's interrupts.
    #[inline(always)]
    fn has_lines(&self) -> bool {
        !matches!(self.at, At::Off | At::Halted)
    }

    /// Returns whether the engine's DMA can transfer this memory.
    fn by_dma(&self, segments: &[Segment]) -> bool {
        self.host.model.by_cpu == ByCpu::Never || !segments.iter().any(|segment| self.host.by_pio(segment))
    }

    /// Returns whether the controller allows only 32-bit accesses.
    fn only_32(&self) -> bool {
        self.host.config.quirks.has(SdhciQuirks::ACCESS_32BIT)
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged; no
// phase starts while the engine has the lines. A reset, and a change of the supply, switch the
// engine off before they are done, and drop its tasks. So the memory of the tasks is free when the
// wrapped driver reports its own memory as free [eMMC 5.1, B; SDHC 2.2.20].
unsafe impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> Host
    for Cqhci<R, D, DESCRIPTORS, PIECES>
{
    const CONCURRENT: bool = true;
    const CARD_IRQ: bool = true;
    const EARLY_R1: bool = true;
    const DEFERS_BY_REQUEST: bool = true;

    crate::forward_host!(self.host => caps is_prompt map unmap start_concurrent ack_concurrent
        abort_concurrent early_r1 interrupt_lost command_hangs isolate dat0_busy dat_levels present
        retune_ns supply_ma write_protected take_waker card_irq);

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.has_lines() {
            return Err(StartError::CommandLine);
        }
        self.host.start(phase, segments, timeout_ns)
    }

    #[inline(always)]
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.has_lines() {
            return Err(StartError::CommandLine);
        }
        self.host.start_fast(phase, segments, timeout_ns)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        if self.has_lines() {
            return self.take_rare_alone();
        }
        self.host.ack(segments)
    }

    #[inline(always)]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        if self.has_lines() {
            return Err(self.take_rare_alone());
        }
        self.host.ack_fast(segments)
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        let forgets = matches!(op, BusOp::ResetLines | BusOp::ResetAll | BusOp::PowerOn | BusOp::PowerOff);
        if op == BusOp::ResetLines && self.at == At::Halting {
            // The engine has not halted, perhaps because a data transfer never ends. So first the
            // reset stops the transfer, and then the engine is switched off.
            self.write(ISGE, 0);
            let step = self.host.set_bus(op, first, now_ns);
            if !matches!(step, Step::Wait(_)) {
                self.drop_tasks();
            }
            return step;
        }
        if first && forgets {
            self.drop_tasks();
        } else if self.has_lines() && !forgets {
            return Step::Failed;
        }
        self.host.set_bus(op, first, now_ns)
    }

    #[inline(always)]
    fn queue(&mut self) -> Option<&mut dyn CommandQueueHost> {
        Some(self)
    }
}

// SAFETY: descriptors come only from the segments, for no more bytes than the segments have;
// otherwise the task is refused. The descriptors of a slot are written only while its doorbell is
// clear. A slot is reported done when the engine reports its end after the doorbell was written. It
// is reported cleared when its doorbell is clear and the engine is halted, so that it moves no data
// [eMMC 5.1, B]. The list is `'static`.
unsafe impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> CommandQueueHost
    for Cqhci<R, D, DESCRIPTORS, PIECES>
{
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError> {
        self.caps.as_ref().map_err(|&why| why)
    }

    fn enable_queue(&mut self, settings: &QueueSettings) -> Result<(), QueueError> {
        self.switch_on(settings)
    }

    fn disable_queue(&mut self) -> Result<(), QueueError> {
        self.switch_off()
    }

    #[inline]
    fn prepare_task(&mut self, slot: u8, task: &Task, segments: &[Segment]) -> Result<(), QueueError> {
        self.describe_task(slot, task, segments)
    }

    fn prepare_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError> {
        self.describe_command(command, barrier)
    }

    fn withdraw(&mut self, slots: u32) {
        self.slots.prepared &= !slots;
    }

    #[inline]
    fn ring(&mut self, slots: u32) -> u32 {
        self.ring_doorbells(slots)
    }

    #[inline]
    fn ack_ends(&mut self) -> u32 {
        self.take_ends()
    }

    fn ack_queue(&mut self) -> QueueEvents {
        match self.take_ends() {
            0 => self.take_all(),
            done => QueueEvents { done, ..QueueEvents::default() },
        }
    }

    fn halt_queue(&mut self) -> Result<(), QueueError> {
        self.ask_for_halt()
    }

    fn resume_queue(&mut self) -> Result<(), QueueError> {
        self.go_on()
    }

    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError> {
        self.ask_for_clear(Some(slot))
    }

    fn clear_tasks(&mut self) -> Result<(), QueueError> {
        self.ask_for_clear(None)
    }

    fn queue_state(&self) -> QueueState {
        let [rung, done, known, ready] = [TDBR, TCN, DPT, DQS].map(|register| self.read(register));
        QueueState { rung, done, known, ready }
    }
}
