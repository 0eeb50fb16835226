//! The engine's half of the connection to an `sdio::MmcBus`: a host whose phases a task carries
//! out.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::command::known;
use super::{Inner, Job, Mailbox};
use core::ops::Deref;
use core::task::Waker;
use mmcq::engine::BLOCK_BYTES;
use mmcq::host::{
    Auto, BlockSizes, BusOp, Caps, Direction, DmaError, Events, Host, Phase, Segment, StartError, Step,
    Timing, Width,
};
use sdio::{BusWidth, MmcBus, MmcError};

/// Interval in ns at which the engine asks whether a bus operation has ended.
const ASK_NS: u64 = 100_000;
/// Longest time of a bus operation, in nanoseconds.
const GIVE_UP_NS: u64 = 2_000_000_000;
/// Clock of identification, in hertz.
const IDENTIFY_HZ: u32 = 400_000;
/// Clock in hertz above which a card needs more than default speed.
const DEFAULT_HZ: u32 = 26_000_000;
const SEGMENTS: u16 = 64;

/// A [`Host`] whose phases a [`Runner`](super::Runner) carries out on an `sdio::MmcBus`.
///
/// The [`Caps`] of this host reflect the limits of such a bus. The bus has no automatic CMD23 or
/// CMD12, no power switch, no card detection and no open transfers. The bus has no 1.8 V on the
/// signal lines, so no tuning and nothing faster than high speed. The bus does not show the level
/// of DAT0, so the engine polls for the end of busy by CMD13. Block lengths are powers of two.
///
/// Starting a phase wakes the runner's task. The stack wakes it after its lock is released, so a
/// waker may call the stack. The lock must allow a critical section inside of it:
/// [`CriticalSection`](crate::CriticalSection).
#[derive(Debug)]
pub struct BusHost<'m, 'b> {
    mailbox: &'m Mailbox<'b>,
    caps: Caps,
    width: Width,
    clock_hz: u32,
    /// The command in progress; at its end the host copies the data that were read.
    phase: Option<Phase>,
    give_up_ns: u64,
    /// Whether the runner has work, and was not woken for it yet.
    wakes: bool,
}

impl<'m, 'b> BusHost<'m, 'b> {
    pub(super) fn new<B: MmcBus>(
        mailbox: &'m Mailbox<'b>,
        bus: &B,
        buffer_bytes: usize,
    ) -> Result<Self, MmcError> {
        let bytes = u32::try_from(buffer_bytes).unwrap_or(u32::MAX);
        if bytes < BLOCK_BYTES {
            return Err(MmcError::BlockSize);
        }
        let hz = bus.supports_frequency();
        let mut timings = Caps::timing_bit(Timing::Legacy);
        if hz > DEFAULT_HZ {
            timings |= Caps::timing_bit(Timing::HighSpeed);
        }
        let caps = Caps::NONE
            .no_count(false)
            .max_busy_ns(GIVE_UP_NS)
            .max_segments(SEGMENTS)
            .max_segment_bytes(bytes)
            .max_block_bytes(2048)
            .block_sizes(BlockSizes::PowersOfTwoOrBytes)
            .max_blocks(bytes / BLOCK_BYTES)
            .max_bytes(bytes)
            .clock_hz((IDENTIFY_HZ.min(hz), hz))
            .width(match bus.supports_bus_width() {
                BusWidth::W1 => Width::W1,
                BusWidth::W4 => Width::W4,
                BusWidth::W8 => Width::W8,
            })
            .timings(timings)
            .fixed(true);
        Ok(BusHost { mailbox, caps, width: Width::W1, clock_hz: 0, phase: None, give_up_ns: 0, wakes: false })
    }

    /// Requests a bus operation from the runner (`first`), or returns the progress of the operation
    /// that an earlier call has requested.
    fn step(&mut self, job: Job, first: bool, now_ns: u64) -> Step {
        if first {
            self.give_up_ns = now_ns.saturating_add(GIVE_UP_NS);
            self.mailbox.with(|inner| (inner.job, inner.result) = (Some(job), None));
            self.wakes = true;
        }
        match self.mailbox.with(|inner| inner.result.take()) {
            Some(Ok(_)) => Step::Done,
            Some(Err(_)) => Step::Failed,
            None if now_ns >= self.give_up_ns => {
                self.mailbox.with(Inner::forget);
                self.wakes = true;
                Step::Failed
            }
            None => Step::Wait(now_ns.saturating_add(ASK_NS)),
        }
    }

    /// Aborts the runner's work, and waits until the runner has dropped it. `first`: this call
    /// begins the abort; later calls only return its progress.
    fn reset(&mut self, first: bool, now_ns: u64) -> Step {
        if first {
            self.give_up_ns = now_ns.saturating_add(GIVE_UP_NS);
            self.phase = None;
        }
        let running = self.mailbox.with(|inner| {
            inner.forget();
            inner.running
        });
        if !running {
            return Step::Done;
        }
        self.wakes = true;
        if now_ns >= self.give_up_ns { Step::Failed } else { Step::Wait(now_ns.saturating_add(ASK_NS)) }
    }
}

