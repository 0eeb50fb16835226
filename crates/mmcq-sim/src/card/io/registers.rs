//! Function 0: CCCR, FBR and the CIS area [SDIO 6.9, 6.10].

use super::IoCard;

/// Bits of the card capability register, CCCR 08h.
pub(super) mod capability {
    /// SDC: CMD52 works while data are transferred.
    pub const DIRECT: u8 = 0x01;
    /// SMB: CMD53 works in block mode.
    pub const MULTI_BLOCK: u8 = 0x02;
    /// E4MI: enables the card interrupt between the blocks of a transfer in 4-bit mode.
    pub const BETWEEN_ENABLE: u8 = 0x20;
    /// S4MI: the card supports the interrupt between blocks in 4-bit mode.
    pub const BETWEEN: u8 = 0x10;
}

/// Bus speed selected by CCCR 13h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Speed {
    /// Default speed or SDR12.
    #[default]
    Default = 0,
    /// High speed or SDR25.
    High = 1,
    Sdr50 = 2,
    Sdr104 = 3,
    Ddr50 = 4,
}

/// Values of the CCCR registers that the host has written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    /// CCCR 04h: interrupt enable bits of the functions, and the master enable.
    pub interrupts: u8,
    /// CCCR 07h: bus width and card detection resistor.
    interface: u8,
    /// CCCR 08h bit 5: the interrupt between blocks is enabled.
    between: bool,
    /// CCCR 10h: block size of function 0 in bytes.
    pub block_bytes: u16,
    /// CCCR 12h bit 1 (EMPC): the host has enabled power control of the card.
    power: bool,
    pub speed: Speed,
    /// CCCR 15h bits 5:4: driver strength.
    drive: u8,
    /// CCCR 16h bit 1: the asynchronous interrupt is enabled.
    pub async_interrupt: bool,
}

impl Registers {
    /// Returns whether the host has disconnected the resistor for card detection.
    pub fn cd_off(&self) -> bool {
        self.interface & 0x80 != 0
    }

    /// Returns the number of data lines of the I/O part.
    pub fn width(&self) -> u8 {
        if self.interface & 3 == 2 { 4 } else { 1 }
    }
}

/// Returns byte `place` of a number; byte 0 is the lowest.
fn byte(value: u32, place: u32) -> u8 {
    (value >> (8 * place)) as u8
}

/// Returns `old` with byte `place` replaced by `value`.
fn with_byte(old: u16, place: u32, value: u8) -> u16 {
    let mask = 0xffu16 << (8 * place);
    old & !mask | u16::from(value) << (8 * place)
}

impl IoCard {
    /// Returns the byte of function 0 at `address`, as the host reads it.
    pub(super) fn read_zero(&self, address: u32, now_ns: u64) -> u8 {
        match address {
            0..=0xff => self.read_cccr(address, now_ns),
            0x100..=0x7ff => self.read_fbr(address >> 8, address & 0xff),
            super::config::CIS_BASE.. => self.config.cis.byte(address),
            _ => 0,
        }
    }

    fn each(&self, bit: impl Fn(&super::Slot) -> bool) -> u8 {
        let bits = self.slots.iter().zip(1u32..).map(|(slot, n)| u8::from(bit(slot)) << n);
        bits.fold(0, |all, one| all | one)
    }

    fn read_cccr(&self, address: u32, now_ns: u64) -> u8 {
        let (r, c) = (&self.registers, &self.config);
        match address {
            0x00 => c.revision,
            0x01 => c.sd_revision,
            0x02 => self.each(|slot| slot.ready_ns.is_some()),
            0x03 => self.each(|slot| slot.ready(now_ns)),
            0x04 => r.interrupts,
            0x05 => {
                let fake = u8::from(self.fake_interrupt) << 1;
                fake | self.each(|slot| slot.ready(now_ns) && slot.interrupt(now_ns))
            }
            0x07 => r.interface,
            0x08 => c.capabilities | if r.between { capability::BETWEEN_ENABLE } else { 0 },
            0x09..=0x0b => byte(c.cis.pointers[0], address - 0x09),
            0x10 | 0x11 => byte(r.block_bytes.into(), address - 0x10),
            0x12 => 1 | u8::from(r.power) << 1,
            0x13 => u8::from(c.high_speed) | (r.speed as u8) << 1,
            0x14 => c.uhs,
            0x15 => r.drive << 4,
            0x16 => u8::from(c.async_interrupt) | u8::from(r.async_interrupt) << 1,
            _ => 0,
        }
    }

