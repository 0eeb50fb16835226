//! Bring-up: initialises a card from power-up to the state `tran`, and finds its properties and the
//! fastest bus. The code is sequential and uses the engine's queue.
//!
//! Most programs need only [`bring_up`]. It finds an SD memory card or an eMMC device, selects
//! voltage, width and timing, and sets the engine's parameters for reads and writes. If a bus
//! timing fails (no sampling point, a refused switch), the next try excludes that timing. So
//! bring-up ends with a slower card rather than with an error. Afterwards [`supervise`] sends the
//! commands that recovery and upkeep need, and brings up each card that is inserted.

pub(crate) mod emmc;
mod emmc_bus;
mod extended_ops;
pub mod extension;
pub(crate) mod found;
pub(crate) mod identify;
pub(crate) mod io;
pub(crate) mod link;
pub mod maintain;
mod packed;
pub mod partition;
pub mod power;
pub mod protect;
pub mod quirk;
mod rest;
mod sd;
mod sd_queue;
pub(crate) mod session;
mod speed;
mod supervise;
mod task_queue;
mod uhs;
mod upkeep;

use crate::engine::{Breach, CardParams, DmaBuf, Error};
use crate::host::{Timing, Width};
use crate::spec::ParseError;
use crate::spec::cid::Cid;
use crate::task::{Platform, Stack};
pub use emmc::Emmc;
pub use extended_ops::enable_extended_ops;
pub use io::{FunctionInfo, IoCard};
use link::Link;
pub use packed::enable_packed;
use protect::LockOp;
use quirk::Quirks;
pub use rest::Rest;
pub use sd::Sd;
pub use sd_queue::{SdQueue, enable_sd_task_queue};
use session::{Failed, Session};
pub use supervise::{Event, supervise, supervise_emmc, supervise_sd};
pub use task_queue::enable_task_queue;
pub use uhs::Strength;
pub use upkeep::{Exception, Upkeep, Worker};

/// Size of the scratch memory that [`bring_up`] needs, in bytes: the size of the largest register
/// (EXT_CSD).
pub const SCRATCH_BYTES: u32 = 512;

/// Settings of bring-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Timings that must not be used, one bit each as in
    /// [`Caps::timings`](crate::host::Caps::timings).
    pub without: u16,
    /// Upper limit of the SD clock, in hertz.
    pub max_clock_hz: u32,
    /// Upper limit of the number of data lines.
    pub max_width: Width,
    /// Driver strength of a UHS-I card, or of an eMMC in all timings except legacy, if the card
    /// supports it.
    pub strength: Strength,
    /// How to unlock a card that is locked by a password, also after recovery has initialised it
    /// again: [`LockOp::Unlock`]. [`LockOp::ForceErase`] erases a card whose password is lost; but
    /// the [supervisor](supervise) never erases a card that it initialises again. Without this
    /// option bring-up of a locked card fails with [`Error::Locked`]. Lean firmware
    /// ([`Profile::RECOVERS`](crate::sched::Profile::RECOVERS)) unlocks no card.
    pub unlock: Option<&'static LockOp<'static>>,
    /// Whether to enable an eMMC's volatile write cache; then only a flush makes data durable. The
    /// cache of an SD card stays off, since the card may be removed at any moment, unless
    /// [`extension::enable_cache`] is called.
    pub cache: bool,
    /// Settings for the [supervisor](supervise)'s work on a card without a fault.
    pub upkeep: &'static Upkeep,
    /// Table of cards with [quirks](quirk), in addition to the stack's own table.
    pub quirks: &'static [quirk::Quirk],
    /// Longest time of a read from an SD card, in nanoseconds. A value below the standard's 100 ms
    /// counts as 100 ms.
    pub sd_read_ns: u64,
    /// Longest time of a write to an SD card until it is programmed, in nanoseconds. A value below
    /// 500 ms counts as 500 ms. Cards that do garbage collection take seconds.
    pub sd_write_ns: u64,
}

