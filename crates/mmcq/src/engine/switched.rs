//! What was switched on after bring-up, and an initialisation of the card switches off: the one
//! list of it. Each entry is restored by the supervisor before it gives the card back, or disarmed
//! here.
//!
//! - *The cache of an SD card.* The supervisor restores it, and says so by `CardParams::flush`.
//!   Otherwise flushes are those of a card without a cache.
//! - *What tells of packs that fail.* The supervisor restores it, and says so by
//!   [`Engine::restore_packs`]. Otherwise there are no packs.
//! - *A card's command queue.* The engine switches it on before the next task. Without its cache the
//!   queue of an SD card is not used.

use super::{Engine, FlushBy};
use crate::host::{Direction, Host};
use crate::sched::Profile;
use crate::sched::packs::Packs;

/// The functions of a card that are on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwitchedOn {
    /// The cache of an SD card, and how it is flushed.
    pub cache: Option<FlushBy>,
    /// The card tells of packs that fail.
    pub packs: bool,
}

impl SwitchedOn {
    pub const NOTHING: SwitchedOn = SwitchedOn { cache: None, packs: false };
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Returns what is to be restored after an initialisation.
    pub(crate) fn switched_on(&self) -> SwitchedOn {
        let flush = self.card.target().as_ref().map(|target| target.flush);
        let used = |packs: &Packs| {
            [Direction::Read, Direction::Write].iter().any(|&direction| packs.most(direction) > 0)
        };
        SwitchedOn {
            cache: flush.filter(|flush| matches!(flush, FlushBy::SdCache { .. })),
            packs: self.lane.packs().is_some_and(used),
        }
    }

    /// Restores packs after an initialisation, where the card was told to show those that fail.
    pub(crate) fn restore_packs(&mut self, told: bool) {
        if let Some(packs) = self.lane.packs_mut() {
            packs.restore(told);
        }
    }

    /// The card was initialised: what was not restored is not used any more.
    #[cold]
    pub(super) fn disarm_unrestored(&mut self) {
        if let Some(packs) = self.lane.packs_mut() {
            packs.begin_anew();
        }
        self.close_fast();
    }
}
