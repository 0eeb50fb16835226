//! The command queue of an eMMC [eMMC 6.6.39].

use super::link::Queued;
use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{DmaBuf, Error};
use crate::spec::command::emmc;
use crate::spec::ext_csd::ExtCsd;
use crate::task::{Platform, Stack};

/// EXT_CSD_REV of eMMC version 5.1, the first with a command queue.
const REV_5_1: u8 = 8;

/// Enables the command queue of this eMMC for reads and writes (for an SD card, call
/// [`enable_sd_task_queue`](super::enable_sd_task_queue)). Call it once after each bring-up. The
/// stack's profile must be one that uses a card's queue ([`Queued`](crate::sched::Queued)). Returns
/// the number of tasks that the card's queue can hold. 0 means that the queue is not used, and
/// requests work as without it: the card has no queue, its queue holds fewer than two tasks, or the
/// profile uses no queue. [`Engine::task_stats`](crate::engine::Engine::task_stats) counts the
/// tasks. `scratch` ([`SCRATCH_BYTES`](super::SCRATCH_BYTES) bytes) is returned.
///
/// After failures the engine may have stopped using the queue of this card. Then a call enables the
/// queue again.
///
/// # Errors
/// An error is returned if EXT_CSD cannot be read. [`Error::Changed`]: `card` is no longer in the
/// slot.
pub async fn enable_task_queue<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
) -> (Result<u8, Error>, DmaBuf) {
    let mut session = Session::with(stack, scratch, card);
    let depth = match card.family {
        Family::Emmc(_) => depth(&mut session).await,
        Family::Sd(_) => Ok(0),
    };
    let result = depth.map_err(|Failed| session.error);
    let result = result.and_then(|depth| {
        stack.with(|engine| {
            if !engine.is_meant(session.card) {
                return Err(Error::Changed);
            }
            Ok(if engine.set_task_queue(depth) { depth } else { 0 })
        })
    });
    (result, session.into_scratch())
}

/// Returns how many tasks the card's queue can hold; 0 if the card has no queue, or is older than
/// eMMC 5.1.
async fn depth<B: Platform, const N: usize>(session: &mut Queued<'_, B, N>) -> Result<u8, Failed> {
    session.register(emmc::send_ext_csd(), false, 512).await?;
    let found = ExtCsd::parse(session.bytes()?).map(|ext| {
        let has = ext.ext_csd_rev() >= REV_5_1 && ext.cmdq_support() & 1 != 0;
        if has { (ext.cmdq_depth_less_1() & 0x1f) + 1 } else { 0 }
    });
    session.parsed(found)
}
