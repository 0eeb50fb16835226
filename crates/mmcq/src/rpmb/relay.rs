//! Frames of a program that makes and checks them itself: the stack carries them, and knows no key.
//!
//! A relayed exchange is sent once, like any other exchange with the area. After an error it is not
//! known whether the card has carried it out; only the program can find out, by the counter.

use super::frame::FRAME_BYTES;
use super::{Rpmb, RpmbError, with_frames};
use crate::engine::Error;
use crate::task::Platform;

/// The frames of a relayed exchange: how many, in the order of the exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relay {
    /// Number of frames that are sent first.
    pub out: u16,
    /// Whether those frames are a reliable write: writes of data and of the key are
    /// [eMMC 6.6.22.4].
    pub reliable: bool,
    /// Whether one more frame is sent, in a write of its own: the request for the result.
    pub ask: bool,
    /// Number of frames that are read last.
    pub back: u16,
}

impl Relay {
    /// Returns the number of frames that are sent.
    fn sent(&self) -> usize {
        usize::from(self.out) + usize::from(self.ask)
    }

    /// Returns the bytes of all frames.
    pub fn bytes(&self) -> usize {
        (self.sent() + usize::from(self.back)) * FRAME_BYTES
    }
}

impl<B: Platform, const N: usize> Rpmb<'_, B, N> {
    /// Sends the frames of a program that has the key itself, and replaces those of `frames` that
    /// are read by the card's.
    ///
    /// # Errors
    /// [`Error::Buffer`]: `frames`, or the handle's buffer, has not the exchange's bytes.
    /// [`Error::Unsupported`]: the exchange is empty, or longer than one transfer of the host. After
    /// any other error the card may have carried the exchange out.
    pub async fn relay(&mut self, relay: Relay, frames: &mut [u8]) -> Result<(), RpmbError> {
        let (needed, sent) = (relay.bytes(), relay.sent() * FRAME_BYTES);
        if needed == 0 || relay.out.max(relay.back) > self.read_units {
            return Err(RpmbError::Card(Error::Unsupported));
        }
        let mut buf = self.buf()?;
        let given = (buf.len_bytes() as usize).min(frames.len());
        if given < needed || frames.len() != needed {
            self.buf = Some(buf);
            return Err(RpmbError::Card(Error::Buffer { needed: needed as u32, given: given as u32 }));
        }
        let (out, back) = frames.split_at_mut(sent);
        with_frames(&mut buf, |to| {
            for (to, from) in to.as_flattened_mut().iter_mut().zip(&*out) {
                *to = *from;
            }
        });
        self.exchange(buf, relay, |from| {
            for (to, from) in back.iter_mut().zip(from.as_flattened().iter().skip(sent)) {
                *to = *from;
            }
        })
        .await
        .map_err(RpmbError::Card)
    }
}
