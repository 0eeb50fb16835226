//! Packed commands of an eMMC [eMMC 6.6.29].

use super::link::Queued;
use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{BLOCK_BYTES, DmaBuf, Error};
use crate::spec::command::emmc::{self, SwitchMode};
use crate::spec::ext_csd::{ExtCsd, index};
use crate::task::{Platform, Stack};

/// EXT_CSD_REV of eMMC version 4.5, the first with packed commands.
const REV_4_5: u8 = 6;
/// Bit of EXCEPTION_EVENTS_CTRL: the device reports a failed packed command.
const PACKED_FAILURE: u8 = 1 << 3;
/// Longest busy of the CMD6 that sets [`PACKED_FAILURE`], in nanoseconds.
const SWITCH_NS: u64 = 2_550_000_000;

/// Enables packed commands for this eMMC: several reads, or several writes, to different addresses
/// are sent as one transfer if that is faster. Call it once after each bring-up. The stack's
/// profile must be one that sends packed commands ([`Packed`](crate::sched::Packed)). The engine
/// keeps `page` (512 bytes) for the headers, and returns the page that it had before (an empty one
/// if it had none). [`Engine::pack_stats`](crate::engine::Engine::pack_stats) counts the packed
/// commands.
///
/// After failures the engine may have stopped using packed commands on this card. Then a call
/// enables them again.
///
/// # Errors
/// Each error returns `page`. [`Error::Unsupported`]: the card has no packed commands, the
/// controller cannot send them, or the profile is not one that sends them. [`Error::Full`]: the
/// engine uses the earlier page at this moment; try again later. [`Error::Changed`]: `card` is no
/// longer in the slot. Other errors come from the commands that this call sends.
pub async fn enable_packed<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    page: DmaBuf,
) -> Result<DmaBuf, (Error, DmaBuf)> {
    let given = page.len_bytes();
    if given < BLOCK_BYTES {
        return Err((Error::Buffer { needed: BLOCK_BYTES, given }, page));
    }
    let mut session = Session::with(stack, page, card);
    let most = match card.family {
        Family::Emmc(_) => most(&mut session).await,
        Family::Sd(_) => session.fail(Error::Unsupported),
    };
    let result = most.map_err(|Failed| session.error);
    let number = session.card;
    let page = session.into_scratch();
    let (writes, reads) = match result {
        Ok(most) => most,
        Err(error) => return Err((error, page)),
    };
    stack.with(|engine| {
        if !engine.is_meant(number) {
            return Err((Error::Changed, page));
        }
        let before = engine.set_page(page).map_err(|page| (Error::Full, page))?;
        if engine.set_packed(writes, reads) {
            return Ok(before);
        }
        engine
            .set_page(before)
            .map_or_else(|before| Err((Error::Full, before)), |page| Err((Error::Unsupported, page)))
    })
}

/// Sets the device to report failures of packed commands. Then returns the largest number of
/// entries in a packed write, and in a packed read.
async fn most<B: Platform, const N: usize>(session: &mut Queued<'_, B, N>) -> Result<(u8, u8), Failed> {
    session.register(emmc::send_ext_csd(), false, 512).await?;
    let found = ExtCsd::parse(session.bytes()?).map(|ext| {
        let has = ext.ext_csd_rev() >= REV_4_5;
        if has { (ext.max_packed_writes(), ext.max_packed_reads()) } else { (0, 0) }
    });
    let most = session.parsed(found)?;
    if most == (0, 0) {
        return session.fail(Error::Unsupported);
    }
    tell_failures(session).await?;
    Ok(most)
}

/// Sets the device to report a failed packed command, until its next initialisation.
pub(super) async fn tell_failures<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
) -> Result<(), Failed> {
    let tells = emmc::switch(SwitchMode::SetBits, index::EXCEPTION_EVENTS_CTRL, PACKED_FAILURE, 0);
    session.busy_command(tells, SWITCH_NS).await.map(|_| ())
}
