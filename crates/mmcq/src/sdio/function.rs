//! A function of an I/O card: enable, registers, data [SDIO 5, 6].

use super::cccr::{Cccr, reg};
use super::direct::{Chain, Direct, carried, direct};
use super::{ADDRESSES, IoError, Split, fbr};
use crate::card::IoCard;
use crate::card::io::error::judge;
use crate::card::quirk::Quirks;
use crate::engine::{self, CardNumber, DmaBuf, Kind, Request};
use crate::host::{Auto, Caps, Data, Direction, Phase};
use crate::sched::Profile;
use crate::spec::command::Command;
use crate::spec::command::sdio::{self as cmd, Amount, Extended};
use crate::spec::timing::sdio as limits;
use crate::task::{Platform, Stack};

/// Time between two polls for "ready": the first one and the longest one, in nanoseconds.
const READY_POLL_NS: (u64, u64) = (50_000, 1_000_000);

/// Registers of function 0 that the standard leaves to the vendor.
const VENDORS: core::ops::RangeInclusive<u32> = 0xf0..=0xff;

/// The register, or the first of the registers, that a transfer accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// All bytes go to this register, a FIFO.
    Fifo(u32),
    /// The first byte goes to this register, each further byte to the next register.
    From(u32),
}

impl At {
    const fn addr(self) -> u32 {
        match self {
            At::Fifo(addr) | At::From(addr) => addr,
        }
    }
}

/// A handle on one function of one card; see the module's description.
///
/// If another card is in the slot now, no call sends anything. A call then fails with
/// [`Error::NoCard`](crate::engine::Error::NoCard), and after bring-up of that card with
/// [`Error::Changed`](crate::engine::Error::Changed). A card that was taken out and put back counts
/// as another card. The stack cannot distinguish two I/O cards of one model, if they are exchanged
/// while the host does not see the slot.
///
/// Futures of a handle's methods may be dropped at any point: a command on the bus ends by itself.
/// [`reclaim`](crate::engine::Engine::reclaim) returns the buffer of a dropped transfer. Each
/// handle stores the block size itself, so if a function has several handles, only one of them may
/// set it.
///
/// After a transfer was dropped before its successful end was seen, it must be aborted on the card
/// [SDIO 4.8], even if it was successful. The function's next transfer, by any handle, sends the
/// abort first. CMD52 of this function and all commands of other functions may be sent before the
/// abort. A new bring-up makes the abort unnecessary. If the abort fails, the next transfer is not
/// begun and returns the error, and the abort is still due.
#[derive(Debug)]
pub struct Function<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    card: CardNumber,
    number: u8,
    cccr: Cccr,
    quirks: Quirks,
    max_block_bytes: u16,
    /// The block size that was set on the card, in bytes; 0 if none, so transfers use byte mode.
    block_bytes: u16,
    /// Number of card resets that the stack had counted when the block size was set. A further
    /// reset clears the block size on the card.
    told_at: u32,
    enable_timeout_ns: u64,
}

/// Guard of a CMD53 or an abort that is about to begin. If the guard is dropped before the command
/// has ended well, the stack records that the function needs an abort.
struct Begun<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    function: u8,
}

impl<B: Platform, const N: usize> Begun<'_, B, N> {
    fn ended_well(self) {
        core::mem::forget(self);
    }
}

impl<B: Platform, const N: usize> Drop for Begun<'_, B, N> {
    fn drop(&mut self) {
        self.stack.owe_abort(self.function);
    }
}

impl<'a, B: Platform, const N: usize> Function<'a, B, N> {
    /// Makes a handle on function `number` (1 to 7) of a card after its bring-up; sends no command.
    /// If it is called by code that itself runs inside a call of the stack (such as a waker), the
    /// handle is bound to no card.
    pub fn new(stack: &'a Stack<B, N>, card: &IoCard, number: u8) -> Result<Self, IoError> {
        let Some(info) = card.function(number) else {
            return Err(IoError::NoFunction { function: number, functions: card.count() });
        };
        Ok(Function {
            stack,
            card: stack.enter(CardNumber::ANY, |engine| engine.number_of(card.identity())),
            number,
            cccr: card.cccr,
            quirks: card.quirks,
            max_block_bytes: info.extension.max_block_bytes,
            block_bytes: 0,
            told_at: 0,
            enable_timeout_ns: info.extension.enable_timeout_ns.unwrap_or(limits::ENABLE_NS),
        })
    }

