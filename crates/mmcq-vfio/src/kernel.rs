//! The system calls of VFIO, with the numbers and structures of `linux/vfio.h`. The kernel checks
//! each structure by its size.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

const fn call(number: u32) -> libc::Ioctl {
    libc::_IO(b';' as u32, 100 + number)
}
const GET_API_VERSION: libc::Ioctl = call(0);
const CHECK_EXTENSION: libc::Ioctl = call(1);
const SET_IOMMU: libc::Ioctl = call(2);
const GROUP_GET_STATUS: libc::Ioctl = call(3);
const GROUP_SET_CONTAINER: libc::Ioctl = call(4);
const GROUP_GET_DEVICE_FD: libc::Ioctl = call(6);
const DEVICE_GET_INFO: libc::Ioctl = call(7);
const DEVICE_GET_REGION_INFO: libc::Ioctl = call(8);
const DEVICE_GET_IRQ_INFO: libc::Ioctl = call(9);
const DEVICE_SET_IRQS: libc::Ioctl = call(10);
const DEVICE_RESET: libc::Ioctl = call(11);
const IOMMU_MAP_DMA: libc::Ioctl = call(13);

/// The VFIO API version that this file was written for.
pub const API_VERSION: i32 = 0;
/// Number by which VFIO names the IOMMU protection "type 1" (`VFIO_TYPE1_IOMMU`).
pub const TYPE1: i32 = 1;
/// Number by which VFIO names the IOMMU protection "type 1, version 2" (`VFIO_TYPE1v2_IOMMU`).
pub const TYPE1_V2: i32 = 3;
/// Number by which VFIO names work without an IOMMU, so without protection (`VFIO_NOIOMMU_IOMMU`).
pub const NOIOMMU: i32 = 8;
/// The VFIO region of the PCI configuration space; regions 0 to 5 are the BARs.
pub const REGION_CONFIG: u32 = 7;
/// The VFIO number of the interrupt pin (INTx).
pub const IRQ_INTX: u32 = 0;
/// The VFIO number of message-signalled interrupts (MSI).
pub const IRQ_MSI: u32 = 1;

const GROUP_VIABLE: u32 = 1;
const DEVICE_CAN_RESET: u32 = 1;
const IRQ_EVENTFD: u32 = 1;
const IRQ_AUTOMASKED: u32 = 4;
const SET_NONE: u32 = 1;
const SET_EVENTFD: u32 = 4;
const SET_UNMASK: u32 = 16;
const SET_TRIGGER: u32 = 32;
const DMA_READ_AND_WRITE: u32 = 3;

#[repr(C)]
#[derive(Default)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

/// Where a region is in the device's file, and how it may be accessed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionInfo {
    /// Size of this structure in bytes, by which the kernel checks the structure.
    pub argsz: u32,
    /// Bit 0: readable; bit 1: writable; bit 2: can be mapped.
    pub flags: u32,
    /// Number of the region, for which the caller asks: 0 to 5 are the BARs.
    pub index: u32,
    /// Offset of further information in this structure; not used.
    pub cap_offset: u32,
    /// Size of the region in bytes; 0: the device does not have this region.
    pub size: u64,
    /// Offset of the region in the device's file.
    pub offset: u64,
}

#[repr(C)]
#[derive(Default)]
struct DeviceInfo {
    argsz: u32,
    flags: u32,
    regions: u32,
    irqs: u32,
}

#[repr(C)]
#[derive(Default)]
struct IrqInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    count: u32,
}

#[repr(C)]
#[derive(Default)]
struct IrqSet {
    argsz: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    event: i32,
}

#[repr(C)]
struct DmaMap {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn call_plain(file: &File, request: libc::Ioctl, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open, and the argument is a number.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), request, argument) })
}

/// Makes the ioctl `request` on the file, with a structure as its argument.
///
/// # Safety
/// `T` is the structure that `request` takes, or begins with it.
unsafe fn call_with<T>(file: &File, request: libc::Ioctl, argument: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open, and the structure lives during the call; the caller promises
    // its type.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), request, core::ptr::from_mut(argument)) })
}

/// Returns the API version of the kernel's VFIO.
pub fn api_version(container: &File) -> io::Result<i32> {
    call_plain(container, GET_API_VERSION, 0)
}

/// Returns whether the kernel supports this kind of IOMMU protection.
pub fn has_extension(container: &File, kind: i32) -> bool {
    call_plain(container, CHECK_EXTENSION, kind).is_ok_and(|answer| answer > 0)
}

/// Sets the kind of IOMMU protection, such as [`TYPE1`], that the container uses. Call it after the
/// first group was added to the container.
pub fn set_iommu(container: &File, kind: i32) -> io::Result<()> {
    call_plain(container, SET_IOMMU, kind).map(|_| ())
}

/// Returns whether every device of the group either belongs to this program or has no driver.
pub fn is_viable(group: &File) -> io::Result<bool> {
    let mut status = GroupStatus { argsz: size_of::<GroupStatus>() as u32, flags: 0 };
    // SAFETY: the structure is `struct vfio_group_status`.
    unsafe { call_with(group, GROUP_GET_STATUS, &mut status) }?;
    Ok(status.flags & GROUP_VIABLE != 0)
}

/// Adds an IOMMU group to a container. The groups of a container share one DMA address space.
pub fn set_container(group: &File, container: &File) -> io::Result<()> {
    let mut descriptor: libc::c_int = container.as_raw_fd();
    // SAFETY: the argument is a pointer to a file descriptor.
    unsafe { call_with(group, GROUP_SET_CONTAINER, &mut descriptor) }.map(|_| ())
}