setters!(Options {
    without: u16,
    max_clock_hz: u32,
    max_width: Width,
    strength: Strength,
    unlock: Option<&'static LockOp<'static>>,
    cache: bool,
    upkeep: &'static Upkeep,
    quirks: &'static [quirk::Quirk],
    sd_read_ns: u64,
    sd_write_ns: u64,
});

impl Options {
    /// The fastest bus that host and card support, and an eMMC's cache enabled.
    pub const DEFAULT: Options = Options {
        without: 0,
        max_clock_hz: u32::MAX,
        max_width: Width::W8,
        strength: Strength::Ohm50,
        unlock: None,
        cache: true,
        upkeep: &Upkeep::DEFAULT,
        quirks: &[],
        // The standard's limits, 100 and 250 (SDXC: 500) ms, are too short for some cards on the
        // market.
        sd_read_ns: 500_000_000,
        sd_write_ns: 3_000_000_000,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The kind of card, with the properties that only this kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one, and no heap to put the larger on")]
pub enum Family {
    /// An SD memory card.
    Sd(Sd),
    /// An eMMC device.
    Emmc(Emmc),
}

/// A card in the state `tran`, after bring-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The kind of card, SD or eMMC.
    pub family: Family,
    /// CID, as in a [`Response`](crate::spec::response::Response); the last byte (CRC) may read 0.
    pub cid: [u32; 4],
    /// CSD, as in a [`Response`](crate::spec::response::Response); the last byte (CRC) may read 0.
    pub csd: [u32; 4],
    /// OCR of the card.
    pub ocr: u32,
    /// Bus timing that bring-up has selected.
    pub timing: Timing,
    /// Number of data lines that bring-up has selected.
    pub width: Width,
    /// SD clock requested from the host, in hertz.
    pub clock_hz: u32,
    /// The card's parameters that the engine uses.
    pub params: CardParams,
}

impl Card {
    /// Returns a number that distinguishes the card from others. It is made of CID and CSD without
    /// their last byte, a CRC that not every controller returns.
    #[inline(never)]
    pub(crate) fn identity(&self) -> u32 {
        let mut sum = 0x811c_9dc5;
        for [a, b, c, d] in [self.cid, self.csd] {
            for word in [a, b, c, d & !0xff] {
                sum = (sum ^ word).wrapping_mul(0x0100_0193);
            }
        }
        sum
    }

    /// Returns year and month (1 to 12) of manufacture.
    pub fn made(&self) -> (u16, u8) {
        let (cid, year) = match self.family {
            Family::Sd(_) => {
                let cid = Cid::parse_sd(&self.cid);
                (cid, cid.year)
            }
            Family::Emmc(emmc) => {
                let cid = Cid::parse_emmc(&self.cid);
                (cid, cid.emmc_year(emmc.revision))
            }
        };
        let late = self.params.quirks.has(Quirks::LATE_DATE) && matches!(year, 2010..=2012);
        (if late { year + 16 } else { year }, cid.month)
    }
}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        Error::Register(error)
    }
}

/// Switches the slot's power on, finds the card and initialises it with the fastest bus. Afterwards
/// the engine accepts reads and writes.
///
/// `scratch` (at least [`SCRATCH_BYTES`]) is returned; for an eMMC it then holds EXT_CSD as last
/// read.
///
/// # Errors
/// [`Error::NoCard`]: the slot is empty, or no card responds. The error is also returned for some
/// milliseconds after a card was inserted, while the controller debounces the card-detect switch.
/// Call again later, for example every 50 ms. With a [supervisor](supervise) a program need not:
/// the supervisor brings up each card that comes.
pub fn bring_up<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
) -> impl Future<Output = (Result<Card, Error>, DmaBuf)> {
    of_families::<identify::OfAny, B, N>(stack, scratch, options)
}

/// Brings up a card like [`bring_up`], for a slot that accepts only SD memory cards; no code for
/// eMMC is linked.
pub fn bring_up_sd<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
) -> impl Future<Output = (Result<Card, Error>, DmaBuf)> {
    of_families::<identify::OfSd, B, N>(stack, scratch, options)
}

