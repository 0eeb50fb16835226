//! The functions on PCI bus 0, and the one that is an SD host controller.

use crate::board::{self, say};

/// SD host controller, by PCI's classes.
const SD_HOST: u32 = 0x08_05;
const ID: u32 = 0x00;
const COMMAND: u32 = 0x04;
const CLASS: u32 = 0x08;
const BAR: u32 = 0x10;
const INTERRUPT: u32 = 0x3c;
/// Answers to accesses of memory, and may itself access memory.
const MEMORY_AND_MASTER: u32 = 6;

/// The first function of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Device(u32);

impl Device {
    /// All there are.
    fn all() -> impl Iterator<Item = Device> {
        (0..32).map(Device).filter(|device| device.id().0 != u16::MAX)
    }

    /// Base class and subclass.
    fn class(self) -> u32 {
        board::pci_read(self.0, CLASS) >> 16
    }

    /// Vendor and device.
    pub fn id(self) -> (u16, u16) {
        let id = board::pci_read(self.0, ID);
        (id as u16, (id >> 16) as u16)
    }

    /// Makes its registers visible, and lets it reach memory; where they are, and the number of its interrupt.
    pub fn enable(self) -> (usize, u32) {
        if board::pci_read(self.0, BAR) & !0xf == 0 {
            board::pci_write(self.0, BAR, board::PCI_MEMORY);
        }
        board::pci_write(self.0, COMMAND, board::pci_read(self.0, COMMAND) & 0xffff | MEMORY_AND_MASTER);
        let pin = board::pci_read(self.0, INTERRUPT) >> 8 & 0xff;
        (board::pci_read(self.0, BAR) as usize & !0xf, board::pci_irq(self.0, pin.max(1) - 1))
    }
}

/// The first SD host controller; says what is there instead, if none is.
pub fn sd_host() -> Result<Device, &'static str> {
    let mut seen = 0;
    let found = Device::all().find(|device| {
        seen += 1;
        device.class() == SD_HOST
    });
    found.ok_or_else(|| {
        say(format_args!("{seen} PCI devices, none of class 08.05 (SD host controller)"));
        "no controller"
    })
}
