//! The replay-protected memory block (RPMB) of an eMMC: small data that cannot be forged or
//! replayed without the key [eMMC 6.6.22].
//!
//! Each exchange is one [`PartitionAccess`] of the partition, so no other command comes between its
//! frames. Everything in a response is checked: MAC (in constant time), nonce, counter, address,
//! kind, and result.
//!
//! A write is never repeated. If its response does not come, or fails a check, the counter is read:
//! it shows whether the write was done.

mod frame;
mod relay;

use crate::card::Card;
use crate::card::partition::{Area, Layout, layout};
use crate::engine::{self, CardNumber, Claim, DmaBuf, Irreversible, Kind, PartitionAccess, Request};
use crate::task::{Platform, Stack};
pub use frame::UNIT_BYTES;
use frame::{Ask, FRAME_BYTES, Fields, Frame};
pub use relay::Relay;

/// The key of an RPMB: 32 bytes that only card and host know.
#[derive(Clone, Copy)]
pub struct Key(pub [u8; 32]);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Why an exchange of frames with the RPMB failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RpmbError {
    /// The exchange with the card failed with this error.
    Card(engine::Error),
    /// The card refused the request. The value is its result code, 1 to 6 (general, authentication,
    /// counter, address, write, read).
    Refused(u8),
    /// No key has been programmed (result 7).
    NoKey,
    /// The write counter has reached its end: the area can only be read.
    Expired,
    /// The response does not come from the card: MAC, nonce, kind, address or counter is wrong. The
    /// card has not counted a write: its write counter has not changed.
    Forged,
    /// The write was not done, because of this error. It may be tried again.
    NotWritten(engine::Error),
    /// It is not known whether the write was done: its response was lost, and the write counter
    /// could not be read either, or the write was refused although the counter has advanced.
    Ambiguous,
    /// The data are not a whole number of units of 256 bytes, or the call does not allow this
    /// number of units.
    Size {
        /// Length in bytes of the data that the caller passed to the call.
        given: usize,
        /// Largest number of units of 256 bytes that card and host allow for this call.
        most: u16,
    },
}

impl core::fmt::Display for RpmbError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RpmbError::Card(error) => write!(f, "{error}"),
            RpmbError::Refused(code) => write!(f, "the RPMB refused, result {code}"),
            RpmbError::NoKey => f.write_str("the RPMB has no key yet"),
            RpmbError::Expired => f.write_str("the RPMB's write counter has come to its end"),
            RpmbError::Forged => f.write_str("the answer is not that of the RPMB"),
            RpmbError::NotWritten(error) => write!(f, "the RPMB was not written: {error}"),
            RpmbError::Ambiguous => f.write_str("the RPMB may or may not have been written"),
            RpmbError::Size { given, most } => {
                write!(f, "{given} bytes for the RPMB, expected 256 times 1 to {most} (writes: 1, 2 or 32)")
            }
        }
    }
}

impl core::error::Error for RpmbError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            RpmbError::Card(error) | RpmbError::NotWritten(error) => Some(error),
            _ => None,
        }
    }
}

/// Flag in a result: the write counter has reached its end.
const EXPIRED: u16 = 1 << 7;

/// Returns the error that a result stands for; `Ok`: the request went well.
fn judged(result: u16) -> Result<(), RpmbError> {
    match result & !EXPIRED {
        0 if result & EXPIRED != 0 => Err(RpmbError::Expired),
        0 => Ok(()),
        7 => Err(RpmbError::NoKey),
        code => Err(RpmbError::Refused(code as u8)),
    }
}

/// Returns the result of a read as [`judged`] does, but an expired write counter is no error.
fn judged_read(result: u16) -> Result<(), RpmbError> {
    judged(result & !EXPIRED)
}

/// A handle on the replay-protected area of an eMMC.
#[derive(Debug)]
pub struct Rpmb<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    card: CardNumber,
    layout: Layout,
    /// Largest number of units (of 256 bytes) in one read, which must be one transfer of the host.
    read_units: u16,
    /// Memory of the frames; `None` while a request has it.
    buf: Option<DmaBuf>,
    claim: Claim,
}

