//! Configuration space of a PCI device with an SD host controller of one slot [PCI 3.0 6.1; SDHC,
//! the appendix on PCI].

/// Size of the configuration space in bytes.
pub const CONFIG_BYTES: usize = 256;
/// Default vendor and device ID: those of QEMU's SDHCI controller, for which Linux knows no quirks.
pub const DEFAULT_ID: Id = Id { vendor: 0x1b36, device: 0x0007 };

/// Smallest size in bytes of the register region: the registers of the SDHC standard.
const BAR_BYTES_MIN: u32 = 0x100;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BAR0: usize = 0x10;
const INTERRUPT_LINE: usize = 0x3c;
/// Writable bits of the command register: memory space, bus master, parity, system error, interrupt
/// disable.
const COMMAND_WRITABLE: u16 = 0x0546;
const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;
const INTERRUPT_DISABLE: u16 = 1 << 10;
const STATUS_INTERRUPT: u8 = 1 << 3;

/// Vendor ID and device ID of a PCI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    /// Vendor ID of the PCI device.
    pub vendor: u16,
    /// Device ID of the PCI device.
    pub device: u16,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

impl std::str::FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let half = |part: &str| {
            let digits = part.len() == 4 && part.bytes().all(|b| b.is_ascii_hexdigit());
            digits.then(|| u16::from_str_radix(part, 16).ok()).flatten()
        };
        let parts = text.split_once(':').and_then(|(v, d)| Some((half(v)?, half(d)?)));
        let (vendor, device) = parts.ok_or_else(|| {
            format!("{text}: expected four hexadecimal digits of the vendor, a colon, and four of the device")
        })?;
        Ok(Id { vendor, device })
    }
}

/// Configuration space of the PCI device.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    id: Id,
    /// Size in bytes of the region at the first base address register.
    bar_bytes: u32,
    bytes: [u8; CONFIG_BYTES],
    /// For each byte of the space, a mask of the bits that software may write.
    writable: [u8; CONFIG_BYTES],
}

impl ConfigSpace {
    /// Makes the configuration space in its state after power-on. `id`: vendor and device ID. The
    /// register region (first BAR) has at least `register_bytes`, rounded up to a power of two [PCI
    /// 3.0 6.2.5.1].
    pub fn new(id: Id, register_bytes: u16) -> Self {
        Self::with_bar(id, u32::from(register_bytes).max(BAR_BYTES_MIN).next_power_of_two())
    }

    fn with_bar(id: Id, bar_bytes: u32) -> Self {
        let mut space = ConfigSpace { id, bar_bytes, bytes: [0; CONFIG_BYTES], writable: [0; CONFIG_BYTES] };
        space.bytes[0..2].copy_from_slice(&id.vendor.to_le_bytes());
        space.bytes[2..4].copy_from_slice(&id.device.to_le_bytes());
        // Class code: base system peripheral, SD host controller, with standard DMA.
        space.bytes[0x09..0x0c].copy_from_slice(&[0x01, 0x05, 0x08]);
        space.bytes[0x2c..0x2e].copy_from_slice(&id.vendor.to_le_bytes());
        space.bytes[0x2e..0x30].copy_from_slice(&id.device.to_le_bytes());
        // Interrupt pin: INTA. Slot information at 40h stays zero: one slot, with its registers at
        // the first base address.
        space.bytes[0x3d] = 1;
        space.writable[COMMAND..COMMAND + 2].copy_from_slice(&COMMAND_WRITABLE.to_le_bytes());
        space.writable[0x0c] = 0xff;
        space.writable[BAR0..BAR0 + 4].copy_from_slice(&(!(bar_bytes - 1)).to_le_bytes());
        space.writable[INTERRUPT_LINE] = 0xff;
        space
    }

    /// Resets the configuration space to its state after power-on.
    pub fn reset(&mut self) {
        *self = Self::with_bar(self.id, self.bar_bytes);
    }

    /// Returns the size in bytes of the region at the first base address register.
    pub fn bar_bytes(&self) -> u32 {
        self.bar_bytes
    }

    /// Reads the configuration space from `offset` on. Returns false if the access is not inside
    /// it. `interrupt`: value of the Interrupt Status bit, even if the interrupt is disabled.
    pub fn read(&self, offset: u64, buffer: &mut [u8], interrupt: bool) -> bool {
        let Some(at) = place(offset, buffer.len()) else {
            return false;
        };
        for (i, byte) in buffer.iter_mut().enumerate() {
            *byte = self.bytes[at + i];
            if at + i == STATUS && interrupt {
                *byte |= STATUS_INTERRUPT;
            }
        }
        true
    }

