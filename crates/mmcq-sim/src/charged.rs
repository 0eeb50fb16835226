//! Execution time of driver code: a wrapper around a [`Host`] that charges virtual time for each
//! call.
//!
//! A driver can be a model of another stack's driver: then the costs are the measured costs of that
//! stack. For a driver of mmcq the costs follow from its measured number of instructions. Register
//! accesses are charged by the port ([`Port`](crate::port::Port)), and not by this wrapper.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::time::Time;
use mmcq::host::{
    ChainCaps, ChainError, ChainEvents, ChainHost, CommandQueueHost, Direction, DmaError, Events, FastEnd,
    Host, Phase, Segment, StartError,
};
use mmcq::spec::command::Command;

/// Virtual times in ns that calls of the driver take. The time of a call passes before the call
/// does its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCosts {
    /// Cost in ns of a call that starts a command with data, or that adds such a command to a chain
    /// of commands.
    pub start_data_ns: u64,
    /// Cost in ns of a call that starts a command without data.
    pub start_command_ns: u64,
    /// Cost in ns of handling an interrupt, from the rise of the interrupt line until the driver
    /// has read and cleared the controller's status.
    pub ack_ns: u64,
    /// Cost in ns of mapping a segment of memory for DMA.
    pub map_ns: u64,
    /// Cost in ns of unmapping a segment of memory.
    pub unmap_ns: u64,
    /// Cost in ns of a call that asks the driver for its command queue engine, before each use of
    /// the engine.
    pub queue_ns: u64,
}

/// A driver whose calls take virtual time.
pub struct Charged<H> {
    inner: H,
    time: Time,
    /// Virtual time that each call of the driver takes; a change is valid from the next call on.
    pub costs: CallCosts,
}

impl<H> Charged<H> {
    /// Wraps a driver; `time` is the clock that its calls advance.
    pub fn new(inner: H, time: Time, costs: CallCosts) -> Self {
        Charged { inner, time, costs }
    }

    /// Returns the wrapped driver, for code that only reads its state.
    pub fn inner(&self) -> &H {
        &self.inner
    }

    /// Returns the wrapped driver, to change it or to call it without adding the CPU time of the
    /// call to the virtual time.
    pub fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }
}

// SAFETY: all calls go to the driver inside, in the same order and with the same segments.

unsafe impl<H: Host> Host for Charged<H> {
    mmcq::forward_host!(const H);
    mmcq::forward_host!(self.inner => caps goes_on_with is_prompt ack_concurrent abort_concurrent interrupt_lost
        command_hangs set_bus isolate dat0_busy dat_levels present retune_ns supply_ma
        write_protected take_waker card_irq);

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        self.time.charge(self.costs.map_ns);
        self.inner.map(segment, direction)
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        self.time.charge(self.costs.unmap_ns);
        self.inner.unmap(segment, direction);
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let data = phase.data.is_some();
        self.time.charge(if data { self.costs.start_data_ns } else { self.costs.start_command_ns });
        self.inner.start(phase, segments, timeout_ns)
    }

    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let data = phase.data.is_some();
        self.time.charge(if data { self.costs.start_data_ns } else { self.costs.start_command_ns });
        self.inner.start_fast(phase, segments, timeout_ns)
    }

    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        self.time.charge(self.costs.start_command_ns);
        self.inner.start_concurrent(command)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.time.charge(self.costs.ack_ns);
        self.inner.ack(segments)
    }

    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        self.time.charge(self.costs.ack_ns);
        self.inner.ack_fast(segments)
    }

    fn early_r1(&mut self) -> Option<u32> {
        self.time.charge(self.costs.ack_ns);
        self.inner.early_r1()
    }

    fn queue(&mut self) -> Option<&mut dyn CommandQueueHost> {
        self.time.charge(self.costs.queue_ns);
        self.inner.queue()
    }

    fn chain(&mut self) -> Option<&mut dyn ChainHost> {
        if self.inner.chain().is_some() { Some(self) } else { None }
    }
}

// SAFETY: all calls go to the driver inside. If it executes no chains, nothing is described and
// nothing starts.
unsafe impl<H: Host> ChainHost for Charged<H> {
    fn chain_caps(&mut self) -> Result<ChainCaps, ChainError> {
        self.inner.chain().map_or(Err(ChainError::Transfer), |chain| chain.chain_caps())
    }

    fn begin_chain(&mut self) -> bool {
        self.inner.chain().is_some_and(|chain| chain.begin_chain())
    }

    fn describe_transfer(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        // Describing a transfer costs as much as starting it.
        self.time.charge(self.costs.start_data_ns);
        self.inner
            .chain()
            .map_or(Err(StartError::Unsupported), |chain| chain.describe_transfer(phase, segments))
    }

    fn start_chain(&mut self, timeout_ns: u64) -> Result<(), StartError> {
        self.inner.chain().map_or(Err(StartError::Unsupported), |chain| chain.start_chain(timeout_ns))
    }

    fn ack_chain(&mut self) -> ChainEvents {
        self.time.charge(self.costs.ack_ns);
        self.inner.chain().map_or_else(ChainEvents::default, |chain| chain.ack_chain())
    }

    fn passed(&mut self) -> Option<u8> {
        self.inner.chain().and_then(|chain| chain.passed())
    }
}
