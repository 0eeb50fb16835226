//! The supervisor as a task of an executor.

use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::DmaBuf;
use mmcq::task::{Platform, Stack};

/// Supervises a card by [`mmcq::card::supervise`] with `options`, and then the cards that are
/// inserted later. Run this call in a task of its own when bring-up has ended. The call passes each
/// event to `heard`.
///
/// Without a supervisor the engine tries a failed transfer again. But nothing initialises a card
/// that lost its state, tunes it again, or brings up a new card. `scratch` is the memory that
/// bring-up has returned; this call returns it when the supervisor was
/// [dismissed](mmcq::engine::Engine::dismiss_supervisor). For a slot that accepts only one family
/// of cards, write the same loop with [`supervise_sd`](card::supervise_sd) or
/// [`supervise_emmc`](card::supervise_emmc), which needs less code.
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
            // The card was removed, or did not come up: wait for the next one.
            _ => {}
        }
    }
}