    /// Returns the number of the function.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the block size that was set on the card, in bytes. 0 if none was set, or if a card
    /// was brought up since.
    pub fn block_bytes(&self) -> u16 {
        if self.stack.io_resets() == self.told_at { self.block_bytes } else { 0 }
    }

    /// Enables the function, and waits until it is ready, at most as long as its tuples declare
    /// [SDIO 6.9]. All functions share the register, so enable and disable the functions of a card
    /// one after the other.
    pub async fn enable(&self) -> Result<(), IoError> {
        self.switch(true).await?;
        self.wait_ready(true).await
    }

    /// Disables the function, which stops at once and loses its state.
    pub async fn disable(&self) -> Result<(), IoError> {
        self.switch(false).await
    }

    /// Disables the function, waits until it is no longer ready, and enables it again.
    pub async fn reset(&self) -> Result<(), IoError> {
        self.switch(false).await?;
        self.wait_ready(false).await?;
        self.enable().await
    }

    async fn switch(&self, on: bool) -> Result<(), IoError> {
        let bit = 1 << self.number;
        let enabled = self.common(cmd::io_read(0, reg::IO_ENABLE), reg::IO_ENABLE, Chain::More).await?;
        let wanted = if on { enabled | bit } else { enabled & !bit };
        let command = cmd::io_write_read(0, reg::IO_ENABLE, wanted);
        let read = self.common(command, reg::IO_ENABLE, Chain::Last).await?;
        match (read ^ wanted) & bit {
            0 => Ok(()),
            _ => Err(IoError::NotTaken { addr: reg::IO_ENABLE, wrote: wanted, read }),
        }
    }

    async fn wait_ready(&self, wanted: bool) -> Result<(), IoError> {
        let limit_ns = self.enable_timeout_ns;
        let (mut waited_ns, mut pause_ns) = (0, READY_POLL_NS.0);
        // Pauses grow to a millisecond and are at least a twentieth of that, so the time limit
        // bounds their number.
        loop {
            let ready = self.common(cmd::io_read(0, reg::IO_READY), reg::IO_READY, Chain::Last).await?;
            if (ready >> self.number & 1 != 0) == wanted {
                return Ok(());
            }
            if waited_ns >= limit_ns {
                return Err(IoError::NotReady { function: self.number, limit_ns });
            }
            self.stack.pause(pause_ns).await?;
            waited_ns += pause_ns;
            pause_ns = (2 * pause_ns).min(READY_POLL_NS.1);
        }
    }

