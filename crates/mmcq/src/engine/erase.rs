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

use super::extras::{Event, Place, Step, refused};
use super::slot::Rules;
use super::{Engine, Error, Kind, Output};
use crate::host::Host;
use crate::sched::Profile;
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
    /// The blocks read as before, or as erased; the card chooses.
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

    /// Returns the longest time of an erase on a card that reports busy when it is polled.
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
    /// The kinds that the card can do, one [bit](Erase::bit) each.
    pub kinds: u8,
    /// Whether erases use the eMMC's commands; if false, those of SD.
    pub emmc: bool,
    /// Blocks of a unit: an eMMC's erase group, an SD card's allocation unit.
    pub unit_blocks: u32,
    /// Blocks of a group, for [`Erase::Erase`], which erases whole groups.
    pub group_blocks: u32,
    /// Whether erased blocks read as zeros (otherwise as ones, or the card does not declare it).
    pub zeros: bool,
    /// Byte of EXT_CSD from which CMD38 takes its argument as well (iNAND); 0: CMD38 uses its own
    /// argument only.
    pub argument_byte: u8,
    /// Longest time of the erase of a unit, in milliseconds.
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
    /// The bit of [`Erase::SecureErase`].
    pub const SECURE_ERASE: u8 = 8;
    /// The bit of [`Erase::SecureTrim`].
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

    /// Returns the erase after which exactly these blocks read as zeros; `None`: there is none.
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

    /// Returns the erase after which no copy of exactly these blocks is left; `None`: there is none.
    /// Whole groups are erased in one step, other blocks in two.
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

    /// Checks whether these blocks can be erased in this way, and returns the reason if not.
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

    /// Returns the delay in ns before the first poll of an erase of this many units. It is what the
    /// card declares, within fixed bounds.
    fn limit_ns(&self, how: Erase, units: u32) -> u64 {
        let declared_ms = u64::from(self.unit_ms(how)) * u64::from(units) + u64::from(self.offset_ms);
        declared_ms.saturating_mul(1_000_000).clamp(LIMIT_NS_MIN, how.longest_ns())
    }

    /// Returns the blocks of the next piece: up to the end of this many units.
    fn piece_blocks(&self, at: u64, rest: u32, units: u32) -> u32 {
        let unit = u64::from(self.unit_blocks.max(1));
        let end = (at / unit).saturating_add(u64::from(units.max(1))).saturating_mul(unit);
        u32::try_from(end.saturating_sub(at)).unwrap_or(u32::MAX).clamp(1, rest.max(1))
    }
}

/// Shortest time before an erase is polled: the limit catches a dead card, not a slow one.
const LIMIT_NS_MIN: u64 = 1_000_000_000;
/// Longest time before an erase is polled, however much the card declares.
const LIMIT_NS_MAX: u64 = 60_000_000_000;
const SECURE_NS_MAX: u64 = 600_000_000_000;
/// Longest time of the CMD6 that sets the argument in EXT_CSD.
const ARGUMENT_NS: u64 = 500_000_000;
/// Most units in a piece of an erase.
const UNITS_MAX: u32 = 1 << 16;

/// Position of the erase in progress, and the learned speed of the card.
#[derive(Debug)]
pub(super) struct Round {
    /// Blocks of the piece in progress.
    piece_blocks: u32,
    /// Whether this is the second round of a secure trim.
    second: bool,
    /// Number of units of a piece, as learned from the time of earlier pieces; 0: nothing learned
    /// yet.
    units: u32,
}

impl Round {
    pub const NONE: Round = Round { piece_blocks: 0, second: false, units: 0 };

