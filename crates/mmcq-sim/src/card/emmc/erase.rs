//! Erase, trim, discard (CMD35, CMD36, CMD38) and sanitize on an eMMC [eMMC 6.6.9 to 6.6.13].

use super::super::Reply;
use super::super::cut::mixed;
use super::super::quirk::Discarded;
use super::super::status::{self, State};
use super::EmmcCard;
use super::config::{ERASE_GROUP_BYTES, Revision, byte};
use crate::faults::{Point, Strike};
use crate::plant;

/// Argument of CMD38: erase whole erase groups.
const ERASE: u32 = 0;
/// Argument of CMD38: erase single blocks.
const TRIM: u32 = 1;
/// Argument of CMD38: the content of the blocks is not needed any more.
const DISCARD: u32 = 3;
/// Argument of CMD38: secure erase of whole erase groups.
const SECURE_ERASE: u32 = 0x8000_0000;
/// Argument of CMD38: secure trim, step 1 (marks blocks).
const SECURE_TRIM_1: u32 = 0x8000_0001;
/// Argument of CMD38: secure trim, step 2 (erases the marked blocks).
const SECURE_TRIM_2: u32 = 0x8000_8000;

impl EmmcCard {
    /// Executes CMD35 (`is_start`) or CMD36, which set the first or the last block of an erase.
    /// `arg`: the address of that block, as in the command.
    pub(super) fn erase_edge(&mut self, is_start: bool, arg: u32) {
        let at = self.byte_address(arg) & !511;
        let errors = self.erase.edge(is_start, at, self.capacity());
        self.status.raise(errors);
    }

    /// Returns the operation of a CMD38 on a card with the quirk `inand_cmd38`. Such a card takes
    /// the operation from byte 113 of EXT_CSD, and not from the argument `arg`.
    fn hidden_argument(&mut self, arg: u32, now_ns: u64) -> u32 {
        let hidden = match self.ext_csd[usize::from(byte::INAND_CMD38)] {
            0x01 => TRIM,
            0x80 => SECURE_ERASE,
            0x81 => SECURE_TRIM_1,
            0x88 => SECURE_TRIM_2,
            _ => ERASE,
        };
        if hidden != arg {
            self.interface.trouble.violate("CMD38 without its argument in EXT_CSD[113]", now_ns);
        }
        hidden
    }

    /// Executes CMD38: an erase works on whole erase groups, trim and discard work on sectors.
    pub(super) fn erase_command(&mut self, arg: u32, now_ns: u64) -> Reply {
        let range = std::mem::take(&mut self.erase);
        let (Some(start), Some(end)) = (range.start, range.end) else {
            return self.refuse(38, status::ERASE_SEQ_ERROR);
        };
        let arg = if self.config.quirks.inand_cmd38 { self.hidden_argument(arg, now_ns) } else { arg };
        let features = self.ext_csd[usize::from(byte::SEC_FEATURE_SUPPORT)];
        let since_4_5 = self.config.revision >= Revision::V4_5;
        let whole_groups = match arg {
            ERASE => true,
            SECURE_ERASE if features & 0x01 != 0 => true,
            TRIM if features & 0x10 != 0 => false,
            SECURE_TRIM_1 | SECURE_TRIM_2 if features & 0x11 == 0x11 => false,
            DISCARD if since_4_5 => false,
            _ => return self.refuse(38, status::ERROR),
        };
        if end < start {
            return self.refuse(38, status::ERASE_PARAM);
        }
        let (from, to) = if whole_groups {
            let to = (end / ERASE_GROUP_BYTES + 1) * ERASE_GROUP_BYTES;
            (start / ERASE_GROUP_BYTES * ERASE_GROUP_BYTES, to.min(self.capacity()))
        } else {
            (start, end + 512)
        };
        if self.write_protected(from, to - from) {
            return self.refuse(38, status::WP_ERASE_SKIP);
        }
        let erased = match (arg, self.flash.faults.strike(Point::Medium)) {
            // The first step of a secure trim only marks the sectors.
            (SECURE_TRIM_1, _) | (_, Some(Strike::Lost)) => Ok(()),
            (_, Some(Strike::Fail)) => Err(std::io::ErrorKind::Other.into()),
            _ => self.wipe(from, to, arg == DISCARD, now_ns),
        };
        if erased.is_err() {
            self.status.raise(status::ERROR);
        }
        let quirks = &self.config.quirks;
        let secure = arg & 0x8000_0000 != 0;
        let fixed_ns = quirks.secure_ms.filter(|_| secure).map(|ms| ms.saturating_mul(1_000_000));
        if (secure && quirks.secure_corrupts) || (arg == TRIM && quirks.trim_corrupts) {
            self.interface.trouble.violate("an erase command that this card does not stand", now_ns);
            self.damage(to);
        }
        let mut reply = self.go(38, State::Prg);
        let usual_ns = self.flash.erase(now_ns, (to - from).div_ceil(ERASE_GROUP_BYTES));
        self.interface.busy_until_ns = fixed_ns.map_or(usual_ns, |ns| now_ns.saturating_add(ns));
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        // A secure erase ends only when the old data are gone from the flash.
        let past_cache = secure || !self.flash.journal.volatile || self.partition.number() != 0;
        self.flash.journal.end(self.interface.busy_until_ns, past_cache, false);
        reply
    }

    /// Erases the sectors from byte address `from` up to `to`, or discards them if `discard`. What
    /// a discarded sector reads as depends on the quirk `discarded`.
    fn wipe(&mut self, from: u64, to: u64, discard: bool, now_ns: u64) -> std::io::Result<()> {
        let discarded = if discard { self.config.quirks.discarded } else { Discarded::Erased };
        let Some(medium) = self.stores.get_mut(self.partition) else { return Ok(()) };
        self.flash.journal.note_erase(medium, self.partition.number(), from..to, now_ns);
        if plant::any() {
            medium.lie_about_erase(from, to - from, discard);
        }
        match discarded {
            Discarded::Erased => medium.erase(from, to - from, self.config.quirks.erased()),
            Discarded::Ones => medium.erase(from, to - from, 0xff),
            Discarded::Old => Ok(()),
            Discarded::Mixed => (from..to).step_by(512).try_for_each(|at| match mixed(at) % 3 {
                0 => Ok(()),
                1 => medium.erase(at, 512, 0),
                _ => medium.erase(at, 512, 0xff),
            }),
        }
    }

    /// Destroys the content of the erase group at byte address `from` (a quirk of the card).
    fn damage(&mut self, from: u64) {
        let bytes = ERASE_GROUP_BYTES.min(self.capacity().saturating_sub(from));
        if let Some(medium) = self.stores.get_mut(self.partition) {
            // The host gets no error for this damage.
            let _ = medium.erase(from, bytes, 0xbd);
        }
    }
}
