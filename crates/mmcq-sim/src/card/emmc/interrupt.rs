//! Work that waits, and work that is interrupted: background operations and HPI [eMMC 6.6.23, 6.6.25].

use super::super::status::State;
use super::EmmcCard;
use super::config::byte;

/// The card is free again within OUT_OF_INTERRUPT_TIME.
const INTERRUPT_NS: u64 = 1_000_000;
/// Background work of one level.
const LEVEL_NS: u64 = 50_000_000;
/// EXCEPTION_EVENT in R1.
pub(super) const EXCEPTION_EVENT: u32 = 1 << 6;

impl EmmcCard {
    /// CMD13 with bit 0 set, while the device is busy.
    pub(super) fn high_priority_interrupt(&mut self, now_ns: u64) {
        if self.ext_csd[usize::from(byte::HPI_MGMT)] & 1 == 0 || self.state != State::Prg {
            return;
        }
        if self.config.quirks.hpi_breaks {
            self.trouble.violate("HPI", now_ns);
            self.trouble.locked_up = true;
            return;
        }
        if self.trouble.stuck {
            return;
        }
        self.flash.journal.interrupt_flush(now_ns);
        self.busy_until_ns = self.busy_until_ns.min(now_ns.saturating_add(INTERRUPT_NS));
    }

    /// BKOPS_STATUS: 0 nothing to do, 2 and 3 urgent.
    pub(super) fn background_level(&self) -> u8 {
        let Some(mib) = self.config.quirks.urgent_after_mib else { return 0 };
        let waiting = self.flash.wear.written_bytes - self.background_done_bytes;
        let urgent = mib.saturating_mul(1 << 20).max(1);
        match waiting / urgent {
            0 if waiting >= urgent / 2 => 1,
            0 => 0,
            1 => 2,
            _ => 3,
        }
    }

    /// BKOPS_START: how long the work takes.
    pub(super) fn background_work(&mut self) -> u64 {
        let busy_ns = LEVEL_NS * u64::from(self.background_level());
        self.background_done_bytes = self.flash.wear.written_bytes;
        busy_ns
    }

    /// EXT_CSD as CMD8 sends it: with the bytes that change by themselves.
    pub(super) fn live_ext_csd(&self) -> [u8; 512] {
        let mut ext = self.ext_csd;
        let level = self.background_level();
        if level > 0 {
            ext[246] = level;
            ext[54] = u8::from(level >= 2);
        }
        if let Some(percent) = self.flash.wear.used_percent() {
            ext[267] = match percent {
                0..80 => 1,
                80..90 => 2,
                _ => 3,
            };
            ext[268] = percent / 10 + 1;
            ext[269] = percent / 10 + 1;
        }
        self.config.quirks.falsify_ext_csd(&mut ext);
        ext
    }
}
