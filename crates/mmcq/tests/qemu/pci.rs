//! A minimal PCI for one function: configuration space by the ports 0xcf8 and 0xcfc, one memory
//! BAR, one interrupt.

use crate::qtest::Qtest;

/// Address of the BAR: inside q35's 32-bit hole, away from everything that QEMU places there.
const BAR_ADDRESS: u32 = 0xc000_0000;
/// Bits of the command register: the function responds to memory accesses, and is a bus master.
const MEMORY_AND_MASTER: u32 = 0x6;

/// A PCI function that is ready to use.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Address of BAR 0.
    pub address: u64,
    /// Size of BAR 0 in bytes.
    pub bytes: u64,
    /// Number of the I/O APIC's input to which the function's interrupt pin leads.
    pub line: u8,
}

/// Finds the first function of this class (base class and subclass) on bus 0, places the function's
/// BAR 0, and enables the function.
pub fn enable(qtest: &Qtest, class: u16) -> Result<Function, String> {
    for slot in 0..32 {
        let config = Config { qtest, slot };
        if config.read(0x00) & 0xffff == 0xffff || config.read(0x08) >> 16 != u32::from(class) {
            continue;
        }
        config.write(0x10, u32::MAX);
        let mask = config.read(0x10);
        if mask == 0 || mask & 1 != 0 {
            return Err(format!("PCI slot {slot}: BAR 0 has mask {mask:#010x}, expected memory"));
        }
        let bytes = u64::from(!(mask & !0xf)) + 1;
        config.write(0x10, BAR_ADDRESS);
        config.write(0x04, config.read(0x04) & 0xffff | MEMORY_AND_MASTER);
        let pin = config.read(0x3c) >> 8 & 0xff;
        if !(1..=4).contains(&pin) {
            return Err(format!("PCI slot {slot}: interrupt pin {pin}, expected 1 to 4"));
        }
        // q35: INTA of slot 0 is PIRQE, which is input 20; slots and pins rotate through PIRQE to
        // PIRQH.
        let line = 20 + ((u32::from(slot) + pin - 1) % 4) as u8;
        return Ok(Function { address: u64::from(BAR_ADDRESS), bytes, line });
    }
    Err(format!("no PCI function of class {class:#06x} on bus 0"))
}

struct Config<'a> {
    qtest: &'a Qtest,
    slot: u8,
}

impl Config<'_> {
    fn select(&self, offset: u8) {
        let address = 0x8000_0000 | u32::from(self.slot) << 11 | u32::from(offset & 0xfc);
        self.qtest.port_write(32, 0xcf8, address);
    }

    fn read(&self, offset: u8) -> u32 {
        self.select(offset);
        self.qtest.port_read(32, 0xcfc)
    }

    fn write(&self, offset: u8, value: u32) {
        self.select(offset);
        self.qtest.port_write(32, 0xcfc, value);
    }
}
