//! Errors of a card reader; each prints as one line.

use crate::address::Address;
use std::io;

/// The reason why a card reader cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a PCI address.
    #[error(
        "{0:?}: not a PCI address; expected [DOMAIN:]BUS:DEVICE.FUNCTION in hexadecimal, as 0000:00:04.0"
    )]
    Address(String),
    /// No PCI device has this address.
    #[error("{address}: no such PCI device; {known}")]
    NoDevice {
        /// PCI address that the user has given.
        address: Address,
        /// The SD host controllers of this machine, as text.
        known: String,
    },
    /// The device is not an SD host controller.
    #[error("{address}: class {class:#08x}, expected 0x0805xx (SD host controller); {known}")]
    Class {
        /// The device's address.
        address: Address,
        /// The PCI class code of the device: base class, subclass, programming interface.
        class: u32,
        /// The SD host controllers of this machine, as text.
        known: String,
    },
    /// The device is bound to a driver other than vfio-pci, or to none.
    #[error("{address}: bound to {driver}, expected vfio-pci; as root: {command}")]
    Driver {
        /// The device's address.
        address: Address,
        /// The driver that the device is bound to now.
        driver: String,
        /// The shell command that binds the device to vfio-pci.
        command: String,
    },
    /// No IOMMU protects the machine's memory from the device.
    #[error(
        "{address}: behind no IOMMU; expected one (in the firmware's setup; intel_iommu=on for Linux), \
         or --noiommu, which is unsafe"
    )]
    NoGroup {
        /// The device's address.
        address: Address,
    },
    /// An IOMMU protects the machine, but the options ask to work without one.
    #[error("{address}: behind an IOMMU; expected no --noiommu")]
    Protected {
        /// PCI address of the device.
        address: Address,
    },
    /// The user has no permission to open a file.
    #[error("{path}: permission denied; as root: chown {user} {path}")]
    Permission {
        /// The path of the file.
        path: String,
        /// The user's number (UID).
        user: u32,
    },
    /// The IOMMU group has other devices that are bound to other drivers, so the kernel gives the
    /// group to no program.
    #[error("IOMMU group {group}: not all of {members} are bound to vfio-pci or to no driver")]
    NotViable {
        /// The number of the IOMMU group.
        group: String,
        /// The PCI addresses of all devices in the IOMMU group.
        members: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// Thing that the system call was for, such as the path of a file.
        what: String,
        /// The error that the system call returned.
        error: io::Error,
    },
    /// The kernel has a version or configuration of VFIO that is not supported.
    #[error("/dev/vfio/vfio: {0}")]
    Vfio(String),
    /// The controller's registers are not where the standard puts them.
    #[error("{address}: {what}")]
    Registers {
        /// The device's address.
        address: Address,
        /// What is wrong with the registers.
        what: String,
    },
    /// The SDHCI driver refuses the controller.
    #[error("{address}: {error}")]
    Controller {
        /// The device's address.
        address: Address,
        /// The reason that the driver gives.
        error: mmcq::host::sdhci::SdhciInitError,
    },
    /// The slot has no card.
    #[error("{address}: no card in the slot")]
    NoCard {
        /// The device's address.
        address: Address,
    },
    /// The bring-up of the card failed.
    #[error("{address}: bring-up of the card failed: {error}")]
    BringUp {
        /// The device's address.
        address: Address,
        /// The error that ended the bring-up.
        error: mmcq::engine::Error,
    },
    /// A request to the card failed.
    #[error("{address}: {error}")]
    Card {
        /// The device's address.
        address: Address,
        /// The error of the request.
        error: mmcq::engine::Error,
    },
    /// The card was removed or exchanged.
    #[error("{address}: the card was taken out, or another one came")]
    Left {
        /// The device's address.
        address: Address,
    },
}

impl Error {
    /// Makes the error of a failed system call; `what` says what the call was for.
    pub(crate) fn system(what: impl Into<String>, error: io::Error) -> Self {
        Error::System { what: what.into(), error }
    }
}