/// Brings up a soldered eMMC like [`bring_up`]; no code for SD cards is linked, and no command for
/// SD cards is sent.
pub fn bring_up_emmc<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
) -> impl Future<Output = (Result<Card, Error>, DmaBuf)> {
    of_families::<identify::OfEmmc, B, N>(stack, scratch, options)
}

/// Brings up an I/O card, with or without memory, like [`bring_up`]. If the card has memory
/// ([`IoCard::memory`]), the engine accepts reads and writes afterwards.
///
/// Returns [`Error::NoCard`] if no card responds to CMD5; then [`bring_up`] may find a card without
/// I/O functions. Functions stay disabled until their drivers enable them
/// ([`sdio::Function`](crate::sdio::Function)).
pub async fn bring_up_io<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
) -> (Result<IoCard, io::error::IoError>, DmaBuf) {
    stack.note_io_reset();
    let (result, scratch) = of_families::<io::OnlyIo, B, N>(stack, scratch, options).await;
    stack.note_io_reset();
    if matches!(result, Ok(Ok(_))) {
        stack.owe_no_abort();
    }
    if let Ok(Ok(card)) = &result {
        let beside = card.cccr.direct_during_data();
        stack.with(|engine| engine.set_concurrent_commands(beside));
    }
    (result.unwrap_or_else(|error| Err(error.into())), scratch)
}

async fn of_families<F: identify::Families, B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    mut options: Options,
) -> (Result<F::Found, Error>, DmaBuf) {
    let given = scratch.len_bytes();
    if given < SCRATCH_BYTES {
        return (Err(Error::Buffer { needed: SCRATCH_BYTES, given }), scratch);
    }
    let mut session = Session::new(stack, scratch);
    stack.enter((), |engine| engine.set_card_params(None));
    let result = attempts::<F, _>(&mut session, &mut options, FRESH_STARTS).await;
    let result = result.map_err(|Failed| session.reason());
    match &result {
        Ok(found) => {
            let params = F::target(found);
            message!(info, "a card of {} blocks", params.map_or(0, |params| params.sectors));
            stack.enter((), |engine| {
                engine.identify_card(F::identity(found));
                engine.set_card_params(params);
            });
        }
        Err(error) => message!(info, "no card: {}", error),
    }
    (result, session.into_scratch())
}

/// Largest number of restarts of bring-up from power-up, after failures before a faster timing was
/// selected. So a single fault does not end bring-up.
pub(crate) const FRESH_STARTS: u32 = 3;
/// Time since the begin of bring-up, in nanoseconds. A failure after this time, before a faster
/// timing was selected, ends bring-up, because the card will not become ready.
const FRESH_START_NS: u64 = 1_000_000_000;

/// Brings a card from power-up to `tran`, with at most `fresh` restarts.
pub(crate) async fn attempts<F: identify::Families, L: Link>(
    session: &mut Session<L>,
    options: &mut Options,
    mut fresh: u32,
) -> Result<F::Found, Failed> {
    let mut failed = None;
    let until_ns = session.link.now_ns().saturating_add(FRESH_START_NS);
    // Each turn but the last does one of three things: it tries a timing a second time, excludes at
    // least one more timing, or uses one of the `fresh` restarts. So the number of turns is
    // bounded.
    for _ in 0..2 * Timing::COUNT + FRESH_STARTS as usize {
        let mut tried = None;
        match identify::once::<F, L>(session, options, &mut tried).await {
            Ok(card) => return Ok(card),
            Err(Failed) => match tried {
                // A single lost response does not prove that the timing fails, so try it again.
                Some(timing) if L::RECOVERS && timing != Timing::Legacy && failed != tried => failed = tried,
                Some(timing) if timing != Timing::Legacy => {
                    options.without |= speed::and_those_that_need(timing)
                }
                _ if fresh > 0 && session.is_passing() && session.link.now_ns() < until_ns => {
                    (fresh, session.starts) = (fresh - 1, session.starts + 1);
                }
                _ => return Err(Failed),
            },
        }
    }
    session.refuse(Breach::NoTiming)
}