/// Opens a device of a group by its PCI address.
pub fn device(group: &File, name: &str) -> io::Result<File> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the argument is a C string that lives during the call.
    let descriptor = checked(unsafe { libc::ioctl(group.as_raw_fd(), GROUP_GET_DEVICE_FD, name.as_ptr()) })?;
    // SAFETY: the descriptor is fresh, and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Resets the device, and restores its configuration space. Returns false if the kernel cannot
/// reset this device.
pub fn reset(device: &File) -> io::Result<bool> {
    let mut info = DeviceInfo { argsz: size_of::<DeviceInfo>() as u32, ..DeviceInfo::default() };
    // SAFETY: the structure is `struct vfio_device_info`.
    unsafe { call_with(device, DEVICE_GET_INFO, &mut info) }?;
    if info.flags & DEVICE_CAN_RESET == 0 {
        return Ok(false);
    }
    call_plain(device, DEVICE_RESET, 0).map(|_| true)
}

/// Returns position, size and access rights of a region of the device.
pub fn region(device: &File, index: u32) -> io::Result<RegionInfo> {
    let mut info = RegionInfo { argsz: size_of::<RegionInfo>() as u32, index, ..RegionInfo::default() };
    // SAFETY: the structure is `struct vfio_region_info`.
    unsafe { call_with(device, DEVICE_GET_REGION_INFO, &mut info) }?;
    Ok(info)
}

/// Returns how many interrupts of this kind the device has, and whether the kernel masks each one
/// after it came. `None`: the kernel cannot deliver these interrupts by eventfd.
pub fn interrupt(device: &File, index: u32) -> io::Result<Option<(u32, bool)>> {
    let mut info = IrqInfo { argsz: size_of::<IrqInfo>() as u32, index, ..IrqInfo::default() };
    // SAFETY: the structure is `struct vfio_irq_info`.
    unsafe { call_with(device, DEVICE_GET_IRQ_INFO, &mut info) }?;
    Ok((info.flags & IRQ_EVENTFD != 0).then_some((info.count, info.flags & IRQ_AUTOMASKED != 0)))
}

/// Connects an interrupt of the device to an eventfd. `index`: VFIO's number for the kind of
/// interrupt, such as INTx or MSI; if there are several of this kind, the first is connected.
pub fn signal(device: &File, index: u32, event: RawFd) -> io::Result<()> {
    let argsz = size_of::<IrqSet>() as u32;
    let mut set = IrqSet { argsz, flags: SET_EVENTFD | SET_TRIGGER, index, start: 0, count: 1, event };
    // SAFETY: the structure is `struct vfio_irq_set`, followed by one descriptor.
    unsafe { call_with(device, DEVICE_SET_IRQS, &mut set) }.map(|_| ())
}

/// Unmasks an interrupt that the kernel has masked after it came. `index`: VFIO's number for the
/// kind of interrupt.
pub fn unmask(device: &File, index: u32) -> io::Result<()> {
    // Size of the structure without the descriptor at its end.
    let argsz = size_of::<IrqSet>() as u32 - 4;
    let mut set = IrqSet { argsz, flags: SET_NONE | SET_UNMASK, index, start: 0, count: 1, event: 0 };
    // SAFETY: the structure begins with `struct vfio_irq_set`.
    unsafe { call_with(device, DEVICE_SET_IRQS, &mut set) }.map(|_| ())
}

/// Maps `size` bytes of memory at the virtual address `vaddr` for the devices of a container, at
/// the bus address `iova`.
///
/// # Safety
/// Devices may write to the memory from this call on until the container is closed. Until then the
/// memory must not be used for anything else.
pub unsafe fn map_dma(container: &File, vaddr: u64, iova: u64, size: u64) -> io::Result<()> {
    let argsz = size_of::<DmaMap>() as u32;
    let mut map = DmaMap { argsz, flags: DMA_READ_AND_WRITE, vaddr, iova, size };
    // SAFETY: the structure is `struct vfio_iommu_type1_dma_map`; the caller promises that the
    // memory is free for it.
    unsafe { call_with(container, IOMMU_MAP_DMA, &mut map) }.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels_header() {
        // linux/vfio.h has only fields of 4 and 8 bytes, without gaps.
        assert_eq!(size_of::<GroupStatus>(), 8);
        assert_eq!(size_of::<DeviceInfo>(), 16);
        assert_eq!(size_of::<RegionInfo>(), 32);
        assert_eq!(size_of::<IrqInfo>(), 16);
        assert_eq!(size_of::<IrqSet>(), 20 + 4);
        assert_eq!(size_of::<DmaMap>(), 32);
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    #[test]
    fn numbers_are_those_of_the_kernels_header() {
        // The numbers are `_IO(';', 100)` and so on: ';' is 0x3b, 100 is 0x64.
        assert_eq!(GET_API_VERSION as u32, 0x3b64);
        assert_eq!(GROUP_GET_DEVICE_FD as u32, 0x3b6a);
        assert_eq!(DEVICE_RESET as u32, 0x3b6f);
        assert_eq!(IOMMU_MAP_DMA as u32, 0x3b71);
    }

    #[test]
    fn a_file_that_is_not_vfios_says_no() {
        let file = File::open("/dev/null").unwrap();
        assert!(api_version(&file).is_err());
        assert!(!has_extension(&file, TYPE1_V2));
        assert!(reset(&file).is_err());
        assert!(region(&file, 0).is_err() && interrupt(&file, 0).is_err() && is_viable(&file).is_err());
        assert!(device(&file, "0000:00:04.0").is_err() && device(&file, "a\0b").is_err());
    }
}
