//! Interruption of work: background operations and the high priority interrupt (HPI) [eMMC 6.6.23,
//! 6.6.25].

use super::super::status::State;
use super::EmmcCard;
use super::config::byte;

/// Time in ns after an HPI until the card is free again, within OUT_OF_INTERRUPT_TIME.
const INTERRUPT_NS: u64 = 1_000_000;
/// Time in ns of the background work that lowers BKOPS_STATUS by one level.
const LEVEL_NS: u64 = 50_000_000;
/// Extra busy time in ns of a write while background work is urgent (BKOPS_STATUS 2); the extra
/// time is twice as long at level 3.
const NEGLECTED_NS: u64 = 5_000_000;
/// Bit of EXCEPTION_EVENTS_STATUS and EXCEPTION_EVENTS_CTRL: background work is urgent.
const URGENT_BKOPS: u8 = 1 << 0;
/// Bit of EXCEPTION_EVENTS_STATUS and EXCEPTION_EVENTS_CTRL: the pool of system blocks is used up.
const SYSPOOL_EXHAUSTED: u8 = 1 << 2;
/// Bit of EXCEPTION_EVENTS_STATUS and EXCEPTION_EVENTS_CTRL: a packed command failed.
const PACKED_FAILURE: u8 = 1 << 3;
/// Bit EXCEPTION_EVENT of R1: the eMMC reports an event such as urgent background work.
const EXCEPTION_EVENT: u32 = 1 << 6;

/// Background work under way: its begin and end in ns, and the number of written bytes that it
/// processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Background {
    begin_ns: u64,
    end_ns: u64,
    bytes: u64,
}

impl EmmcCard {
    /// Handles CMD13 with bit 0 set (HPI): a busy device interrupts its work.
    pub(super) fn high_priority_interrupt(&mut self, now_ns: u64) {
        if self.ext_csd[usize::from(byte::HPI_MGMT)] & 1 == 0 || self.interface.state != State::Prg {
            return;
        }
        if self.config.quirks.hpi_breaks {
            self.interface.trouble.violate("HPI", now_ns);
            self.interface.trouble.locked_up = true;
            return;
        }
        if self.interface.trouble.stuck {
            return;
        }
        self.flash.journal.interrupt_flush(now_ns);
        let free_ns = self.interface.busy_until_ns.min(now_ns.saturating_add(INTERRUPT_NS));
        self.interface.busy_until_ns = free_ns;
        let Background { begin_ns, end_ns, bytes } = std::mem::take(&mut self.background);
        if free_ns < end_ns {
            // The interrupted part of the background work stays to be done.
            let left = u128::from(bytes) * u128::from(end_ns - free_ns) / u128::from(end_ns - begin_ns);
            self.background_done_bytes -= left as u64;
        }
    }

    /// Returns BKOPS_STATUS: 0 means no background work, 1 work that is not urgent, 2 and 3 urgent
    /// work.
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

    /// Starts background work (BKOPS_START). Returns the time in ns that the work takes.
    pub(super) fn background_work(&mut self, now_ns: u64) -> u64 {
        let busy_ns = LEVEL_NS * u64::from(self.background_level());
        let bytes = self.flash.wear.written_bytes - self.background_done_bytes;
        self.background = Background { begin_ns: now_ns, end_ns: now_ns.saturating_add(busy_ns), bytes };
        self.background_done_bytes = self.flash.wear.written_bytes;
        busy_ns
    }

    /// Returns the extra busy time in ns of a write while background work is urgent: the write must
    /// first free a flash block.
    pub(super) fn neglected_ns(&self) -> u64 {
        NEGLECTED_NS * u64::from(self.background_level().saturating_sub(1))
    }

    /// Returns EXCEPTION_EVENTS_STATUS of EXT_CSD: the events that are present now, one bit each.
    fn exceptions(&self) -> u8 {
        let used_up = self
            .config
            .quirks
            .pool_mib
            .is_some_and(|mib| self.flash.wear.written_bytes >= mib.saturating_mul(1 << 20));
        u8::from(self.background_level() >= 2) * URGENT_BKOPS
            + u8::from(used_up) * SYSPOOL_EXHAUSTED
            + u8::from(self.pack.failed()) * PACKED_FAILURE
    }

    /// Returns the EXCEPTION_EVENT bit of R1. Urgent work always sets it, other events only if the
    /// host has enabled them.
    pub(super) fn exception(&self) -> u32 {
        let shown = self.ext_csd[usize::from(byte::EXCEPTION_EVENTS_CTRL_LOW)] | URGENT_BKOPS;
        if self.exceptions() & shown != 0 { EXCEPTION_EVENT } else { 0 }
    }

    /// Returns EXT_CSD as CMD8 sends it, with the status bytes that the device itself changes.
    pub(super) fn live_ext_csd(&self) -> [u8; 512] {
        let mut ext = self.ext_csd;
        let level = self.background_level();
        if level > 0 {
            ext[246] = level;
        }
        ext[54] = self.exceptions();
        (ext[36], ext[35]) = self.pack.told();
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
