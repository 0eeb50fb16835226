//! Access of the driver to the controller's registers, over the socket.

use crate::qtest::Qtest;
use mmcq::host::Regs;
use std::sync::Arc;

/// The registers of the controller in a machine.
#[derive(Clone, Debug)]
pub struct QtestRegs {
    /// The connection to the machine.
    pub qtest: Arc<Qtest>,
    /// Guest physical address of the registers.
    pub address: u64,
    /// Size of the register block, in bytes.
    pub bytes: u64,
}

impl QtestRegs {
    fn at(&self, width: u8, offset: u16) -> u64 {
        let bytes = u64::from(width / 8);
        let offset = u64::from(offset);
        assert!(offset % bytes == 0, "register {offset:#04x}: not aligned to an access of {width} bits");
        assert!(offset + bytes <= self.bytes, "register {offset:#04x}: beyond the {} bytes", self.bytes);
        self.address + offset
    }
}

impl Regs for QtestRegs {
    fn read8(&self, offset: u16) -> u8 {
        self.qtest.read(8, self.at(8, offset)) as u8
    }
    fn read16(&self, offset: u16) -> u16 {
        self.qtest.read(16, self.at(16, offset)) as u16
    }
    fn read32(&self, offset: u16) -> u32 {
        self.qtest.read(32, self.at(32, offset))
    }
    fn write8(&self, offset: u16, value: u8) {
        self.qtest.write(8, self.at(8, offset), value.into());
    }
    fn write16(&self, offset: u16, value: u16) {
        self.qtest.write(16, self.at(16, offset), value.into());
    }
    fn write32(&self, offset: u16, value: u32) {
        self.qtest.write(32, self.at(32, offset), value);
    }
}
