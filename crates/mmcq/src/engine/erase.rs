//! Requests for blocks that need not keep their content: erase, trim, discard [SD 4.3.5], [eMMC
//! 6.6.9 to 6.6.12].
//!
//! An erase is done in pieces of whole units (erase groups, allocation units). After each piece the
//! remaining blocks of the erase move behind the waiting requests that do not overlap them. So a
//! waiting request waits for one piece of each erase that was there before. Requests that overlap
//! the remaining blocks stay behind the erase, and so does everything behind a barrier. If the card
//! is initialised again in the middle of a piece, that piece is erased twice; nothing can have been
//! written to its blocks meanwhile. A piece that fails, or that was aborted because it did not end,
//! is not tried again.
//!
//! If an erase takes longer than the declared time, the engine polls the card for a minute (ten for
//! a secure erase). If the card becomes ready without an error, the piece counts as erased.

use super::card::Card;
use super::extras::{Memory, Next, Place, Step, refused};
use super::lane::Lane;
use super::recover::Incident;
use super::slot::{Slot, Slots};
use super::{Error, Kind, Output};
use crate::sched::{Lanes, Profile};
use crate::spec::command::{emmc, sd};
use crate::spec::response::R1;

/// Permission for an operation that cannot be undone. The stack itself never makes such a
/// permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irreversible(());

impl Irreversible {
    /// Makes the permission. The caller has decided that data may be lost for ever, or that the
    /// card may be changed for ever.
    pub const fn i_know_that_this_cannot_be_undone() -> Self {
        Irreversible(())
    }
}

/// Kinds of erase, by what happens to the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erase {
    /// The blocks read as erased blocks afterwards. An eMMC erases whole erase groups only.
    Erase,
    /// Only eMMC: any blocks; they read as erased blocks afterwards.
    Trim,
    /// Afterwards the blocks read as their old content or as erased blocks; the card chooses.
    Discard,
    /// Only eMMC: erases whole erase groups, and all copies of them, before the command ends.
    SecureErase(Irreversible),
    /// Only eMMC: erases any blocks, and all copies of them, before the command ends.
    SecureTrim(Irreversible),
}

impl Erase {
    /// Returns the bit of this kind of erase in [`Erasing::kinds`].
    pub const fn bit(self) -> u8 {
        match self {
            Erase::Erase => 1,
            Erase::Trim => 2,
            Erase::Discard => 4,
            Erase::SecureErase(_) => Erasing::SECURE_ERASE,
            Erase::SecureTrim(_) => Erasing::SECURE_TRIM,
        }
    }

    /// Returns for how long recovery polls a card that is still busy with an erase.
    pub(super) const fn longest_ns(self) -> u64 {
        match self {
            Erase::SecureErase(_) | Erase::SecureTrim(_) => SECURE_NS_MAX,
            Erase::Erase | Erase::Trim | Erase::Discard => LIMIT_NS_MAX,
        }
    }
}

/// How a card erases. The card declares the times, for one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erasing {
    /// The kinds of erase that the card supports, one [bit](Erase::bit) each.
    pub kinds: u8,
    /// Whether erases use the eMMC's commands; if false, those of SD.
    pub emmc: bool,
    /// Number of blocks in a unit: an eMMC's erase group, or an SD card's allocation unit.
    pub unit_blocks: u32,
    /// Number of blocks in a group; [`Erase::Erase`] erases whole groups.
    pub group_blocks: u32,
    /// Whether erased blocks read as zeros. If false, they read as ones, or the card does not
    /// declare how they read.
    pub zeros: bool,
    /// Byte of EXT_CSD from which CMD38 takes its argument as well (iNAND); 0: CMD38 uses its own
    /// argument only.
    pub argument_byte: u8,
    /// Longest time of the erase of one unit ([`unit_blocks`](Self::unit_blocks)), in milliseconds.
    pub erase_ms: u32,
    /// Longest time of a trim or discard in a unit, in milliseconds.
    pub trim_ms: u32,
    /// Longest time of the secure erase of a unit, in milliseconds.
    pub secure_erase_ms: u32,
    /// Longest time of a secure trim in a unit, in milliseconds, for each of its two steps.
    pub secure_trim_ms: u32,
    /// Time in milliseconds that is added to every erase.
    pub offset_ms: u32,
}

