//! Relayed exchanges: the program makes and checks the frames itself. The stack transfers them, and
//! knows no key.
//!
//! Like any other exchange with the area, a relayed exchange is never repeated. After an error it
//! is not known whether the card has executed it. Only the program can find out, by the write
//! counter.

use super::frame::FRAME_BYTES;
use super::{Rpmb, RpmbError, with_frames};
use crate::engine::Error;
use crate::task::Platform;

/// The steps of a relayed RPMB exchange, in their order: how many frames (of 512 bytes) the host
/// writes to the device, and how many it reads back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relay {
    /// Number of frames that are sent to the card before any frame is read back.
    pub out: u16,
    /// Whether the host sends the frames of [`out`](Self::out) as a reliable write. Frames that
    /// write data or the key need that [eMMC 6.6.22.4].
    pub reliable: bool,
    /// Whether the host then sends one more frame, in a write of its own: the request READ_RESULT,
    /// to which the card answers with the result.
    pub ask: bool,
    /// Number of frames that are read from the card after all frames were sent.
    pub back: u16,
}

impl Relay {
    /// Returns the number of frames that the host writes to the device.
    fn sent(&self) -> usize {
        usize::from(self.out) + usize::from(self.ask)
    }

    /// Returns the length of all frames together, in bytes.
    pub fn bytes(&self) -> usize {
        (self.sent() + usize::from(self.back)) * FRAME_BYTES
    }
}

impl<B: Platform, const N: usize> Rpmb<'_, B, N> {
    /// Executes an exchange for a program that has the key itself. `frames` has all frames of the
    /// exchange. The call sends the first ones ([`out`](Relay::out), then the one for
    /// [`ask`](Relay::ask)), and stores the card's response in the last ones
    /// ([`back`](Relay::back)).
    ///
    /// # Errors
    /// [`Error::Buffer`]: `frames` is not exactly [`bytes`](Relay::bytes) long, or the handle's
    /// buffer is shorter than that. [`Error::Unsupported`]: the exchange has no frames, or more
    /// than one transfer of the host can have. After any other error the card may have executed the
    /// exchange.
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