    /// Makes a CMD52 to the register `addr` of function 0, which has the card's common registers.
    /// `chain`: whether another command of the driver follows.
    fn common(&self, command: Command, addr: u32, chain: Chain) -> Direct<'a, B, N> {
        direct(self.stack, self.card, 0, addr, command, chain)
    }

    /// Starts `command`, a CMD52, to the register `addr` of this function. `chain`: whether another
    /// command of the driver follows.
    fn own(&self, addr: u32, command: Command, chain: Chain) -> Direct<'a, B, N> {
        direct(self.stack, self.card, self.number, addr, command, chain)
    }

    /// Returns an error if the handle's card is no longer in the slot.
    fn is_there(&self) -> Result<(), IoError> {
        let meant = self.stack.with(|engine| engine.is_meant(self.card));
        if meant || !B::Profile::RECOVERS { Ok(()) } else { Err(engine::Error::Changed.into()) }
    }

    /// Sets the block size on the card; from then on long transfers use blocks. If this fails, or
    /// after another bring-up, transfers use byte mode until the size is set again.
    ///
    /// # Errors
    /// [`IoError::BlockSize`]: the size is larger than function or host ([`Caps::max_block_bytes`])
    /// allow. [`IoError::OddBlockSize`]: the host cannot transfer this length
    /// ([`Caps::block_sizes`]). In both cases nothing was sent, and the earlier size remains.
    pub async fn set_block_size(&mut self, bytes: u16) -> Result<(), IoError> {
        let of = |caps: &Caps| (caps.max_block_bytes, caps.moves_blocks_of(bytes));
        let (host_bytes, moves) = self.stack.with(|engine| of(engine.caps()));
        let max_bytes = self.max_block_bytes.min(host_bytes);
        if bytes == 0 || bytes > max_bytes {
            return Err(IoError::BlockSize { function: self.number, bytes, max_bytes });
        }
        if !moves {
            return Err(IoError::OddBlockSize { function: self.number, bytes, max_bytes });
        }
        self.block_bytes = 0;
        self.told_at = self.stack.io_resets();
        let addr = fbr::base(self.number) + fbr::reg::BLOCK_SIZE;
        for (addr, byte) in (addr..).zip(bytes.to_le_bytes()) {
            let read = self.common(cmd::io_write_read(0, addr, byte), addr, Chain::More).await?;
            if read != byte {
                return Err(IoError::NotTaken { addr, wrote: byte, read });
            }
        }
        self.block_bytes = bytes;
        Ok(())
    }

    /// Reads the register `addr` of the function by CMD52. `chain`: whether another command of the
    /// driver follows.
    pub async fn read_u8(&self, addr: u32, chain: Chain) -> Result<u8, IoError> {
        self.bounds(At::Fifo(addr), 1, u32::MAX)?;
        self.own(addr, cmd::io_read(self.number, addr), chain).await
    }

    /// Writes `value` to the register `addr` of the function by CMD52. `chain`: whether another
    /// command of the driver follows.
    pub async fn write_u8(&self, addr: u32, value: u8, chain: Chain) -> Result<(), IoError> {
        self.bounds(At::Fifo(addr), 1, u32::MAX)?;
        self.own(addr, cmd::io_write(self.number, addr, value), chain).await?;
        Ok(())
    }

    /// Writes `value` to the register `addr` of the function and reads it back, by one CMD52.
    pub async fn write_read_u8(&self, addr: u32, value: u8, chain: Chain) -> Result<u8, IoError> {
        self.bounds(At::Fifo(addr), 1, u32::MAX)?;
        self.own(addr, cmd::io_write_read(self.number, addr, value), chain).await
    }

    /// Reads the register `addr` of function 0, which all functions share, by CMD52. `chain`:
    /// whether another command of the driver follows.
    pub async fn read_common_u8(&self, addr: u32, chain: Chain) -> Result<u8, IoError> {
        self.bounds(At::Fifo(addr), 1, u32::MAX)?;
        self.common(cmd::io_read(0, addr), addr, chain).await
    }

    /// Writes `value` to the register `addr` of function 0 by CMD52. The register must be one of
    /// the vendor's registers, F0h to FFh [SDIO 6.9], except on cards whose drivers [need
    /// others](Quirks::IO_LENIENT_F0).
    pub async fn write_common_u8(&self, addr: u32, value: u8, chain: Chain) -> Result<(), IoError> {
        self.bounds(At::Fifo(addr), 1, u32::MAX)?;
        if !VENDORS.contains(&addr) && !self.quirks.has(Quirks::IO_LENIENT_F0) {
            return Err(IoError::NotVendors { addr });
        }
        self.common(cmd::io_write(0, addr, value), addr, chain).await.map(|_| ())
    }

    /// Reads into the first `bytes` bytes of a buffer by CMD53, in as many commands as needed.
    /// `at`: register from which the bytes come. `chain`: whether another command follows. Also
    /// returns the buffer; after an error its content is undefined.
    pub async fn read(&self, at: At, bytes: u32, buf: DmaBuf, chain: Chain) -> (Result<(), IoError>, DmaBuf) {
        self.moved(Direction::Read, at, bytes, buf, chain).await
    }

    /// Writes the first `bytes` bytes of a buffer by CMD53, in as many commands as needed. `at`:
    /// register to which the bytes go. `chain`: whether another command follows. Also returns the
    /// buffer. After an error it is not known how many bytes the function has received.
    pub async fn write(
        &self,
        at: At,
        bytes: u32,
        buf: DmaBuf,
        chain: Chain,
    ) -> (Result<(), IoError>, DmaBuf) {
        self.moved(Direction::Write, at, bytes, buf, chain).await
    }

    /// Ends a CMD53 of this function that is still in progress [SDIO 4.8]. [`read`](Self::read) and
    /// [`write`](Self::write) do so themselves when they fail.
    pub async fn abort(&self) -> Result<(), IoError> {
        self.aborted(DmaBuf::EMPTY).await.0
    }

    /// Ends a CMD53 like [`abort`](Self::abort). `buf` is the buffer of the transfer before or
    /// after the abort; the call returns it.
    async fn aborted(&self, buf: DmaBuf) -> (Result<(), IoError>, DmaBuf) {
        if let Err(error) = self.is_there() {
            // An abort that is due belongs to the card that is in the slot now.
            return (Err(error), buf);
        }
        // If a step fails from here on, the guard records that an abort is due.
        self.stack.take_abort(self.number);
        let begun = self.begun();
        let command = cmd::io_write(0, reg::ABORT, self.number);
        let (told, buf) = carried(self.stack, self.card, reg::ABORT, command, buf).await;
        // A card that has nothing to abort may refuse the command.
        if matches!(told, Ok(_) | Err(IoError::Refused { .. })) {
            begun.ended_well();
        }
        (told.map(|_| ()), buf)
    }

    fn begun(&self) -> Begun<'a, B, N> {
        Begun { stack: self.stack, function: self.number }
    }

    /// Returns how transfers are split into commands at present.
    pub fn split(&self) -> Split {
        let (block, max_block) = (self.block_bytes(), self.max_block_bytes);
        let split = |caps: &Caps| Split::new(caps, &self.cccr, self.quirks, block, max_block);
        self.stack.with(|engine| split(engine.caps()))
    }

    fn bounds(&self, at: At, bytes: u32, given: u32) -> Result<(), IoError> {
        let addr = at.addr();
        let room = match at {
            _ if addr >= ADDRESSES => 0,
            At::Fifo(_) => DmaBuf::AFTER_MAX,
            At::From(_) => ADDRESSES - addr,
        };
        let max_bytes = room.min(given);
        match bytes {
            0 => Err(IoError::Range { addr, bytes, max_bytes }),
            _ if bytes > max_bytes => Err(IoError::Range { addr, bytes, max_bytes }),
            _ => Ok(()),
        }
    }

    async fn moved(
        &self,
        direction: Direction,
        at: At,
        bytes: u32,
        mut buf: DmaBuf,
        chain: Chain,
    ) -> (Result<(), IoError>, DmaBuf) {
        if let Err(error) = self.bounds(at, bytes, buf.len_bytes()) {
            return (Err(error), buf);
        }
        if let Err(error) = self.is_there() {
            return (Err(error), buf);
        }
        if self.stack.take_abort(self.number) {
            let (told, back) = self.aborted(buf).await;
            buf = back;
            if let Err(error) = told
                && !matches!(error, IoError::Refused { .. })
            {
                return (Err(error), buf);
            }
        }
        let mut done_bytes = 0;
        // Every turn transfers at least one byte.
        loop {
            let split = self.split();
            let Some(count) = split.next(bytes - done_bytes) else { return (Ok(()), buf) };
            let piece = split.bytes(count).clamp(1, bytes - done_bytes);
            let (block_size, blocks) = match count {
                Amount::Blocks(blocks) => (split.block_bytes, u32::from(blocks)),
                _ => (piece as u16, 1),
            };
            let (addr, increment) = match at {
                At::Fifo(addr) => (addr, false),
                At::From(addr) => (addr + done_bytes, true),
            };
            let write = direction == Direction::Write;
            let what = Extended { write, function: self.number, addr, increment, count };
            let more = chain == Chain::More || done_bytes + piece < bytes;
            let phase = Phase {
                command: cmd::io_rw_extended(what),
                data: Some(Data { direction, block_size, blocks }),
                auto: Auto::None,
                tuning: false,
            };
            let kind = Kind::Io { phase, timeout_ns: limits::DATA_NS, chain: more };
            let begun = self.begun();
            let done =
                self.stack.request(Request::new(kind, buf.after(done_bytes)).for_card(self.card)).await;
            buf = done.buf.whole();
            let judged = match done.result {
                Ok(output) => judge(self.number, addr, output.response.r5()).map(|_| ()),
                Err(error) => {
                    if matches!(error, engine::Error::Host(_)) {
                        // The card reports a lost command in its next response. Read that response
                        // here, so that no other command receives it.
                        (_, buf) = carried(self.stack, self.card, 0, cmd::io_read(0, 0), buf).await;
                    }
                    Err(error.into())
                }
            };
            if judged.is_err() {
                if self.is_there().is_err() {
                    // The transfer has ended with its card, and the next card has begun none.
                    begun.ended_well();
                    return (judged, buf);
                }
                drop(begun);
                (_, buf) = self.aborted(buf).await;
                return (judged, buf);
            }
            begun.ended_well();
            done_bytes += piece;
        }
    }
}