setters!(Erasing {
    kinds: u8,
    emmc: bool,
    unit_blocks: u32,
    group_blocks: u32,
    zeros: bool,
    argument_byte: u8,
    erase_ms: u32,
    trim_ms: u32,
    secure_erase_ms: u32,
    secure_trim_ms: u32,
    offset_ms: u32,
});

impl Erasing {
    /// The bit for [`Erase::SecureErase`] in the set of kinds of erase that a card has.
    pub const SECURE_ERASE: u8 = 8;
    /// The bit for [`Erase::SecureTrim`] in the set of kinds of erase that a card has.
    pub const SECURE_TRIM: u8 = 16;

    /// The value for a card that cannot erase.
    pub const NONE: Erasing = Erasing {
        kinds: 0,
        emmc: false,
        unit_blocks: 1,
        group_blocks: 1,
        zeros: false,
        argument_byte: 0,
        erase_ms: 0,
        trim_ms: 0,
        secure_erase_ms: 0,
        secure_trim_ms: 0,
        offset_ms: 0,
    };

    /// Returns whether the card has this kind of erase.
    pub const fn can(&self, how: Erase) -> bool {
        self.kinds & how.bit() != 0
    }

    /// Returns the erase after which exactly the `blocks` blocks from `lba` on read as zeros;
    /// `None`: there is none.
    pub fn zeroing(&self, lba: u64, blocks: u32) -> Option<Erase> {
        match self.zeros {
            true if self.emmc && self.can(Erase::Trim) => Some(Erase::Trim),
            true if self.can(Erase::Erase) && self.whole(lba, blocks) => Some(Erase::Erase),
            _ => None,
        }
    }

    /// Returns the erase for blocks that are not needed any more: the cheapest that the card has.
    /// `None`: it has none.
    pub const fn discarding(&self) -> Option<Erase> {
        if self.can(Erase::Discard) {
            Some(Erase::Discard)
        } else if self.can(Erase::Trim) {
            Some(Erase::Trim)
        } else if self.can(Erase::Erase) {
            Some(Erase::Erase)
        } else {
            None
        }
    }

    /// Returns the erase after which no copy of exactly the `blocks` blocks from `lba` on is left;
    /// `None`: the card has none. Whole groups are erased in one step, other blocks in two.
    /// `leave`: the permission for an irreversible operation.
    pub fn securing(&self, lba: u64, blocks: u32, leave: Irreversible) -> Option<Erase> {
        let (erase, trim) = (Erase::SecureErase(leave), Erase::SecureTrim(leave));
        match self.whole(lba, blocks) {
            true if self.can(erase) => Some(erase),
            _ => self.can(trim).then_some(trim),
        }
    }

    /// Returns the smallest number of blocks that this kind of erase can erase.
    pub const fn grain_blocks(&self, how: Erase) -> u32 {
        match how {
            Erase::Erase | Erase::SecureErase(_) if self.group_blocks > 1 => self.group_blocks,
            _ => 1,
        }
    }

    /// Checks whether `blocks` blocks from `lba` on can be erased in the way `how`, and returns the
    /// reason if not.
    pub(super) fn check(&self, lba: u64, blocks: u32, how: Erase) -> Result<(), Error> {
        let group_blocks = self.grain_blocks(how);
        if !self.can(how) {
            Err(Error::Unsupported)
        } else if group_blocks > 1 && !self.whole(lba, blocks) {
            Err(Error::Unaligned { group_blocks })
        } else {
            Ok(())
        }
    }

    fn whole(&self, lba: u64, blocks: u32) -> bool {
        let group = u64::from(self.group_blocks.max(1));
        lba.is_multiple_of(group) && u64::from(blocks).is_multiple_of(group)
    }

