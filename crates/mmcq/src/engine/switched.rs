//! Features of a card that were switched on after bring-up and that an initialisation of the card
//! switches off. This file has the only list of these features. The supervisor restores each
//! feature before it returns the card to the engine; a feature that is not restored is not used any
//! more.
//!
//! - *The cache of an SD card.* The supervisor restores it, and reports that by
//!   `CardParams::flush`. Otherwise flushes are those of a card without a cache.
//! - *The report of failed packs* (packed commands of an eMMC). The supervisor restores it, and
//!   reports that by [`Engine::restore_packs`](super::Engine::restore_packs). Otherwise no packs are used.
//! - *A card's command queue.* The engine switches it on before the next task. Without its cache
//!   the queue of an SD card is not used.

use super::FlushBy;
use super::blockers::Blockers;
use super::card::Card;
use super::lane::Lane;
use super::supervisor::Supervisor;
use crate::host::{Direction, Host, Timing, Width};
use crate::sched::packs::Packs;
use crate::sched::{Lanes, Profile};

/// The features of a card that were switched on after its bring-up, and its bus mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwitchedOn {
    /// The cache of an SD card, and how it is flushed.
    pub cache: Option<FlushBy>,
    /// Whether the card was set to report packed commands that fail.
    pub packs: bool,
    /// The bus mode that the card got when it was initialised again; `None`: it still has the mode
    /// of its bring-up.
    pub mode: Option<Mode>,
}

/// Timing, width and clock in hertz of a card.
pub(crate) type Mode = (Timing, Width, u32);

impl SwitchedOn {
    pub const NOTHING: SwitchedOn = SwitchedOn { cache: None, packs: false, mode: None };

    /// Returns which features of this card have to be restored after an initialisation.
    pub(super) fn of<E, T: Lanes>(card: &Card, lane: &Lane<E, T>, supervisor: &Supervisor) -> SwitchedOn {
        let flush = card.target().as_ref().map(|target| target.flush);
        let used = |packs: &Packs| {
            [Direction::Read, Direction::Write].iter().any(|&direction| packs.most(direction) > 0)
        };
        SwitchedOn {
            cache: flush.filter(|flush| matches!(flush, FlushBy::SdCache { .. })),
            packs: lane.packs().is_some_and(used),
            mode: supervisor.upkeep().mode(),
        }
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Stops the use of packed commands after an initialisation of the card, unless the card was
    /// set again to report those that fail. Also closes the fast path.
    #[cold]
    pub fn disarm_unrestored<H: Host, P: Profile>(&mut self, blockers: &mut Blockers<H, P>) {
        if let Some(packs) = self.packs_mut() {
            packs.begin_anew();
        }
        blockers.close_fast();
    }
}