/// An exchange that writes: one frame as a reliable write, one frame that requests the result, one
/// frame of response.
const WRITE: Relay = Relay { out: 1, reliable: true, ask: true, back: 1 };
/// An exchange that reads: one frame of request (no reliable write), one frame of response.
const READ: Relay = Relay { out: 1, reliable: false, ask: false, back: 1 };

/// Least number of frames that the buffer must hold: two to send, one to receive.
const BUF_FRAMES: usize = 3;

impl<'a, B: Platform, const N: usize> Rpmb<'a, B, N> {
    /// Opens the area. The handle keeps `buf`, which has at least 1536 bytes. A write or read of n
    /// units in one call needs (n + 2) * 512 bytes. On failure the buffer comes back.
    pub async fn open(
        stack: &'a Stack<B, N>,
        card: &Card,
        buf: DmaBuf,
    ) -> Result<Self, (engine::Error, DmaBuf)> {
        let (needed, given) = ((BUF_FRAMES * FRAME_BYTES) as u32, buf.len_bytes());
        if given < needed {
            return Err((engine::Error::Buffer { needed, given }, buf));
        }
        let number = stack.with(|engine| engine.number_of(card.identity()));
        let (layout, buf) = layout(stack, card, buf, Area::Rpmb).await;
        stack.with(|engine| engine.enable_extended_ops());
        match layout {
            Ok(mut layout) => {
                let host = stack.with(|engine| engine.caps().blocks_in_one_piece());
                layout.rpmb_write_units = layout.rpmb_write_units.min(host);
                Ok(Rpmb { stack, card: number, layout, read_units: host, claim: buf.claim(), buf: Some(buf) })
            }
            Err(error) => Err((error, buf)),
        }
    }

    /// Returns the size of the area in units of 256 bytes.
    pub fn units(&self) -> u32 {
        self.layout.blocks.saturating_mul(2)
    }

    /// Returns the largest number of 256-byte units in one write that card and host allow. The
    /// handle's buffer must be long enough for them.
    pub fn write_units_max(&self) -> u16 {
        self.layout.rpmb_write_units
    }

    /// Returns the largest number of units in one read that the host allows. The handle's buffer
    /// must be long enough for them.
    pub fn read_units_max(&self) -> u16 {
        self.read_units
    }

    /// Closes the area and returns the buffer, filled with zeros. `None`: the request of a dropped
    /// call still uses the buffer.
    pub fn close(mut self) -> Option<DmaBuf> {
        let mut buf = self.buf().ok()?;
        for byte in buf.iter_mut() {
            *byte = 0;
        }
        Some(buf)
    }

    /// Programs the key, which is possible once in a device's lifetime.
    pub async fn program_key(&mut self, key: &Key, _leave: Irreversible) -> Result<(), RpmbError> {
        let mut buf = self.buf()?;
        with_frames(&mut buf, |frames| {
            if let [first, result, ..] = frames {
                frame::fill(first, Fields { kind: Ask::Key as u16, ..Fields::default() }, &[]);
                frame::put_key(first, key);
                frame::fill(result, Fields { kind: Ask::Result as u16, ..Fields::default() }, &[]);
            }
        });
        let exchanged = self.exchange(buf, WRITE, |frames| frames.get(2).map(frame::fields)).await;
        // The key must not stay in memory.
        if let Some(buf) = &mut self.buf {
            with_frames(buf, |frames| frames.iter_mut().take(1).for_each(|frame| *frame = [0; FRAME_BYTES]));
        }
        match exchanged.map_err(RpmbError::Card)? {
            Some(answer) if answer.kind == Ask::Key.response() => judged(answer.result),
            _ => Err(RpmbError::Forged),
        }
    }

    /// Reads the write counter. `nonce` is any number that was never used before.
    pub async fn counter(&mut self, key: &Key, nonce: [u8; 16]) -> Result<u32, RpmbError> {
        let mut buf = self.buf()?;
        let ask = Fields { kind: Ask::Counter as u16, nonce, ..Fields::default() };
        with_frames(&mut buf, |frames| {
            if let Some(first) = frames.first_mut() {
                frame::fill(first, ask, &[]);
            }
        });
        let answer = self
            .exchange(buf, READ, |frames| {
                let answer = frames.get(1..2)?;
                Some((frame::fields(answer.first()?), frame::signed(key, answer)))
            })
            .await
            .map_err(RpmbError::Card)?;
        let Some((answer, signed)) = answer else { return Err(RpmbError::Forged) };
        if answer.kind != Ask::Counter.response() {
            return Err(RpmbError::Forged);
        }
        // A card without a key cannot sign its response.
        if answer.result & !EXPIRED == 7 {
            return Err(RpmbError::NoKey);
        }
        if !signed || answer.nonce != nonce {
            return Err(RpmbError::Forged);
        }
        judged_read(answer.result)?;
        Ok(answer.counter)
    }

