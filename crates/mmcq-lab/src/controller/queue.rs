//! Passes the calls for the command queue engine (CQHCI) on to the board's driver. In the setting
//! `linux-cqe` the queue engine polls the card at the interval of Linux's driver, and not at that
//! of mmcq's engine.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::{Driver, Kind};
use mmcq::host::{
    CommandQueueHost, QueueCaps, QueueError, QueueEvents, QueueSettings, QueueState, Segment, Task,
};
use mmcq::spec::command::Command;

impl Driver {
    fn engine(&self) -> Result<&dyn CommandQueueHost, QueueError> {
        match &self.kind {
            Kind::Queue(host) => Ok(&**host),
            _ => Err(QueueError::Unsupported),
        }
    }

    fn engine_mut(&mut self) -> Result<&mut dyn CommandQueueHost, QueueError> {
        match &mut self.kind {
            Kind::Queue(host) => Ok(&mut **host),
            _ => Err(QueueError::Unsupported),
        }
    }
}

// SAFETY: all calls go to the inner driver, in the same order and with unchanged segments. Without
// a queue engine, no descriptor is written and no doorbell is rung.
unsafe impl CommandQueueHost for Driver {
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError> {
        self.engine()?.queue_caps()
    }

    fn enable_queue(&mut self, settings: &QueueSettings) -> Result<(), QueueError> {
        let hz = self.queue_caps()?.timer_hz.max(1);
        let clocks = self.poll_clocks;
        let poll_ns = |clocks| u64::from(clocks) * 1_000_000_000 / u64::from(hz);
        let settings = settings.poll_ns(clocks.map_or(settings.poll_ns, poll_ns));
        self.engine_mut()?.enable_queue(&settings)
    }

    fn disable_queue(&mut self) -> Result<(), QueueError> {
        self.engine_mut()?.disable_queue()
    }

    fn prepare_task(&mut self, slot: u8, task: &Task, segments: &[Segment]) -> Result<(), QueueError> {
        self.engine_mut()?.prepare_task(slot, task, segments)
    }

    fn prepare_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError> {
        self.engine_mut()?.prepare_command(command, barrier)
    }

    fn withdraw(&mut self, slots: u32) {
        if let Ok(engine) = self.engine_mut() {
            engine.withdraw(slots);
        }
    }

    fn ring(&mut self, slots: u32) -> u32 {
        self.engine_mut().map_or(0, |engine| engine.ring(slots))
    }

    fn ack_queue(&mut self) -> QueueEvents {
        self.engine_mut().map_or_else(|_| QueueEvents::default(), |engine| engine.ack_queue())
    }

    fn ack_ends(&mut self) -> u32 {
        self.engine_mut().map_or(0, |engine| engine.ack_ends())
    }

    fn halt_queue(&mut self) -> Result<(), QueueError> {
        self.engine_mut()?.halt_queue()
    }

    fn resume_queue(&mut self) -> Result<(), QueueError> {
        self.engine_mut()?.resume_queue()
    }

    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError> {
        self.engine_mut()?.clear_task(slot)
    }

    fn clear_tasks(&mut self) -> Result<(), QueueError> {
        self.engine_mut()?.clear_tasks()
    }

    fn queue_state(&self) -> QueueState {
        self.engine().map_or_else(|_| QueueState::default(), |engine| engine.queue_state())
    }
}
