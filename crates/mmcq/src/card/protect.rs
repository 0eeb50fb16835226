//! Write protection and the card's lock [SD 4.3.6, 4.3.7], [eMMC 6.6.15, 6.6.19].
//!
//! Any caller may request a protection that lasts until the next power cycle. A protection that
//! cannot be undone, or a lock that excludes everyone without the password, needs an
//! [`Irreversible`].

use super::link::Link;
use super::maintain::switch;
use super::partition::Area;
use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{BLOCK_BYTES, Breach, DmaBuf, Error, Irreversible, Kind, Request};
use crate::spec::command;
use crate::spec::ext_csd::index;
use crate::spec::response::R1;
use crate::spec::timing::emmc as limits;
use crate::task::{Platform, Stack};
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

/// How long a protection lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// Until power is switched off or the card is reset. A recovery may do either
    /// ([`RecoveryStep::Reinit`](crate::engine::RecoveryStep::Reinit),
    /// [`RecoveryStep::PowerCycle`](crate::engine::RecoveryStep::PowerCycle) in
    /// [`Stats::recovery_steps`](crate::engine::Stats::recovery_steps)); then protect the card
    /// again.
    UntilPowerOff,
    /// The protection lasts for ever.
    ForEver(Irreversible),
}

/// Bit of BOOT_WP [eMMC 7.4.73]: the protection is for one boot area, not for both.
const SECTION_OF_ITS_OWN: u8 = 1 << 7;
/// Bit of BOOT_WP: the boot area that is protected for ever is boot area 2; without this bit it is
/// boot area 1.
const PERMANENT_SECOND: u8 = 1 << 3;
/// Bit of BOOT_WP: protects for ever.
const PERMANENT: u8 = 1 << 2;
/// Bit of BOOT_WP: the boot area that is protected until power-off is boot area 2; without this bit
/// it is boot area 1.
const POWER_ON_SECOND: u8 = 1 << 1;
/// Bit of BOOT_WP: protects until power-off or reset.
const POWER_ON: u8 = 1;

/// Protects a boot area of an eMMC against writes; does not change the other boot area.
pub async fn protect_boot<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    area: Area,
    lasts: Lasts,
) -> Result<(), Error> {
    let second = match (&card.family, area) {
        (Family::Emmc(_), Area::Boot1) => false,
        (Family::Emmc(_), Area::Boot2) => true,
        _ => return Err(Error::Unsupported),
    };
    let value = match (lasts, second) {
        (Lasts::UntilPowerOff, false) => SECTION_OF_ITS_OWN | POWER_ON,
        (Lasts::UntilPowerOff, true) => SECTION_OF_ITS_OWN | POWER_ON_SECOND | POWER_ON,
        (Lasts::ForEver(_), false) => SECTION_OF_ITS_OWN | PERMANENT,
        (Lasts::ForEver(_), true) => SECTION_OF_ITS_OWN | PERMANENT_SECOND | PERMANENT,
    };
    switch(stack, card, index::BOOT_WP, value, limits::SWITCH_NS).await
}

/// Protects the group of blocks that contains `lba` on this card, or removes its protection
/// [SD 4.3.6], [eMMC 6.6.15]. On an eMMC the register USER_WP sets the kind of protection; a
/// protection of the default kind can be removed.
pub async fn protect_group<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    lba: u32,
    on: bool,
) -> Result<(), Error> {
    let number = stack.with(|engine| {
        engine.enable_extended_ops();
        engine.number_of(card.identity())
    });
    let address = match card.params.block_addressed {
        true => lba,
        false => lba.checked_mul(BLOCK_BYTES).ok_or(Error::Unsupported)?,
    };
    let command = if on { command::set_write_prot(address) } else { command::clr_write_prot(address) };
    let order = Kind::LongCommand { command, timeout_ns: limits::SWITCH_NS };
    stack.request(Request::new(order, DmaBuf::EMPTY).for_card(number)).await.result.map(|_| ())
}

/// Largest length of a password, in bytes.
pub const PASSWORD_MAX: usize = 16;