    /// Reads whole units from `address` on into `data`. `nonce` is any number that was never used
    /// before.
    pub async fn read(
        &mut self,
        key: &Key,
        nonce: [u8; 16],
        address: u16,
        data: &mut [u8],
    ) -> Result<(), RpmbError> {
        let units = self.units_of(data.len(), self.read_units)?;
        let mut buf = self.buf()?;
        let ask = Fields { kind: Ask::Read as u16, nonce, address, ..Fields::default() };
        with_frames(&mut buf, |frames| {
            if let Some(first) = frames.first_mut() {
                frame::fill(first, ask, &[]);
            }
        });
        self.exchange(buf, Relay { back: units, ..READ }, |frames| {
            let (Some(answers), Some(last)) =
                (frames.get(1..=usize::from(units)), frames.get(usize::from(units)))
            else {
                return Err(RpmbError::Forged);
            };
            let answer = frame::fields(last);
            if answer.kind != Ask::Read.response() {
                return Err(RpmbError::Forged);
            }
            if answer.result & !EXPIRED == 7 {
                return Err(RpmbError::NoKey);
            }
            if !frame::signed(key, answers) || answer.nonce != nonce || answer.address != address {
                return Err(RpmbError::Forged);
            }
            judged_read(answer.result)?;
            for (to, from) in data.chunks_mut(UNIT_BYTES).zip(answers) {
                for (to, from) in to.iter_mut().zip(frame::data(from)) {
                    *to = *from;
                }
            }
            Ok(())
        })
        .await
        .map_err(RpmbError::Card)?
    }

    /// Writes 1, 2 or 32 units from `address` on: all of them or none. The card must support 32
    /// units ([`write_units_max`](Self::write_units_max)). The call reads the write counter before
    /// the write, with `nonces[0]`, and again after a lost or wrong response, with `nonces[1]`.
    /// Both are numbers that were never used before.
    ///
    /// The write is sent only one time. `Ok`: the card has counted the write.
    /// [`RpmbError::Ambiguous`]: it is not known whether the card has counted it. Every other
    /// error: no write was counted. This holds while nothing else writes to the area: the card has
    /// one counter for all writers, so let only one write at a time.
    ///
    /// An attacker on the bus may hold back a signed write and replay it later, in place of the
    /// next one with the same counter. After [`RpmbError::NotWritten`] or [`RpmbError::Forged`] on
    /// a bus that is not trusted, read back the data of the next write.
    pub async fn write(
        &mut self,
        key: &Key,
        nonces: [[u8; 16]; 2],
        address: u16,
        data: &[u8],
    ) -> Result<(), RpmbError> {
        let most = self.layout.rpmb_write_units;
        let units = self.units_of(data.len(), most)?;
        if !matches!(units, 1 | 2 | 32) {
            return Err(RpmbError::Size { given: data.len(), most });
        }
        let [before, after] = nonces;
        let counter = self.counter(key, before).await?;
        let mut buf = self.buf()?;
        let ask = Fields { kind: Ask::Write as u16, counter, address, blocks: units, ..Fields::default() };
        with_frames(&mut buf, |frames| {
            let (writes, rest) = frames.split_at_mut(frames.len().min(usize::from(units)));
            for (frame, data) in writes.iter_mut().zip(data.chunks(UNIT_BYTES)) {
                frame::fill(frame, ask, data);
            }
            frame::sign(key, writes);
            if let Some(result) = rest.first_mut() {
                frame::fill(result, Fields { kind: Ask::Result as u16, ..Fields::default() }, &[]);
            }
        });
        let place = usize::from(units) + 1;
        let answered = self
            .exchange(buf, Relay { out: units, ..WRITE }, |frames| {
                let answer = frames.get(place..=place)?;
                Some((frame::fields(answer.first()?), frame::signed(key, answer)))
            })
            .await;
        match answered {
            Ok(Some((answer, true))) if answer.kind == Ask::Write.response() && answer.address == address => {
                match judged(answer.result) {
                    Ok(()) if answer.counter == counter.wrapping_add(1) => Ok(()),
                    // Responses to writes carry no nonce: an attacker may play back an old one.
                    Ok(()) => self.find_out(key, after, counter, RpmbError::Forged).await,
                    // If the counter has advanced, this write was done and its response is an old
                    // one, or the card has refused it and another program has written.
                    Err(error) => {
                        let done = self.find_out(key, after, counter, error).await;
                        done.and(Err(RpmbError::Ambiguous))
                    }
                }
            }
            Ok(_) => self.find_out(key, after, counter, RpmbError::Forged).await,
            // The engine has refused the request, and would refuse to read the counter, too.
            Err(error) if error.is_refusal() => Err(RpmbError::NotWritten(error)),
            Err(error) => self.find_out(key, after, counter, RpmbError::NotWritten(error)).await,
        }
    }