    /// Writes those bits of `data` that are writable. Returns false if the access is not inside the
    /// configuration space.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some(at) = place(offset, data.len()) else {
            return false;
        };
        for (i, new) in data.iter().enumerate() {
            let mask = self.writable[at + i];
            self.bytes[at + i] = self.bytes[at + i] & !mask | new & mask;
        }
        true
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// Returns whether the device answers at its base address: bit Memory Space of the command
    /// register.
    pub fn memory_space(&self) -> bool {
        self.command() & MEMORY_SPACE != 0
    }

    /// Returns whether the device may access memory: bit Bus Master of the command register.
    pub fn bus_master(&self) -> bool {
        self.command() & BUS_MASTER != 0
    }

    /// Returns whether the device must not assert its interrupt: bit Interrupt Disable of the
    /// command register.
    pub fn interrupt_disabled(&self) -> bool {
        self.command() & INTERRUPT_DISABLE != 0
    }
}

/// Returns the index in the configuration space of the first byte of an access to `len` bytes at
/// `offset`; `None` if the access is not inside the space.
fn place(offset: u64, len: usize) -> Option<usize> {
    let at = usize::try_from(offset).ok()?;
    (at.checked_add(len)? <= CONFIG_BYTES).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(space: &ConfigSpace, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        assert!(space.read(offset, &mut bytes, false));
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn it_is_an_sd_host_controller_with_dma() {
        let space = ConfigSpace::new(DEFAULT_ID, 0x100);
        assert_eq!(word(&space, 0), 0x0007_1b36);
        assert_eq!(word(&space, 8) >> 8, 0x08_05_01);
        assert_eq!(word(&space, 0x0c) >> 16 & 0xff, 0, "header type");
        assert_eq!(word(&space, 0x3c) >> 8 & 0xff, 1, "INTA");
        assert_eq!(word(&space, 0x40), 0, "one slot, first base address");
        assert_eq!(word(&space, 0x34) & 0xff, 0, "no capabilities");
    }

    #[test]
    fn the_base_address_tells_its_size_as_pci_wants_it() {
        let bar = |space: &mut ConfigSpace| {
            assert!(space.write(0x10, &[0xff; 4]));
            !word(space, 0x10) + 1
        };
        for (registers, bytes) in [(0, 0x100), (0x100, 0x100), (0x101, 0x200), (0x1000, 0x1000)] {
            let mut space = ConfigSpace::new(DEFAULT_ID, registers);
            assert_eq!((bar(&mut space), space.bar_bytes()), (bytes, bytes));
            space.reset();
            assert_eq!((word(&space, 0x10), bar(&mut space)), (0, bytes));
        }
        let mut space = ConfigSpace::new(DEFAULT_ID, 0x100);
        for bar in 1..6 {
            assert!(space.write(0x10 + 4 * bar, &[0xff; 4]));
            assert_eq!(word(&space, 0x10 + 4 * bar), 0, "no further one");
        }
        space.reset();
        assert_eq!(word(&space, 0x10), 0);
    }

    #[test]
    fn the_command_register_has_the_bits_that_matter() {
        let mut space = ConfigSpace::new(DEFAULT_ID, 0x100);
        assert!(!space.memory_space() && !space.bus_master() && !space.interrupt_disabled());
        assert!(space.write(4, &[0xff, 0xff, 0xff, 0xff]));
        assert_eq!(word(&space, 4), u32::from(COMMAND_WRITABLE), "the status cannot be written");
        assert!(space.memory_space() && space.bus_master() && space.interrupt_disabled());
        let mut status = [0; 2];
        assert!(space.read(6, &mut status, true));
        assert_eq!(status[0] & 8, 8);
        assert!(space.write(0, &[0; 4]));
        assert_eq!(word(&space, 0), 0x0007_1b36, "identity is read-only");
    }

    #[test]
    fn accesses_outside_are_refused() {
        let mut space = ConfigSpace::new(DEFAULT_ID, 0x100);
        let mut two = [0; 2];
        assert!(space.read(254, &mut two, false) && !space.read(255, &mut two, false));
        assert!(!space.read(u64::MAX, &mut two, false) && !space.write(256, &two));
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        assert_eq!("8086:31CC".parse(), Ok(Id { vendor: 0x8086, device: 0x31cc }));
        assert_eq!(DEFAULT_ID.to_string().parse(), Ok(DEFAULT_ID));
        for bad in ["", "8086", "8086:31c", "8086:31ccc", "x086:31cc", "+086:31cc"] {
            assert!(bad.parse::<Id>().unwrap_err().starts_with(&format!("{bad}: expected")), "{bad}");
        }
    }
}
