//! The tests' host without open transfers.

use crate::support::TestHost;
use mmcq::host::{BusOp, Caps, Direction, DmaError, Events, Host, Phase, Segment, StartError, Step};

/// The tests' host, which by its type never continues a transfer, so that the engine has its fast
/// path.
pub struct Closed(pub TestHost);

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.
unsafe impl Host for Closed {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }
    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        self.0.map(segment, direction)
    }
    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        self.0.unmap(segment, direction);
    }
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.0.start(phase, segments, timeout_ns)
    }
    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.0.ack(segments)
    }
    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.0.set_bus(op, first, now_ns)
    }
    fn dat0_busy(&self) -> bool {
        self.0.dat0_busy()
    }
    fn present(&self) -> bool {
        self.0.present()
    }
}