    const fn unit_ms(&self, how: Erase) -> u32 {
        match how {
            Erase::Erase => self.erase_ms,
            Erase::Trim | Erase::Discard => self.trim_ms,
            Erase::SecureErase(_) => self.secure_erase_ms,
            Erase::SecureTrim(_) => self.secure_trim_ms,
        }
    }

    /// Returns how long an erase of this many units may take, in ns, before recovery takes over and
    /// polls the card. It is the time that the card declares, within fixed bounds.
    fn limit_ns(&self, how: Erase, units: u32) -> u64 {
        let declared_ms = u64::from(self.unit_ms(how)) * u64::from(units) + u64::from(self.offset_ms);
        declared_ms.saturating_mul(1_000_000).clamp(LIMIT_NS_MIN, how.longest_ns())
    }

    /// Returns the number of blocks of the next piece of an erase. The piece begins at block `at`,
    /// and ends with the last of `units` erase units, or after `rest` blocks.
    fn piece_blocks(&self, at: u64, rest: u32, units: u32) -> u32 {
        let unit = u64::from(self.unit_blocks.max(1));
        let end = (at / unit).saturating_add(u64::from(units.max(1))).saturating_mul(unit);
        u32::try_from(end.saturating_sub(at)).unwrap_or(u32::MAX).clamp(1, rest.max(1))
    }
}

/// Shortest time limit of an erase, in ns, before recovery takes over: the limit is for a card that
/// does not end its busy any more, not for a slow one.
const LIMIT_NS_MIN: u64 = 1_000_000_000;
/// Longest time limit of an erase, however much the card declares.
const LIMIT_NS_MAX: u64 = 60_000_000_000;
const SECURE_NS_MAX: u64 = 600_000_000_000;
/// Longest time of the CMD6 that sets the argument in EXT_CSD.
const ARGUMENT_NS: u64 = 500_000_000;
/// Largest number of units (erase groups or allocation units) in one piece of an erase.
const UNITS_MAX: u32 = 1 << 16;

/// Position of the erase in progress, and the size of its pieces, chosen by the measured speed of
/// the card.
#[derive(Debug)]
pub(super) struct Round {
    /// Number of blocks that the CMD38 in progress erases: one piece of the whole erase.
    piece_blocks: u32,
    /// Whether the piece in progress is in the second of the two steps of a secure trim.
    second: bool,
    /// Whether the piece in progress has as many units as [`Self::units`] allows, and so ends
    /// before the end of the erase.
    full: bool,
    /// Kind of the erase whose times have given [`Self::units`].
    how: Erase,
    /// Number of erase units in one piece (part of an erase that one CMD38 does), as learned from
    /// the time of earlier pieces of the same kind; 0: nothing learned yet.
    units: u32,
}

impl Round {
    pub const NONE: Round =
        Round { piece_blocks: 0, second: false, full: false, how: Erase::Erase, units: 0 };

    /// Sets [`Self::units`] back to 0 (not measured): another card may be in the slot.
    pub fn unlearn(&mut self) {
        self.units = 0;
    }
}

impl Round {
    /// Begins the next piece of the erase in this slot. `budget_ns`: about the time that a piece
    /// may take.
    pub fn begin(&mut self, slot: &Slot, card: &Card, budget_ns: u64) -> Next {
        match self.cut(slot, card, budget_ns) {
            Ok(piece) => self.first_step(piece, card),
            Err(result) => Next::End(result),
        }
    }