    /// Clears what was learned: another card may be in the slot.
    pub fn unlearn(&mut self) {
        self.units = 0;
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Begins the next piece of the erase in progress.
    pub(super) fn begin_erase(&mut self, lba: u64, blocks: u32, how: Erase, now_ns: u64) {
        let slot = self.slots.at(self.lane.control());
        let (done, orphan) = (slot.moved_blocks(), slot.orphan());
        if let Err(error) = slot.result() {
            return self.end_control(Err(error));
        }
        let Some(target) = *self.card.target() else { return self.end_control(Err(Error::NoCard)) };
        let end = lba.checked_add(u64::from(blocks));
        if blocks == 0 || end.is_none_or(|end| end > target.sectors) {
            return self.end_control(Err(Error::OutOfRange { lba, sectors: target.sectors }));
        }
        let erase = self.card.abilities().erase;
        // Since the request was accepted, another card may have been inserted.
        if let Err(error) = erase.check(lba, blocks, how) {
            return self.end_control(Err(error));
        }
        let rest = blocks.saturating_sub(done);
        // The client has gone: the rest is not needed.
        if rest == 0 || orphan && done > 0 {
            return self.end_control(Ok(erased(done)));
        }
        if self.services.memory().erasing().units == 0 {
            let declared_ns = u64::from(erase.unit_ms(how)) * 1_000_000;
            let units = self.config.erase_budget_ns.checked_div(declared_ns).unwrap_or(u64::from(UNITS_MAX));
            self.services.memory_mut().erasing_mut().units =
                u32::try_from(units).unwrap_or(UNITS_MAX).clamp(1, UNITS_MAX);
        }
        let units = match self.config.erase_budget_ns {
            0 => u32::MAX,
            // An erase whose time does not depend on its size is not cut into pieces.
            _ if erase.unit_ms(how) == 0 => u32::MAX,
            _ => self.services.memory().erasing().units,
        };
        let round = self.services.memory_mut().erasing_mut();
        round.piece_blocks = erase.piece_blocks(lba.saturating_add(u64::from(done)), rest, units);
        round.second = false;
        self.services.memory_mut().start_timing(now_ns);
        self.record.erase_piece_begun();
        self.erase_round(now_ns);
    }

    /// Begins one round over the piece; a secure trim has two.
    fn erase_round(&mut self, now_ns: u64) {
        let Some((how, ..)) = self.piece() else { return };
        match self.card.abilities().erase.argument_byte {
            0 => self.erase_from(now_ns),
            byte => {
                let argument = emmc::erase(emmc_kind(how, self.services.memory().erasing().second)).arg;
                // Bits 15, 31 and the lowest two, in one byte.
                let value = (argument >> 24 | argument >> 12 | argument) as u8 & 0x8b;
                let switch = emmc::switch(emmc::SwitchMode::WriteByte, byte, value, 0);
                self.order(Place::EraseArgument, switch, ARGUMENT_NS, now_ns);
            }
        }
    }

    /// Returns the kind of the erase in progress, and the first and the last block of its piece.
    fn piece(&self) -> Option<(Erase, u64, u64)> {
        let slot = self.slots.at(self.lane.control());
        let Kind::Erase { lba, how, .. } = slot.kind() else { return None };
        let first = lba.saturating_add(u64::from(slot.moved_blocks()));
        Some((
            how,
            first,
            first.saturating_add(u64::from(self.services.memory().erasing().piece_blocks.saturating_sub(1))),
        ))
    }

    /// Sends the address of the piece's first block. Where the address has more than 32 bits, CMD22
    /// sends the upper bits first.
    fn erase_from(&mut self, now_ns: u64) {
        let (Some((_, first, _)), Some(target)) = (self.piece(), *self.card.target()) else { return };
        if target.extended_address {
            self.short(Place::EraseStartUpper, sd::address_extension((first >> 32) as u8), now_ns);
        } else {
            self.name_first(now_ns);
        }
    }

    fn name_first(&mut self, now_ns: u64) {
        let (Some((_, first, _)), Some(_)) = (self.piece(), self.card.target()) else { return };
        let addr = self.card.plan().address(first);
        let command = if self.card.abilities().erase.emmc {
            emmc::erase_group_start(addr)
        } else {
            sd::erase_wr_blk_start(addr)
        };
        self.short(Place::EraseStart, command, now_ns);
    }

    fn name_last(&mut self, now_ns: u64) {
        let (Some((_, _, last)), Some(_)) = (self.piece(), self.card.target()) else { return };
        let addr = self.card.plan().address(last);
        let command = if self.card.abilities().erase.emmc {
            emmc::erase_group_end(addr)
        } else {
            sd::erase_wr_blk_end(addr)
        };
        self.short(Place::EraseEnd, command, now_ns);
    }

    pub(super) fn erase_reached(&mut self, place: Place, status: u32, now_ns: u64) {
        let (Some((how, first, last)), Some(target)) = (self.piece(), *self.card.target()) else {
            return self.end_control(Err(Error::NoCard));
        };
        // Bit 7 of R1 (SWITCH_ERROR) is reserved on SD.
        let erase = self.card.abilities().erase;
        let errors = if erase.emmc { R1::ERRORS } else { R1::ERRORS & !R1::SWITCH_ERROR };
        if status & errors != 0 {
            return self.end_control(Err(refused(status)));
        }
        match place {
            Place::EraseArgument => self.erase_from(now_ns),
            Place::EraseStartUpper => self.name_first(now_ns),
            Place::EraseStart if target.extended_address => {
                self.short(Place::EraseEndUpper, sd::address_extension((last >> 32) as u8), now_ns);
            }
            Place::EraseStart | Place::EraseEndUpper => self.name_last(now_ns),
            Place::EraseEnd => {
                let unit = u64::from(erase.unit_blocks.max(1));
                let units = u32::try_from(last / unit - first / unit + 1).unwrap_or(u32::MAX);
                let limit_ns = erase.limit_ns(how, units);
                let go = match erase.emmc {
                    true => emmc::erase(emmc_kind(how, self.services.memory().erasing().second)),
                    false if how == Erase::Discard => sd::erase(sd::SdErase::Discard),
                    false => sd::erase(sd::SdErase::Erase),
                };
                self.order(Place::Erase, go, limit_ns, now_ns);
            }
            _ if matches!(how, Erase::SecureTrim(_)) && !self.services.memory().erasing().second => {
                self.services.memory_mut().erasing_mut().second = true;
                self.erase_round(now_ns);
            }
            _ => self.piece_erased(now_ns),
        }
    }

    /// Returns whether the card has accepted the erase, and only its end was not seen in time. With
    /// `surely`, returns true only if the card or the controller has reported this.
    pub(super) fn awaits_end_of_erase(&self, surely: bool) -> bool {
        let erases = P::RECOVERS
            && self.lane.has_control()
            && matches!(self.slots.at(self.lane.control()).kind(), Kind::Erase { .. });
        erases
            && match self.services.memory().step() {
                Step::Status(Place::Erase) => true,
                Step::Order(Place::Erase) if surely => self.incident.failed().is_in_busy(),
                Step::Order(Place::Erase) => self.incident.failed().may_be_in_busy(),
                _ => false,
            }
    }

    /// Completes a piece that took longer than its deadline: the card, polled later, is ready
    /// without an error.
    pub(super) fn erase_ended_late(&mut self, now_ns: u64) {
        self.services.memory_mut().set_step(Step::Status(Place::Erase));
        self.extra(Event::Done(0), now_ns);
    }

    /// Continues after a piece: other requests run first, then the next piece.
    fn piece_erased(&mut self, now_ns: u64) {
        let index = self.lane.control();
        let budget_ns = self.config.erase_budget_ns;
        let took_ns = self.services.memory().took_ns(now_ns);
        let units = &mut self.services.memory_mut().erasing_mut().units;
        if took_ns < budget_ns / 4 {
            *units = units.saturating_mul(2).min(UNITS_MAX);
        } else if took_ns > budget_ns {
            *units = (*units / 2).max(1);
        }
        let slot = self.slots.at_mut(index);
        slot.set_moved(slot.moved_blocks().saturating_add(self.services.memory().erasing().piece_blocks));
        let Kind::Erase { lba, blocks, .. } = slot.kind() else { return };
        let (moved, durable) = (slot.moved_blocks(), slot.rules().has(Rules::DURABLE));
        if moved < blocks {
            self.lane.release_control();
            self.slots.push_rest(
                index,
                lba.saturating_add(u64::from(moved)),
                lba.saturating_add(u64::from(blocks)),
            );
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        } else if durable {
            self.slots.at_mut(index).answer(Ok(erased(moved)));
            self.begin_flush(now_ns);
        } else {
            self.end_control(Ok(erased(moved)));
        }
    }
}

fn erased(blocks: u32) -> Output {
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
