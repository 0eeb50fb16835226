//! Registers of the SDMMC: results of reads, effects of writes, and writes that are refused.

use super::bits::{cmd, dctrl, idma, reg, sta};
use super::{Buffers, Stm32Sdmmc, Version};
use crate::slot::Core;

/// Mask of the bits in the registers of data length (DLEN), data counter (DCOUNT) and boot
/// acknowledgement timeout (ACKTIME).
const LENGTH_BITS: u32 = 0x1ff_ffff;

/// Values of the registers that the model stores. Other registers are computed when the driver
/// reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub power: u32,
    pub clkcr: u32,
    pub argument: u32,
    /// Value that the register CMD reads as.
    pub command: u32,
    pub response_index: u32,
    pub response: [u32; 4],
    pub timer: u32,
    pub length: u32,
    pub dctrl: u32,
    /// Whether the data timer (DTIMER) or the data length (DLEN) was written after the last write
    /// to the data control register (DCTRL).
    pub stale_control: bool,
    pub count: u32,
    /// Bits of the status register (STA) that stay set until the driver clears them.
    pub status: u32,
    /// Status bit BUSYD0: DAT0 is low after a response.
    pub busy: bool,
    pub mask: u32,
    pub ack_time: u32,
    pub threshold: u32,
    pub idma_control: u32,
    pub buffer_size: u32,
    pub base: [u32; 2],
    pub item: u32,
    pub list: u32,
}

fn ones(size: u8) -> u32 {
    u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)))
}

impl Stm32Sdmmc {
    /// Returns whether a register exists at the byte offset `offset`.
    fn known(&self, offset: u16) -> bool {
        match offset {
            reg::FIFOTHR => self.config.version == Version::V3,
            reg::IDMABASE1 => self.config.buffers == Buffers::Double,
            reg::IDMALAR | reg::IDMABAR => self.config.buffers == Buffers::List,
            _ => offset <= reg::ACKTIME || matches!(offset, 0x50..=0x58 | reg::FIFO..=reg::FIFO_LAST),
        }
    }

