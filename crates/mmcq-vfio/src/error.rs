//! Errors of a device, one line each.

use crate::address::Address;
use std::io;

/// Why a reader cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not an address.
    #[error(
        "{0:?}: not a PCI address; expected [DOMAIN:]BUS:DEVICE.FUNCTION in hexadecimal, as 0000:00:04.0"
    )]
    Address(String),
    /// There is no device at this address.
    #[error("{address}: no such PCI device; {known}")]
    NoDevice {
        /// The address.
        address: Address,
        /// The devices that exist.
        known: String,
    },
    /// Not an SD host controller.
    #[error("{address}: class {class:#08x}, expected 0x0805xx (SD host controller); {known}")]
    Class {
        /// The address.
        address: Address,
        /// Base class, subclass, interface.
        class: u32,
        /// The SD host controllers of this machine.
        known: String,
    },
    /// The device has another driver, or none.
    #[error("{address}: bound to {driver}, expected vfio-pci; as root: {command}")]
    Driver {
        /// The address.
        address: Address,
        /// Its present driver.
        driver: String,
        /// The command that binds it.
        command: String,
    },
    /// No IOMMU protects the machine.
    #[error(
        "{address}: behind no IOMMU; expected one (in the firmware's setup; intel_iommu=on for Linux), \
         or --noiommu, which is unsafe"
    )]
    NoGroup {
        /// The address.
        address: Address,
    },
    /// An IOMMU protects the machine, and the options ask for none.
    #[error("{address}: behind an IOMMU; expected no --noiommu")]
    Protected {
        /// The address.
        address: Address,
    },
    /// A file that may not be opened.
    #[error("{path}: permission denied; as root: chown {user} {path}")]
    Permission {
        /// The file.
        path: String,
        /// The number of the user.
        user: u32,
    },
    /// A group with devices that have other drivers.
    #[error("IOMMU group {group}: not all of {members} are bound to vfio-pci or to no driver")]
    NotViable {
        /// Its number.
        group: String,
        /// Its devices.
        members: String,
    },
    /// A call of the operating system failed.
    #[error("{what}: {error}")]
    System {
        /// The call.
        what: String,
        /// Its error.
        error: io::Error,
    },
    /// The kernel's VFIO is not supported.
    #[error("/dev/vfio/vfio: {0}")]
    Vfio(String),
    /// The registers are not where they should be.
    #[error("{address}: {what}")]
    Registers {
        /// The address.
        address: Address,
        /// The fault.
        what: String,
    },
    /// The driver refuses the controller.
    #[error("{address}: {error}")]
    Controller {
        /// The address.
        address: Address,
        /// The reason.
        error: mmcq::host::sdhci::SdhciInitError,
    },
    /// The slot is empty.
    #[error("{address}: no card in the slot")]
    NoCard {
        /// The address.
        address: Address,
    },
    /// The card cannot be brought up.
    #[error("{address}: bring-up of the card failed: {error}")]
    BringUp {
        /// The address.
        address: Address,
        /// The reason.
        error: mmcq::engine::Error,
    },
    /// A request to the card failed.
    #[error("{address}: {error}")]
    Card {
        /// The address.
        address: Address,
        /// The reason.
        error: mmcq::engine::Error,
    },
    /// The card is gone, or has been exchanged.
    #[error("{address}: the card was taken out, or another one came")]
    Left {
        /// The address.
        address: Address,
    },
}

impl Error {
    /// Makes the error of a failed system call; `what` names it.
    pub(crate) fn system(what: impl Into<String>, error: io::Error) -> Self {
        Error::System { what: what.into(), error }
    }
}
