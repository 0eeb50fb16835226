//! PCI devices on bus 0, and the one that is an SD host controller.

use crate::board::{self, say};
use mmcq::board::pci::{self, Address, ConfigSpace, PciFunction};

/// Access to the first function of each PCI slot, through the board module.
struct Slots;

impl ConfigSpace for Slots {
    fn read(&self, at: Address, offset: u16) -> u32 {
        if at.function == 0 { board::pci_read(at.device.into(), offset.into()) } else { u32::MAX }
    }

    fn write(&self, at: Address, offset: u16, value: u32) {
        board::pci_write(at.device.into(), offset.into(), value);
    }
}

/// Enables a device's registers and its DMA. Returns the address of the registers and the number of
/// its interrupt.
pub fn enable(device: PciFunction) -> Result<(usize, u32), &'static str> {
    if device.memory(&Slots, 0).is_none() {
        device.set_memory(&Slots, 0, board::PCI_MEMORY);
    }
    device.enable(&Slots);
    let address = device.memory(&Slots, 0).ok_or("no address")?;
    let pin = u32::from(device.interrupt_pin(&Slots));
    Ok((address as usize, board::pci_irq(device.address.device.into(), pin.max(1) - 1)))
}

/// Returns the first SD host controller; if there is none, the error lists the devices that are
/// present.
pub fn sd_host() -> Result<PciFunction, &'static str> {
    let mut seen = 0;
    let found = pci::functions(&Slots, 0..=0).find(|device| {
        seen += 1;
        device.class == pci::SD_HOST
    });
    found.ok_or_else(|| {
        say(format_args!("{seen} PCI devices, none of class 08.05 (SD host controller)"));
        "no controller"
    })
}
