//! The supervisor as a task.

use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::DmaBuf;
use mmcq::task::{Platform, Stack};

/// Supervises a card ([`mmcq::card::supervise`]), and those that come after it, with `options`: run
/// it in a task of its own as soon as bring-up is done. Calls `heard` with each event.
///
/// Without it a transfer that fails is tried again, but nothing initialises a card that lost its
/// state, tunes it again, or brings up a new card. `scratch` is the memory that bring-up gave back;
/// it comes back when the supervisor was [dismissed](mmcq::engine::Engine::dismiss_supervisor). For
/// a slot that only takes one family of cards, the same loop around
/// [`supervise_sd`](card::supervise_sd) or [`supervise_emmc`](card::supervise_emmc) is smaller.
pub async fn supervise<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    mut scratch: DmaBuf,
    options: Options,
    mut card: Card,
    mut heard: impl FnMut(&Event),
) -> DmaBuf {
    loop {
        let (event, back) = card::supervise(stack, scratch, options, card).await;
        scratch = back;
        heard(&event);
        match event {
            Event::Inserted(Ok(now)) | Event::Changed(now) | Event::Exception { card: now, .. } => card = now,
            Event::Dismissed => return scratch,
            // `Removed`, or a card that does not come up: the next one is waited for.
            _ => {}
        }
    }
}
