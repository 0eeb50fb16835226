//! Values for code that waits: the phase that the controller has, the bus settings, the time of the
//! last phase.

use super::Engine;
use super::bus::Span;
use super::phases::Stage;
use crate::host::{Host, Phase};
use crate::sched::Profile;
use crate::spec::bus::Bus;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Returns the phase that the controller is working on. `None`: the controller has no phase, or
    /// reports no event at its end.
    pub fn awaited(&self) -> Option<&Phase> {
        let has = match self.lane.stage() {
            Stage::Prefix | Stage::Address | Stage::Count | Stage::Main | Stage::Stop | Stage::Close => true,
            Stage::BusyStatus | Stage::Status | Stage::Flush | Stage::FlushStatus | Stage::Extra => true,
            Stage::Idle | Stage::BusyPause | Stage::Bus | Stage::Pause | Stage::Recover(_) => false,
        };
        (has && !self.bus.is_blocked()).then_some(self.bus.phase())
    }

    /// Returns the last phase that ended, with its times.
    pub fn last_phase(&self) -> Option<Span> {
        self.bus.last()
    }

    /// Returns the bus as it was set last. The clock is the requested one; the driver may have
    /// rounded it down.
    pub fn bus(&self) -> Bus {
        self.bus.wire().as_set()
    }
}
