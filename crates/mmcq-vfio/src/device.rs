//! A PCI function opened through VFIO: its configuration space, registers, DMA memory and
//! interrupt.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::address::Address;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::kernel::{self, RegionInfo};
use crate::memory::{self, Memory};
use crate::sysfs::Sysfs;
use crate::takeover::{self, Function};
use crate::window::{self, Window};
use mmcq::host::sdhci::{SdhciConfig, StreamConfig};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Offset of the PCI Command register.
const COMMAND: u64 = 0x04;
/// Bit Memory Space Enable of the PCI Command register.
const MEMORY_SPACE: u16 = 1 << 1;
/// Bit Bus Master Enable of the PCI Command register.
const BUS_MASTER: u16 = 1 << 2;
const FIRST_BAR: u64 = 0x10;
const BAR_IO: u32 = 1;
/// Offset of the Slot Information register: bits 6:4 are the number of slots minus one, bits 2:0
/// the BAR of the first slot [SDHC, the appendix on PCI].
const SLOT_INFORMATION: u64 = 0x40;
const READ_AND_WRITE: u32 = 3;
const CAN_BE_MAPPED: u32 = 4;
/// Bus addresses to try for the DMA memory: below 4 GiB, and outside of x86's address range for
/// interrupt messages (0xfee0_0000). The first that is free in the IOMMU is used.
const BUS_ADDRESSES: [u64; 3] = [0x1000_0000, 0x4000_0000, 0x8000_0000];

/// Options to open a card reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Number of the controller's slot to use, counted from 0.
    pub slot: u8,
    /// Whether to work without an IOMMU (`vfio.enable_unsafe_noiommu_mode`). The controller can
    /// then reach all of the machine's memory. This needs root and a large page.
    pub noiommu: bool,
    /// Whether to access the registers by system calls even if they can be mapped; strace shows
    /// each of these calls.
    pub by_calls: bool,
    /// Settings of the SDHCI driver for this controller.
    pub config: SdhciConfig,
    /// Which transfers the driver keeps open, so that a request for the next blocks continues them.
    /// The default is none, since this has to be tried on each controller
    /// ([`stream_test`](mmcq::block::stream_test)).
    pub streams: StreamConfig,
}

/// An open PCI device. No other program can use the device until this value is dropped; from then
/// on the device cannot reach memory.
#[derive(Debug)]
pub struct Device {
    address: Address,
    id: (u32, u32),
    noiommu: bool,
    file: Arc<File>,
    config: RegionInfo,
    container: File,
    /// The file of the IOMMU group. While it is open, the kernel leaves the device to this program.
    _group: File,
}

/// Returns the kinds of IOMMU protection that are acceptable, best first. With `noiommu` the only
/// kind is none at all.
fn protections(noiommu: bool) -> &'static [i32] {
    if noiommu { &[kernel::NOIOMMU] } else { &[kernel::TYPE1_V2, kernel::TYPE1] }
}

fn open(path: &str) -> Result<File, Error> {
    File::options().read(true).write(true).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            // SAFETY: the call only returns a number.
            Error::Permission { path: path.to_owned(), user: unsafe { libc::geteuid() } }
        }
        _ if error.raw_os_error() == Some(libc::EBUSY) => {
            let what = "another program has it";
            Error::system(path, io::Error::new(io::ErrorKind::ResourceBusy, what))
        }
        _ => Error::system(path, error),
    })
}