    /// Reads the register at `offset`. Only accesses with a `size` of 4 bytes are possible; any
    /// other is a bus error [58.10].
    pub fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        let now = self.reach(now_ns);
        if self.slot.is_gone() || !self.config.bus_clock {
            return ones(size);
        }
        if size != 4 || !offset.is_multiple_of(4) {
            self.slot.violation();
            return ones(size);
        }
        if !self.known(offset) {
            self.slot.violation();
            return 0;
        }
        if offset >= reg::FIFO {
            return self.take_word(now);
        }
        self.word(offset)
    }

    /// Writes `value` to the register at `offset`; only accesses with a `size` of 4 bytes are
    /// possible.
    pub fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        let now = self.reach(now_ns);
        if self.slot.is_gone() || !self.config.bus_clock {
            return;
        }
        if size != 4 || !offset.is_multiple_of(4) || !self.known(offset) {
            return self.slot.violation();
        }
        self.set_word(offset, value, now);
        self.look(now);
    }

    fn word(&self, offset: u16) -> u32 {
        let r = &self.regs;
        match offset {
            reg::POWER => r.power,
            reg::CLKCR => r.clkcr,
            reg::ARG => r.argument,
            reg::CMD => r.command,
            reg::RESPCMD => r.response_index,
            reg::RESP1..=reg::RESP4 => r.response[usize::from(offset - reg::RESP1) / 4],
            reg::DTIMER => r.timer,
            reg::DLEN => r.length,
            reg::DCTRL => r.dctrl,
            reg::DCOUNT => r.count,
            reg::STA => self.status(),
            reg::MASK => r.mask,
            reg::ACKTIME => r.ack_time,
            reg::FIFOTHR => r.threshold,
            reg::IDMACTRL => r.idma_control,
            reg::IDMABSIZE => r.buffer_size,
            reg::IDMABASE0 => r.base[0],
            reg::IDMABASE1 => r.base[1],
            reg::IDMALAR => r.item,
            reg::IDMABAR => r.list,
            // ICR is write-only.
            _ => 0,
        }
    }

    fn set_word(&mut self, offset: u16, value: u32, now: u64) {
        let (data_idle, command_idle) = (!self.dat.active(), !self.cmd.active());
        match offset {
            reg::POWER => self.set_power(value, now),
            reg::CLKCR => self.set_clock(value, now),
            reg::ARG => self.allow(command_idle, value, |r| &mut r.argument),
            reg::CMD => self.set_command(value & cmd::ALL, now),
            reg::DTIMER => {
                self.regs.stale_control = true;
                self.allow(data_idle && command_idle, value, |r| &mut r.timer);
            }
            reg::DLEN => {
                self.regs.stale_control = true;
                self.allow(data_idle, value & LENGTH_BITS, |r| &mut r.length);
            }
            reg::DCTRL => self.set_data_control(value, now),
            reg::ICR => self.regs.status &= !(value & sta::LATCHED),
            reg::MASK => self.regs.mask = value & sta::MASKABLE,
            reg::ACKTIME => self.allow(command_idle, value & LENGTH_BITS, |r| &mut r.ack_time),
            reg::FIFOTHR => self.regs.threshold = value & 0xf,
            reg::IDMACTRL => {
                let second = if self.config.buffers == Buffers::Double { idma::SECOND } else { 0 };
                let value = value & (idma::ENABLE | idma::MODE | second);
                self.allow(data_idle, value, |r| &mut r.idma_control);
            }
            reg::IDMABSIZE => {
                self.allow(data_idle, value & self.config.size_mask, |r| &mut r.buffer_size);
            }
            reg::IDMABASE0 => {
                let free = data_idle || self.other_buffer(idma::SECOND);
                self.allow(free, value & !3, |r| &mut r.base[0]);
            }
            reg::IDMABASE1 => {
                let free = data_idle || self.other_buffer(0);
                self.allow(free, value & !3, |r| &mut r.base[1]);
            }
            reg::IDMALAR => {
                let bits = idma::MORE | idma::NEW_SIZE | idma::READY | idma::OFFSET;
                self.allow(data_idle, value & bits, |r| &mut r.item);
            }
            reg::IDMABAR => self.allow(data_idle, value & !3, |r| &mut r.list),
            reg::FIFO.. => self.give_word(value, now),
            // Response registers, DCOUNT and STA are read-only.
            _ => self.slot.violation(),
        }
    }

    /// Returns whether two buffers are used in turn, and the bit that shows the buffer in use
    /// (SECOND) has the value `active`.
    fn other_buffer(&self, active: u32) -> bool {
        let double = self.config.buffers == Buffers::Double && self.regs.idma_control & idma::MODE != 0;
        double && self.regs.idma_control & idma::SECOND == active
    }

    /// Writes `value` into the register that `place` selects. If the path that uses the register is
    /// active (`free` is false), the register keeps its value, and a write of another value counts
    /// as a mistake.
    fn allow(&mut self, free: bool, value: u32, place: impl Fn(&mut Registers) -> &mut u32) {
        let place = place(&mut self.regs);
        if free {
            *place = value;
        } else if *place != value {
            self.slot.violation();
        }
    }

    /// Writes the data control register (DCTRL). While data are active, most of its bits cannot
    /// change.
    fn set_data_control(&mut self, value: u32, now: u64) {
        self.regs.stale_control = false;
        let active = self.dat.active();
        let by_cpu = self.regs.idma_control & idma::ENABLE == 0;
        let old = self.regs.dctrl;
        let fixed = if active { old & dctrl::FIXED } else { value & dctrl::FIXED };
        if fixed != value & dctrl::FIXED {
            self.slot.violation();
        }
        if fixed & (dctrl::ENABLE | dctrl::BOOT_ACK) != 0 && !active {
            // DTEN starts data without a command, for cards that have no data commands; such cards
            // do not exist [58.10.9].
            self.slot.violation();
        }
        let wait = value & (dctrl::WAIT_START | dctrl::WAIT_STOP);
        let reset = (value | old) & dctrl::FIFO_RESET;
        let reset = if active && by_cpu { reset } else { old & dctrl::FIFO_RESET };
        self.regs.dctrl = fixed & !(dctrl::ENABLE | dctrl::BOOT_ACK) | wait | reset;
        if reset != 0 {
            self.fifo_was_reset(now);
        }
        if wait & dctrl::WAIT_STOP != 0 {
            self.read_wait_ends(now);
        }
        if !self.dat.active() {
            self.regs.dctrl &= !(dctrl::FIFO_RESET | dctrl::WAIT_STOP);
        }
    }

    /// Returns the value of the status register STA.
    pub(super) fn status(&self) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        let sends = self.dat.moves_data() && !self.dat.block.read;
        let receives = self.dat.moves_data() && self.dat.block.read;
        let fifo = &self.fifo;
        self.regs.status
            | bit(self.dat.active(), sta::DATA_ACTIVE)
            | bit(self.cmd.active(), sta::COMMAND_ACTIVE)
            | bit(sends && fifo.half_empty(), sta::TX_HALF_EMPTY)
            | bit(receives && fifo.half_full(), sta::RX_HALF_FULL)
            | bit(sends && fifo.is_full(), sta::TX_FULL)
            | bit(receives && fifo.is_full(), sta::RX_FULL)
            | bit(sends && fifo.is_empty(), sta::TX_EMPTY)
            | bit(receives && fifo.is_empty(), sta::RX_EMPTY)
            | bit(self.regs.busy, sta::BUSY)
    }

    /// Returns whether the IDMA, and not the CPU, accesses the FIFO.
    pub(super) fn by_idma(&self) -> bool {
        self.regs.idma_control & idma::ENABLE != 0
    }

    /// Takes a word from the FIFO, for a read of the FIFO register.
    fn take_word(&mut self, now: u64) -> u32 {
        let theirs = self.dat.moves_data() && self.dat.block.read && !self.by_idma();
        let Some(word) = (if theirs { self.fifo.pop() } else { None }) else {
            self.slot.violation();
            return 0;
        };
        self.fifo_moved(now);
        self.look(now);
        u32::from_le_bytes(word)
    }

    /// Puts a word into the FIFO, for a write of the FIFO register.
    fn give_word(&mut self, value: u32, now: u64) {
        let theirs = self.dat.moves_data() && !self.dat.block.read && !self.by_idma();
        let bytes = self.dat.to_give.min(4);
        if !theirs || bytes == 0 || !self.fifo.push(&value.to_le_bytes()[..bytes]) {
            return self.slot.violation();
        }
        self.dat.to_give -= bytes;
        self.fifo_moved(now);
    }
}