    /// Chooses the blocks of the next part of an erase that takes several commands. `budget_ns`:
    /// longest time in ns that one part should take; 0: no limit. Returns the erase's result if no
    /// blocks are left, or an error if the card cannot erase these blocks.
    fn cut(&mut self, slot: &Slot, card: &Card, budget_ns: u64) -> Result<Piece, Result<Output, Error>> {
        slot.result().map_err(Err)?;
        let Kind::Erase { lba, blocks, how } = slot.kind() else { return Err(Err(Error::Unsupported)) };
        let done = slot.moved_blocks();
        let sectors = card.target().as_ref().ok_or(Err(Error::NoCard))?.sectors;
        let end = lba.checked_add(u64::from(blocks));
        if blocks == 0 || end.is_none_or(|end| end > sectors) {
            return Err(Err(Error::OutOfRange { lba, sectors }));
        }
        let erase = &card.abilities().erase;
        // Since the request was accepted, another card may have been inserted.
        erase.check(lba, blocks, how).map_err(Err)?;
        let rest = blocks.saturating_sub(done);
        // The client has gone: the rest is not needed.
        if rest == 0 || slot.orphan() && done > 0 {
            return Err(Ok(erased(done)));
        }
        if self.how != how {
            (self.how, self.units) = (how, 0);
        }
        if self.units == 0 {
            let declared_ns = u64::from(erase.unit_ms(how)) * 1_000_000;
            let units = budget_ns.checked_div(declared_ns).unwrap_or(u64::from(UNITS_MAX));
            self.units = u32::try_from(units).unwrap_or(UNITS_MAX).clamp(1, UNITS_MAX);
        }
        let units = match budget_ns {
            0 => u32::MAX,
            // An erase whose time does not depend on its size is not cut into pieces.
            _ if erase.unit_ms(how) == 0 => u32::MAX,
            _ => self.units,
        };
        self.piece_blocks = erase.piece_blocks(lba.saturating_add(u64::from(done)), rest, units);
        self.full = self.piece_blocks < rest;
        self.second = false;
        self.piece(slot).ok_or(Err(Error::Unsupported))
    }

    /// Returns the part of the erase in this slot that the card erases now or next: a long erase is
    /// sent in parts. `None`: the request is no erase.
    fn piece(&self, slot: &Slot) -> Option<Piece> {
        let Kind::Erase { lba, how, .. } = slot.kind() else { return None };
        let first = lba.saturating_add(u64::from(slot.moved_blocks()));
        let last = first.saturating_add(u64::from(self.piece_blocks.saturating_sub(1)));
        Some(Piece { how, first, last })
    }

    /// Returns the first command of a pass over the piece's blocks: the commands from the erase
    /// argument or the first address to CMD38. A secure trim needs two passes.
    fn first_step(&self, piece: Piece, card: &Card) -> Next {
        match card.abilities().erase.argument_byte {
            0 => piece.begin_address(card),
            byte => {
                let argument = emmc::erase(emmc_kind(piece.how, self.second)).arg;
                // Bits 15, 31 and the lowest two, in one byte.
                let value = (argument >> 24 | argument >> 12 | argument) as u8 & 0x8b;
                let switch = emmc::switch(emmc::SwitchMode::WriteByte, byte, value, 0);
                Next::Order(Place::EraseArgument, switch, ARGUMENT_NS)
            }
        }
    }

    /// Continues the erase in this slot after its step `place`, which has ended with the R1
    /// `status`.
    pub fn reached(&mut self, place: Place, status: u32, slot: &Slot, card: &Card) -> Next {
        let (Some(piece), Some(target)) = (self.piece(slot), card.target()) else {
            return Next::fail(Error::NoCard);
        };
        // Bit 7 of R1 (SWITCH_ERROR) is reserved on SD.
        let erase = &card.abilities().erase;
        let errors = if erase.emmc { R1::ERRORS } else { R1::ERRORS & !R1::SWITCH_ERROR };
        if status & errors != 0 {
            return Next::fail(refused(status));
        }
        match place {
            Place::EraseArgument => piece.begin_address(card),
            Place::EraseStartUpper => piece.name_first(card),
            Place::EraseStart if target.extended_address => {
                Next::Command(Place::EraseEndUpper, sd::address_extension((piece.last >> 32) as u8))
            }
            Place::EraseStart | Place::EraseEndUpper => piece.name_last(card),
            Place::EraseEnd => {
                let unit = u64::from(erase.unit_blocks.max(1));
                let units = u32::try_from(piece.last / unit - piece.first / unit + 1).unwrap_or(u32::MAX);
                let go = match erase.emmc {
                    true => emmc::erase(emmc_kind(piece.how, self.second)),
                    false if piece.how == Erase::Discard => sd::erase(sd::SdErase::Discard),
                    false => sd::erase(sd::SdErase::Erase),
                };
                Next::Order(Place::Erase, go, erase.limit_ns(piece.how, units))
            }
            _ if matches!(piece.how, Erase::SecureTrim(_)) && !self.second => {
                self.second = true;
                self.first_step(piece, card)
            }
            _ => Next::Erased,
        }
    }