impl Device {
    /// Takes over the device at `address`, and ends any transfer that an earlier program has left.
    /// The device cannot access memory until `connect` is called. `noiommu`: to use VFIO without an
    /// IOMMU.
    pub fn open(sysfs: &Sysfs, address: Address, noiommu: bool) -> Result<Self, Error> {
        let found = sysfs.find(address, noiommu)?;
        let container = open("/dev/vfio/vfio")?;
        match kernel::api_version(&container) {
            Ok(kernel::API_VERSION) => {}
            Ok(other) => {
                let expected = kernel::API_VERSION;
                return Err(Error::Vfio(format!("interface version {other}, expected {expected}")));
            }
            Err(error) => return Err(Error::Vfio(error.to_string())),
        }
        let prefix = if noiommu { "noiommu-" } else { "" };
        let path = format!("/dev/vfio/{prefix}{}", found.group);
        let group = open(&path)?;
        let system = |error| Error::system(path.clone(), error);
        if !kernel::is_viable(&group).map_err(system)? {
            return Err(Error::NotViable { group: found.group, members: found.members.join(", ") });
        }
        kernel::set_container(&group, &container).map_err(system)?;
        let kind = protections(noiommu).iter().find(|&&kind| kernel::has_extension(&container, kind));
        let Some(&kind) = kind else {
            let which = if noiommu { "vfio without IOMMU" } else { "vfio_iommu_type1" };
            return Err(Error::Vfio(format!("the kernel has no {which}")));
        };
        kernel::set_iommu(&container, kind).map_err(|error| Error::Vfio(error.to_string()))?;
        let name = address.to_string();
        let file = kernel::device(&group, &name).map_err(|error| Error::system(name.clone(), error))?;
        let config =
            kernel::region(&file, kernel::REGION_CONFIG).map_err(|error| Error::system(name, error))?;
        let id = (found.vendor, found.device);
        let device = Device { address, id, noiommu, file: Arc::new(file), config, container, _group: group };
        let command = device.config16(COMMAND)?;
        device.set_config16(COMMAND, command & !BUS_MASTER | MEMORY_SPACE)?;
        takeover::quiet(&device)?;
        Ok(device)
    }

    /// Lets the controller access its DMA memory: enables bus mastering.
    pub(crate) fn connect(&self) -> Result<(), Error> {
        self.set_bus_master(true)
    }

    /// Returns the device's PCI address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the PCI vendor ID and device ID.
    pub fn id(&self) -> (u32, u32) {
        self.id
    }

    fn config_bytes<const N: usize>(&self, register: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.file
            .read_exact_at(&mut bytes, self.config.offset + register)
            .map_err(|error| Error::system(format!("{}: configuration space", self.address), error))?;
        Ok(bytes)
    }

    fn config16(&self, register: u64) -> Result<u16, Error> {
        self.config_bytes(register).map(u16::from_le_bytes)
    }

    fn set_config16(&self, register: u64, value: u16) -> Result<(), Error> {
        self.file
            .write_all_at(&value.to_le_bytes(), self.config.offset + register)
            .map_err(|error| Error::system(format!("{}: configuration space", self.address), error))
    }

    /// Returns access to the registers of a slot; with `by_calls` by system calls, otherwise mapped
    /// if possible.
    pub(crate) fn registers(&self, slot: u8, by_calls: bool) -> Result<Window, Error> {
        let wrong = |what| self.wrong_registers(what);
        let [slots] = self.config_bytes(SLOT_INFORMATION)?;
        let bar = bar_of(slots, slot).map_err(wrong)?;
        let base = self.config_bytes(FIRST_BAR + 4 * u64::from(bar)).map(u32::from_le_bytes)?;
        let region = kernel::region(&self.file, bar)
            .map_err(|error| Error::system(format!("{}: BAR {bar}", self.address), error))?;
        checked(bar, base, &region).map_err(wrong)?;
        if !by_calls
            && region.flags & CAN_BE_MAPPED != 0
            && let Ok(window) = Window::mapped(&self.file, region.offset)
        {
            return Ok(window);
        }
        Ok(Window::file(self.file.clone(), region.offset))
    }

    fn wrong_registers(&self, what: String) -> Error {
        Error::Registers { address: self.address, what }
    }

    /// Allocates memory that the controller can reach by DMA.
    pub(crate) fn memory(&self) -> Result<Memory, Error> {
        let mebibytes = memory::BYTES >> 20;
        let mut memory = Memory::new(self.noiommu).map_err(|error| {
            let hint = if self.noiommu { " as a large page (sysctl vm.nr_hugepages=1)" } else { "" };
            Error::system(format!("{mebibytes} MiB of memory{hint}"), error)
        })?;
        if self.noiommu {
            let bus = memory.physical().map_err(|error| Error::system("/proc/self/pagemap", error))?;
            memory.set_bus(bus);
            return Ok(memory);
        }
        let mut refused = None;
        for bus in BUS_ADDRESSES {
            // SAFETY: the memory is fresh, only the engine gets it, and it is never unmapped.
            match unsafe { kernel::map_dma(&self.container, memory.address(), bus, memory::BYTES as u64) } {
                Ok(()) => {
                    memory.set_bus(bus);
                    return Ok(memory);
                }
                Err(error) => refused = Some(error),
            }
        }
        let error = refused.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
        let hint = if error.raw_os_error() == Some(libc::ENOMEM) { " (ulimit -l)" } else { "" };
        Err(Error::system(format!("{mebibytes} MiB of memory for the controller{hint}"), error))
    }