impl Drop for BusHost<'_, '_> {
    fn drop(&mut self) {
        self.mailbox.with(|inner| {
            inner.forget();
            inner.halves = inner.halves.saturating_sub(1);
        });
        // Wake the runner, so that it drops the work in progress.
        self.mailbox.wake();
    }
}

// SAFETY: the host uses no DMA. It copies data in `start`, and in the `ack` that reports the end,
// between a segment and the mailbox's own buffer, no further than either reaches.

unsafe impl Host for BusHost<'_, '_> {
    const CARD_IRQ: bool = true;
    const WAKES: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        segment.set_bus(0);
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {}

    fn start(&mut self, phase: &Phase, segments: &[Segment], _: u64) -> Result<(), StartError> {
        if phase.auto != Auto::None || phase.tuning || !known(phase) {
            return Err(StartError::Unsupported);
        }
        self.mailbox.with(|inner| {
            if inner.running || inner.job.is_some() {
                return Err(StartError::CommandLine);
            }
            if let Some(data) = phase.data {
                let bytes = u64::from(data.block_size) * u64::from(data.blocks);
                let buffer = inner.buffer.as_deref_mut().ok_or(StartError::DataLine)?;
                if bytes > buffer.len() as u64 {
                    return Err(StartError::Unsupported);
                }
                inner.filled = bytes as usize;
                if data.direction == Direction::Write {
                    gather(&mut buffer[..], segments);
                }
            }
            (inner.job, inner.result, inner.abort) = (Some(Job::Phase(*phase)), None, false);
            Ok(())
        })?;
        self.phase = Some(*phase);
        self.wakes = true;
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let phase = self.phase;
        let (result, card_irq) = self.mailbox.with(|inner| {
            let card_irq = core::mem::take(&mut inner.card_irq);
            // Results of bus operations are handled by `step`.
            let result = if phase.is_some() { inner.result.take() } else { None };
            if let (Some(Ok(_)), Some(data)) = (&result, phase.and_then(|phase| phase.data))
                && data.direction == Direction::Read
                && let Some(buffer) = &inner.buffer
            {
                let bytes = usize::from(data.block_size).saturating_mul(data.blocks as usize);
                scatter(buffer.deref().get(..bytes).unwrap_or_default(), segments);
            }
            if result.is_some() {
                inner.wipe();
            }
            (result, card_irq)
        });
        if result.is_some() {
            self.phase = None;
        }
        Events { phase: result, card_irq, ..Events::default() }
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        match op {
            BusOp::PowerOn => {
                // `init_idle` leaves one data line at its own clock. So forget the earlier clock,
                // which must not be set again together with the width.
                (self.width, self.clock_hz) = (Width::W1, 0);
                self.step(Job::Init, first, now_ns)
            }
            BusOp::Clock(0) => Step::Done,
            BusOp::Clock(hz) => {
                self.clock_hz = hz;
                self.step(Job::Set(self.width, hz), first, now_ns)
            }
            BusOp::Width(width) => {
                self.width = width;
                match self.clock_hz {
                    0 => Step::Done,
                    hz => self.step(Job::Set(width, hz), first, now_ns),
                }
            }
            BusOp::ResetLines | BusOp::ResetAll => self.reset(first, now_ns),
            // The clock implies these settings, or the bus cannot make them.
            BusOp::PowerOff | BusOp::Timing(_) | BusOp::Signal18(false) | BusOp::TuneAbort => Step::Done,
            BusOp::Signal18(true) | BusOp::TuneStart => Step::Failed,
        }
    }

    fn dat0_busy(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        true
    }

    fn card_irq(&mut self, on: bool) {
        self.mailbox.with(|inner| inner.card_irq_on = on);
        self.wakes = true;
    }

    fn take_waker(&mut self) -> Option<Waker> {
        if core::mem::take(&mut self.wakes) { self.mailbox.take_waker() } else { None }
    }
}

/// Copies the data of the segments into `into`.
fn gather(mut into: &mut [u8], segments: &[Segment]) {
    for segment in segments {
        let bytes = into.len().min(segment.len_bytes() as usize);
        let (now, later) = into.split_at_mut(bytes);
        // SAFETY: between `map` and `unmap` the driver may access the `len` bytes at `ptr`
        // (contract of `Segment`); `now` is other memory.
        unsafe { now.as_mut_ptr().copy_from_nonoverlapping(segment.ptr().as_ptr(), bytes) };
        into = later;
    }
}

/// Copies the data in `from` into the segments.
fn scatter(mut from: &[u8], segments: &[Segment]) {
    for segment in segments {
        let bytes = from.len().min(segment.len_bytes() as usize);
        let (now, later) = from.split_at(bytes);
        // SAFETY: between `map` and `unmap` the driver may access the `len` bytes at `ptr`; `now`
        // is other memory.
        unsafe { segment.ptr().as_ptr().copy_from_nonoverlapping(now.as_ptr(), bytes) };
        from = later;
    }
}