    /// Finds out, by the counter, whether a write was done whose response is missing or wrong.
    /// `before` is the counter before the write. Returns `why` if the write was not done.
    async fn find_out(
        &mut self,
        key: &Key,
        nonce: [u8; 16],
        before: u32,
        why: RpmbError,
    ) -> Result<(), RpmbError> {
        match self.counter(key, nonce).await {
            Ok(now) if now == before.wrapping_add(1) => Ok(()),
            Ok(now) if now == before => Err(why),
            _ => Err(RpmbError::Ambiguous),
        }
    }

    fn units_of(&self, bytes: usize, most: u16) -> Result<u16, RpmbError> {
        let frames = self.buf.as_ref().map_or(usize::MAX, |buf| buf.len_bytes() as usize / FRAME_BYTES);
        match u16::try_from(bytes / UNIT_BYTES) {
            Ok(units @ 1..) if bytes.is_multiple_of(UNIT_BYTES) && units <= most => {
                match usize::from(units) + 2 <= frames {
                    true => Ok(units),
                    false => {
                        let needed = (u32::from(units) + 2) * FRAME_BYTES as u32;
                        let given = (frames * FRAME_BYTES) as u32;
                        Err(RpmbError::Card(engine::Error::Buffer { needed, given }))
                    }
                }
            }
            _ => Err(RpmbError::Size { given: bytes, most }),
        }
    }

    /// Takes the buffer of frames. After a dropped call, takes the buffer back from the engine.
    fn buf(&mut self) -> Result<DmaBuf, RpmbError> {
        let least = (BUF_FRAMES * FRAME_BYTES) as u32;
        let claim = self.claim;
        let taken = self.buf.take().or_else(|| self.stack.with(|engine| engine.reclaim(claim)));
        taken.filter(|buf| buf.len_bytes() >= least).ok_or(RpmbError::Card(engine::Error::Full))
    }

    /// Executes an exchange: sends its frames from `buf`, and receives the card's frames into
    /// `buf`. Returns what `look` reads from all of these frames.
    async fn exchange<R>(
        &mut self,
        buf: DmaBuf,
        Relay { out, reliable, ask, back }: Relay,
        look: impl FnOnce(&[Frame]) -> R,
    ) -> Result<R, engine::Error> {
        let (config, switch_ns) = (self.layout.config, self.layout.switch_ns);
        let visit = PartitionAccess { config, switch_ns, lba: 0, out, reliable, ask, back };
        let request = Request::new(Kind::PartitionAccess(visit), buf).for_card(self.card);
        let mut done = self.stack.request(request).await;
        let result = done.result.map(|_| with_frames(&mut done.buf, |frames| look(frames)));
        self.buf = Some(done.buf);
        result
    }
}

/// Calls `f` with the buffer's content as a list of RPMB frames.
fn with_frames<R>(buf: &mut DmaBuf, f: impl FnOnce(&mut [Frame]) -> R) -> R {
    let (frames, _) = buf.as_chunks_mut::<FRAME_BYTES>();
    f(frames)
}