    fn read_fbr(&self, number: u32, address: u32) -> u8 {
        let Some(slot) = self.slots.get(number as usize - 1) else { return 0 };
        match address {
            // A standard interface code of 15 or more is in the extended code register.
            0x00 => slot.config.class.min(15),
            0x01 if slot.config.class >= 15 => slot.config.class,
            0x09..=0x0b => byte(self.config.cis.pointers[number as usize], address - 0x09),
            0x10 | 0x11 => byte(slot.block_bytes.into(), address - 0x10),
            _ => 0,
        }
    }

    /// Executes a write of `value` to a byte of function 0, except ABORT (06h). `address`: register
    /// address, 17 bits; those of 100h and above are the FBRs of the functions.
    pub(super) fn write_zero(&mut self, address: u32, value: u8, now_ns: u64) {
        let (number, place) = (address >> 8, address & 0xff);
        match (number, place) {
            (0, 0x02) => self.enable_functions(value, now_ns),
            (0, _) if self.config.quirks.wakes_by.is_some_and(|by| u32::from(by) == place) => {
                self.woken = true;
            }
            (0, 0x04) => self.registers.interrupts = value & (self.each(|_| true) | 1),
            (0, 0x07) => {
                // The width may be 1 or 4; the bits for continuous interrupts and the detection
                // resistor are only stored.
                let width = if matches!(value & 3, 0 | 2) { value & 3 } else { self.registers.interface & 3 };
                self.registers.interface = value & 0xa0 | width;
            }
            (0, 0x08) => {
                self.registers.between = value & capability::BETWEEN_ENABLE != 0
                    && self.config.capabilities & capability::BETWEEN != 0;
            }
            (0, 0x10 | 0x11) => {
                self.registers.block_bytes = with_byte(self.registers.block_bytes, place - 0x10, value);
            }
            (0, 0x12) => self.registers.power = value & 2 != 0,
            (0, 0x13) => self.select_speed(value >> 1 & 7),
            (0, 0x15) => self.registers.drive = value >> 4 & 3,
            (0, 0x16) => {
                self.registers.async_interrupt = value & 2 != 0 && self.config.async_interrupt;
            }
            (1..=7, 0x10 | 0x11) => {
                if let Some(slot) = self.slots.get_mut(number as usize - 1) {
                    slot.block_bytes = with_byte(slot.block_bytes, place - 0x10, value);
                }
            }
            _ => {}
        }
    }

    fn enable_functions(&mut self, wanted: u8, now_ns: u64) {
        let sleeps = self.config.quirks.wakes_by.is_some() && !self.woken;
        for (slot, n) in self.slots.iter_mut().zip(1u32..) {
            let on = wanted >> n & 1 != 0;
            if on && slot.ready_ns.is_none() {
                let enable_ns = if sleeps { u64::MAX } else { slot.config.enable_ns };
                slot.ready_ns = Some(now_ns.saturating_add(enable_ns));
            } else if !on && slot.ready_ns.take().is_some() {
                slot.function.reset(now_ns);
            }
        }
    }

    /// Selects a bus speed. A speed that the card does not support, or not at the present voltage,
    /// is ignored.
    fn select_speed(&mut self, code: u8) {
        let is_18 = self.voltage.is_18();
        let uhs = if is_18 { self.config.uhs } else { 0 };
        self.registers.speed = match code {
            0 => Speed::Default,
            1 if self.config.high_speed || is_18 => Speed::High,
            2 if uhs & 1 != 0 => Speed::Sdr50,
            3 if uhs & 2 != 0 => Speed::Sdr104,
            4 if uhs & 4 != 0 => Speed::Ddr50,
            _ => self.registers.speed,
        };
    }
}