    pub(crate) fn interrupt(&self) -> Result<Interrupt, Error> {
        Interrupt::new(self.file.clone())
    }
}

impl Function for Device {
    type Registers = Window;

    fn set_bus_master(&self, on: bool) -> Result<(), Error> {
        let command = self.config16(COMMAND)?;
        self.set_config16(COMMAND, if on { command | BUS_MASTER } else { command & !BUS_MASTER })
    }

    fn reset(&self) {
        // Whether the kernel's reset works does not matter: each slot is reset and checked after
        // it.
        let _ = kernel::reset(&self.file);
    }

    fn slots(&self) -> Result<Vec<(u8, Window)>, Error> {
        let [slots] = self.config_bytes(SLOT_INFORMATION)?;
        // A slot without registers cannot have a transfer under way.
        Ok((0..slots_of(slots)).filter_map(|slot| Some((slot, self.registers(slot, true).ok()?))).collect())
    }

    fn wrong(&self, what: String) -> Error {
        self.wrong_registers(what)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The kernel does this too when the device is closed, but a register window may keep the
        // device open for longer.
        let _ = self.set_bus_master(false);
    }
}

/// Returns the number of slots that the Slot Information register reports.
fn slots_of(slots: u8) -> u8 {
    (slots >> 4 & 7) + 1
}

/// Returns the number of the BAR for a slot, from the Slot Information register.
fn bar_of(slots: u8, slot: u8) -> Result<u32, String> {
    let (count, first) = (slots_of(slots), slots & 7);
    if slot >= count {
        return Err(format!("slot {slot}, expected 0 to {}", count - 1));
    }
    match first + slot {
        bar @ 0..=5 => Ok(bar.into()),
        bar => Err(format!("slot {slot} in BAR {bar}, expected 0 to 5")),
    }
}

/// Checks whether an SDHCI register block can be behind BAR number `bar`; `base` is the BAR's
/// value. The error says why not.
fn checked(bar: u32, base: u32, region: &RegionInfo) -> Result<(), String> {
    let expected = window::BYTES;
    if base & BAR_IO != 0 && region.size != 0 {
        return Err(format!("BAR {bar} is of I/O ports, expected memory"));
    }
    if region.size < expected as u64 {
        return Err(format!("BAR {bar} has {} bytes, expected {expected} at least", region.size));
    }
    if region.flags & READ_AND_WRITE != READ_AND_WRITE {
        return Err(format!("BAR {bar} cannot be read and written"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_their_bars() {
        assert_eq!(bar_of(0x00, 0), Ok(0));
        assert_eq!(bar_of(0x21, 2), Ok(3));
        assert_eq!(bar_of(0x00, 1), Err("slot 1, expected 0 to 0".to_owned()));
        assert_eq!(bar_of(0x21, 3), Err("slot 3, expected 0 to 2".to_owned()));
        assert_eq!(bar_of(0x25, 1), Err("slot 1 in BAR 6, expected 0 to 5".to_owned()));
        assert_eq!(bar_of(0xff, 7), Err("slot 7 in BAR 14, expected 0 to 5".to_owned()));
    }

    #[test]
    fn regions_that_hold_no_sdhci_are_refused() {
        let well = RegionInfo { size: 256, flags: READ_AND_WRITE, ..RegionInfo::default() };
        assert_eq!(checked(0, 0xfebf_1000, &well), Ok(()));
        let refused = |base, region: &RegionInfo| checked(2, base, region).unwrap_err();
        assert_eq!(refused(0xc001, &well), "BAR 2 is of I/O ports, expected memory");
        assert_eq!(refused(0, &RegionInfo { size: 0, ..well }), "BAR 2 has 0 bytes, expected 256 at least");
        assert_eq!(
            refused(0, &RegionInfo { size: 255, ..well }),
            "BAR 2 has 255 bytes, expected 256 at least"
        );
        assert_eq!(refused(0, &RegionInfo { flags: 1, ..well }), "BAR 2 cannot be read and written");
    }

    #[test]
    fn files_that_cannot_be_opened_are_named() {
        let error = open("/dev/vfio/there-is-none").unwrap_err().to_string();
        assert!(error.starts_with("/dev/vfio/there-is-none: "), "{error}");
    }
}
