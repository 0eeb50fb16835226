//! Registers of the MMIO window: results of reads and effects of writes.

use super::bits::{int, window as w};
use super::{Rtsx, Timer};
use crate::slot::Core;

/// Values of the window's registers that the model stores. Other registers are computed when the
/// driver reads them.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub list_address: u32,
    list_control: u32,
    pub table_address: u32,
    pub table_control: u32,
    /// Register HAIMR (immediate access); bit 31 is set while an access lasts.
    access: u32,
    /// Bits of the bus interrupt pending register (BIPR) that stay set until the driver clears
    /// them.
    pub pending: u32,
    pub enable: u32,
    scratch: u32,
}

impl Rtsx {
    /// Reads a register; only 4-byte accesses are possible.
    pub fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        self.reach(now_ns);
        let ones = if size == 4 { u32::MAX } else { (1u32 << (u32::from(size.min(3)) * 8)) - 1 };
        if self.slot.is_gone() {
            return ones;
        }
        if size != 4 || !offset.is_multiple_of(4) || offset > w::SCRATCH {
            self.slot.violation();
            return ones;
        }
        let flag = |on: bool| if on { w::START } else { 0 };
        let r = &self.window;
        match offset {
            w::HCBAR => r.list_address,
            w::HCBCTLR => r.list_control | flag(self.list.is_some()),
            w::HDBAR => r.table_address,
            w::HDBCTLR => r.table_control | flag(self.dma.has_table()),
            w::HAIMR => r.access,
            w::BIPR => r.pending | self.levels(),
            w::BIER => r.enable,
            _ => r.scratch,
        }
    }

    /// Writes `value` to the register at `offset`. `size` is the number of bytes, and must be 4.
    pub fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        let now = self.reach(now_ns);
        if self.slot.is_gone() {
            return;
        }
        if size != 4 || !offset.is_multiple_of(4) || offset > w::SCRATCH {
            return self.slot.violation();
        }
        match offset {
            w::HCBAR => self.window.list_address = value,
            w::HCBCTLR => self.set_list_control(value, now),
            w::HDBAR => self.window.table_address = value,
            w::HDBCTLR => self.set_table_control(value, now),
            w::HAIMR => self.set_access(value, now),
            w::BIPR => {
                self.window.pending &= !(value & int::LATCHED);
                self.update_irq(now);
            }
            w::BIER => {
                self.window.enable = value;
                self.update_irq(now);
            }
            _ => self.window.scratch = value,
        }
        self.check_again(now);
    }

    fn levels(&self) -> u32 {
        let protected = self.slot.card().is_some_and(|card| card.write_protect_switch());
        (if self.inserted { int::SD_EXIST } else { 0 })
            | if self.inserted && protected { int::WRITE_PROTECT } else { 0 }
    }

    fn set_list_control(&mut self, value: u32, now: u64) {
        if value & w::STOP != 0 {
            self.stop_list();
        } else if value & w::START != 0 {
            let bytes = value & 0x00ff_ffff;
            let sound = bytes.is_multiple_of(4) && (4..=1024).contains(&bytes);
            if self.list.is_some() || !sound || !self.window.list_address.is_multiple_of(4) {
                return self.slot.violation();
            }
            self.start_list(bytes as usize, value & w::WRITE_BACK != 0, now);
        }
        self.window.list_control = value & !(w::START | w::STOP);
    }

    fn set_table_control(&mut self, value: u32, now: u64) {
        if value & w::STOP != 0 {
            self.forget_table();
            self.window.table_control = 0;
        } else if value & w::START != 0 {
            let sound = value & w::DMA_MODE == w::ADMA && self.window.table_address.is_multiple_of(8);
            if self.dma.has_table() || !sound {
                return self.slot.violation();
            }
            self.window.table_control = value & !w::START;
            self.trigger_dma(now);
        } else {
            self.window.table_control = value;
        }
    }

    fn set_access(&mut self, value: u32, now: u64) {
        if value & w::START == 0 {
            return;
        }
        if self.window.access & w::START != 0 {
            return self.slot.violation();
        }
        self.window.access = value;
        if !self.access_hangs {
            self.set_timer(Timer::Access, now.saturating_add(self.config.access_ns));
        }
    }

    /// Executes the register access that the host began by HAIMR (outside of a command list).
    /// Called when the time of this access is over.
    pub(super) fn access_event(&mut self, now: u64) {
        let access = self.window.access;
        let register = (access >> 16) as u16 & 0x3fff;
        let (mask, data) = ((access >> 8) as u8, access as u8);
        let data = if access & w::WRITE != 0 {
            self.set(register, mask, data, now);
            // The whole byte as it was given: Linux compares it so, also where it masks bits.
            data
        } else {
            self.get(register, now)
        };
        self.window.access = access & !w::START & !0xff | u32::from(data);
    }
}