/// Operations of CMD42 [SD 4.3.7].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp<'a> {
    /// Unlocks a locked card, until it is reset or locked again.
    Unlock(&'a [u8]),
    /// Locks the card now. The password must be known, because without it the card stays locked.
    Lock(&'a [u8], Irreversible),
    /// Sets the password of a card without one; the card is locked from its next power-up on.
    SetPassword(&'a [u8], Irreversible),
    /// Removes the password, so that the card is no longer locked at power-up.
    ClearPassword(&'a [u8]),
    /// Erases all data on a locked card, and its password.
    ForceErase(Irreversible),
}

/// Bit of the mode byte in the data block of CMD42: sets the password.
const SET_PWD: u8 = 1;
/// Bit of CMD42's mode byte: removes the password.
const CLR_PWD: u8 = 1 << 1;
/// Bit of CMD42's mode byte: locks the card; without this bit the card is unlocked.
const LOCK: u8 = 1 << 2;
/// Bit of CMD42's mode byte: erases all data and the password.
const ERASE: u8 = 1 << 3;

impl LockOp<'_> {
    fn parts(&self) -> (u8, &[u8]) {
        match *self {
            LockOp::Unlock(password) => (0, password),
            LockOp::Lock(password, _) => (LOCK, password),
            LockOp::SetPassword(password, _) => (SET_PWD, password),
            LockOp::ClearPassword(password) => (CLR_PWD, password),
            LockOp::ForceErase(_) => (ERASE, &[]),
        }
    }

    /// Writes the data of CMD42 (mode, length, password) into `block`, and zeros behind them. An
    /// error if the password is too long.
    fn fill(&self, block: &mut [u8]) -> Result<(), Error> {
        let (mode, password) = self.parts();
        if password.len() > PASSWORD_MAX {
            return Err(Error::Protocol(Breach::LongPassword));
        }
        let length = if mode == ERASE { None } else { Some(password.len() as u8) };
        let bytes = [mode].into_iter().chain(length).chain(password.iter().copied());
        for (to, from) in block.iter_mut().zip(bytes.chain(core::iter::repeat(0))) {
            *to = from;
        }
        Ok(())
    }
}

/// Longest time of all operations except a forced erase, in nanoseconds.
const LOCK_NS: u64 = 1_000_000_000;

/// Locks, unlocks or erases the card by CMD42. The password is cleared from `block` (512 bytes)
/// before `block` is returned. [`Error::Locked`]: the operation failed, and the card is (still)
/// locked. [`Error::Card`], or [`Error::Protocol`] with [`Breach::StaysOpen`]: the operation
/// failed, and the card is unlocked. [`Error::Unsupported`]: nothing was sent, since the card is an
/// eMMC in DDR52 or HS400, where CMD42 is illegal; bring it up [without](super::Options::without)
/// these timings first. After any other error the card may be locked or unlocked.
///
/// No other request may be in the queue. After the card was locked, requests fail with
/// [`Error::Locked`].
pub async fn lock<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    block: DmaBuf,
    op: LockOp<'_>,
) -> (Result<(), Error>, DmaBuf) {
    let given = block.len_bytes();
    if given < BLOCK_BYTES {
        return (Err(Error::Buffer { needed: BLOCK_BYTES, given }), block);
    }
    if matches!(card.family, Family::Emmc(_)) && stack.with(|engine| engine.bus().ddr) {
        return (Err(Error::Unsupported), block);
    }
    let mut session = Session::with(stack, block, card);
    let result = told(&mut session, &op).await.map_err(|Failed| session.error);
    (result, session.into_scratch())
}

async fn told<L: Link>(session: &mut Session<L>, op: &LockOp<'_>) -> Result<(), Failed> {
    let limit_ns = if matches!(op, LockOp::ForceErase(_)) { limits::FORCE_ERASE_NS } else { LOCK_NS };
    let status = session.lock(|block| op.fill(block), limit_ns).await?.0;
    judged(status, op).or_else(|error| session.fail(error))
}

/// Returns whether the CMD42 for `op` has succeeded, from the card's status after it: with a lock
/// the card must now be locked, otherwise unlocked.
fn judged(status: u32, op: &LockOp<'_>) -> Result<(), Error> {
    let failed = status & (R1::OWN | R1::DEFERRED) != 0;
    match (failed, status & R1::CARD_IS_LOCKED != 0, op) {
        (false, true, LockOp::Lock(..)) => Ok(()),
        (false, false, LockOp::Lock(..)) => Err(Error::Protocol(Breach::StaysOpen)),
        (false, false, _) => Ok(()),
        (_, true, _) => Err(Error::Locked),
        (true, false, _) => Err(Error::Card(status)),
    }
}

/// Handles a card that cannot be selected during bring-up: if the reason is a lock, and `unlock`
/// has the password, unlocks the card.
pub(super) async fn open<L: Link>(
    session: &mut Session<L>,
    unlock: Option<&'static LockOp<'static>>,
) -> Result<(), Failed> {
    let Some(op) = unlock.filter(|_| matches!(session.error, Error::Locked)) else { return Err(Failed) };
    let mut opening = pin!(told(session, op));
    // Written by hand: a compiler keeps all code that an `async` function waits for, and lean
    // firmware must not contain this code.
    poll_fn(|context| match L::RECOVERS {
        true => opening.as_mut().poll(context),
        false => Poll::Ready(Err(Failed)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests a card that ignores the data block of CMD42: it is not reported as locked.
    #[test]
    fn an_operation_is_done_when_the_card_says_so() {
        let sure = Irreversible::i_know_that_this_cannot_be_undone();
        let (open, locked, failed) = (0x900, 0x900 | R1::CARD_IS_LOCKED, R1::LOCK_UNLOCK_FAILED);
        let lock = LockOp::Lock(b"open", sure);
        assert_eq!(judged(locked, &lock), Ok(()));
        assert!(matches!(judged(open, &lock), Err(Error::Protocol(_))));
        assert_eq!(judged(open | failed, &lock), Err(Error::Card(open | failed)));
        for op in [LockOp::Unlock(b"open"), LockOp::ClearPassword(b"open"), LockOp::ForceErase(sure)] {
            assert_eq!(judged(open, &op), Ok(()));
            assert_eq!(judged(locked, &op), Err(Error::Locked));
            assert_eq!(judged(locked | failed, &op), Err(Error::Locked));
        }
    }

    #[test]
    fn blocks_of_cmd42() {
        let mut block = [0xee; 512];
        LockOp::Unlock(b"open").fill(&mut block).unwrap();
        assert_eq!(block[..8], [0, 4, b'o', b'p', b'e', b'n', 0, 0]);
        let sure = Irreversible::i_know_that_this_cannot_be_undone();
        LockOp::SetPassword(b"ab", sure).fill(&mut block).unwrap();
        assert_eq!(block[..5], [1, 2, b'a', b'b', 0]);
        LockOp::ForceErase(sure).fill(&mut block).unwrap();
        assert_eq!(block[..3], [8, 0, 0]);
        assert!(LockOp::Lock(&[0; 17], sure).fill(&mut block).is_err());
        assert!(block[3..].iter().all(|&byte| byte == 0));
    }
}