    /// Learns, from the time `took_ns` of a piece, how many units the next pieces have, so that
    /// each takes at most about `budget_ns`. The number grows only after a piece that had this
    /// number of units: a smaller piece does not show whether a larger one would take too long.
    /// Returns the blocks of the piece that has ended.
    pub fn learn(&mut self, took_ns: u64, budget_ns: u64) -> u32 {
        if self.full && took_ns < budget_ns / 4 {
            self.units = self.units.saturating_mul(2).min(UNITS_MAX);
        } else if took_ns > budget_ns {
            self.units = (self.units / 2).max(1);
        }
        self.piece_blocks
    }
}

/// A part of an erase request that is erased at a time: the kind of erase, the first and the last
/// block.
#[derive(Clone, Copy, Debug)]
struct Piece {
    how: Erase,
    first: u64,
    last: u64,
}

impl Piece {
    /// Returns the step that sends the address of the first block. Where addresses have more than
    /// 32 bits, CMD22 sends the upper bits first.
    fn begin_address(self, card: &Card) -> Next {
        if card.target().is_some_and(|target| target.extended_address) {
            Next::Command(Place::EraseStartUpper, sd::address_extension((self.first >> 32) as u8))
        } else {
            self.name_first(card)
        }
    }

    fn name_first(self, card: &Card) -> Next {
        let addr = card.plan().address(self.first);
        let emmc = card.abilities().erase.emmc;
        let command = if emmc { emmc::erase_group_start(addr) } else { sd::erase_wr_blk_start(addr) };
        Next::Command(Place::EraseStart, command)
    }

    fn name_last(self, card: &Card) -> Next {
        let addr = card.plan().address(self.last);
        let emmc = card.abilities().erase.emmc;
        let command = if emmc { emmc::erase_group_end(addr) } else { sd::erase_wr_blk_end(addr) };
        Next::Command(Place::EraseEnd, command)
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether an erase is in progress that the card has accepted, and only its end was not
    /// seen in time. The flush after a durable erase does not count as an erase. `surely`: returns
    /// true only if the card or the controller has reported that the card was busy.
    pub fn awaits_end_of_erase<const N: usize, P: Profile>(
        &self,
        incident: &Incident,
        slots: &Slots<N>,
        memory: &Memory,
        surely: bool,
    ) -> bool {
        let erases = P::RECOVERS
            && self.has_control()
            && matches!(slots.at(self.control()).kind(), Kind::Erase { blocks, .. }
                if slots.at(self.control()).moved_blocks() < blocks);
        erases
            && match memory.step() {
                Step::Status(Place::Erase) => true,
                Step::Order(Place::Erase) if surely => incident.failed().is_in_busy(),
                Step::Order(Place::Erase) => incident.failed().may_be_in_busy(),
                _ => false,
            }
    }
}

pub(super) fn erased(blocks: u32) -> Output {
    Output { bytes: blocks.saturating_mul(super::BLOCK_BYTES), ..Output::default() }
}

const fn emmc_kind(how: Erase, second: bool) -> emmc::EmmcErase {
    match how {
        Erase::Erase => emmc::EmmcErase::Erase,
        Erase::Trim => emmc::EmmcErase::Trim,
        Erase::Discard => emmc::EmmcErase::Discard,
        Erase::SecureErase(_) => emmc::EmmcErase::SecureErase,
        Erase::SecureTrim(_) if second => emmc::EmmcErase::SecureTrim2,
        Erase::SecureTrim(_) => emmc::EmmcErase::SecureTrim1,
    }
}
