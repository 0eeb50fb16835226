//! Erase on an SD card: CMD32, CMD33 and CMD38 [SD 4.3.5, 4.14].

use super::super::Reply;
use super::super::cut::mixed;
use super::super::quirk::Discarded;
use super::super::status::{self, State};
use super::config::Spec;
use super::{EraseRange, SdCard};
use crate::faults::{Point, Strike};

/// Argument of CMD38: the blocks are erased, and read as all zeros or all ones afterwards.
const ERASE: u32 = 0;
/// Argument of CMD38: the blocks are discarded, and their content is undefined afterwards.
const DISCARD: u32 = 1;

impl SdCard {
    /// Executes CMD32 (`is_start`) or CMD33 with the address `arg`. They set the first and the last
    /// block of an erase.
    pub(super) fn erase_edge(&mut self, is_start: bool, arg: u32) {
        let at = match self.block_address(arg) {
            Ok(at) => at & !511,
            Err(errors) => {
                self.status.raise(errors);
                self.erase = EraseRange::default();
                return;
            }
        };
        let errors = self.erase.edge(is_start, at, self.config.capacity_bytes);
        self.status.raise(errors);
    }

    /// Executes CMD38. Cards before version 5.0 ignore its argument.
    pub(super) fn erase(&mut self, arg: u32, now_ns: u64) -> Reply {
        let range = std::mem::take(&mut self.erase);
        let (Some(start), Some(end)) = (range.start, range.end) else {
            return self.refuse(38, status::ERASE_SEQ_ERROR, now_ns);
        };
        if end < start {
            return self.refuse(38, status::ERASE_PARAM, now_ns);
        }
        if self.write_protected() || self.config.quirks.protects(start, end + 512 - start) {
            return self.refuse(38, status::WP_ERASE_SKIP, now_ns);
        }
        let arg = if self.config.spec >= Spec::V5 { arg } else { ERASE };
        if arg > DISCARD {
            // The SD status declares no FULE (full user area logical erase).
            return self.refuse(38, status::ERASE_PARAM, now_ns);
        }
        let bytes = end + 512 - start;
        let erased = match self.flash.faults.strike(Point::Medium) {
            Some(Strike::Fail) => Err(std::io::ErrorKind::Other.into()),
            Some(Strike::Lost) => Ok(()),
            _ => self.wipe(start, bytes, arg == DISCARD, now_ns),
        };
        if erased.is_err() {
            self.status.raise(status::ERROR);
        }
        if arg == DISCARD && self.config.quirks.discard_corrupts {
            self.interface.trouble.violate("a discard that this card does not stand", now_ns);
            let bytes = self.config.au_bytes.min(self.medium.bytes().saturating_sub(end + 512));
            // The host gets no error for this damage.
            let _ = self.medium.erase(end + 512, bytes, 0xbd);
        }
        let mut reply = self.go(38, State::Prg, now_ns);
        self.interface.busy_until_ns = self.flash.erase(now_ns, bytes.div_ceil(self.config.au_bytes));
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        self.flash.journal.end(self.interface.busy_until_ns, !self.flash.journal.volatile, false);
        reply
    }

    fn wipe(&mut self, from: u64, bytes: u64, discard: bool, now_ns: u64) -> std::io::Result<()> {
        self.flash.journal.note_erase(&mut self.medium, 0, from..from + bytes, now_ns);
        if crate::plant::any() {
            self.medium.lie_about_erase(from, bytes, discard);
        }
        match if discard { self.config.quirks.discarded } else { Discarded::Erased } {
            Discarded::Erased => self.medium.erase(from, bytes, self.config.quirks.erased()),
            Discarded::Ones => self.medium.erase(from, bytes, 0xff),
            Discarded::Old => Ok(()),
            Discarded::Mixed => (from..from + bytes).step_by(512).try_for_each(|at| match mixed(at) % 3 {
                0 => Ok(()),
                1 => self.medium.erase(at, 512, 0),
                _ => self.medium.erase(at, 512, 0xff),
            }),
        }
    }
}
