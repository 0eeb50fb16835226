//! What can be wrong with a device, a line each.

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
    /// Nothing is there.
    #[error("{address}: no such PCI device; {known}")]
    NoDevice {
        /// Asked for.
        address: Address,
        /// What there is.
        known: String,
    },
    /// Not an SD host controller.
    #[error("{address}: class {class:#08x}, expected 0x0805xx (SD host controller); {known}")]
    Class {
        /// Whose.
        address: Address,
        /// Base class, subclass, interface.
        class: u32,
        /// Those that this machine has.
        known: String,
    },
    /// Another driver has it, or none.
    #[error("{address}: bound to {driver}, expected vfio-pci; as root: {command}")]
    Driver {
        /// Whose.
        address: Address,
        /// Its driver now.
        driver: String,
        /// What binds it.
        command: String,
    },
    /// No IOMMU protects the machine.
    #[error(
        "{address}: behind no IOMMU; expected one (in the firmware's setup; intel_iommu=on for Linux), \
         or --noiommu, which is unsafe"
    )]
    NoGroup {
        /// Whose.
        address: Address,
    },
    /// An IOMMU protects the machine.
    #[error("{address}: behind an IOMMU; expected no --noiommu")]
    Protected {
        /// Whose.
        address: Address,
    },
    /// A file that may not be opened.
    #[error("{path}: permission denied; as root: chown {user} {path}")]
    Permission {
        /// The file.
        path: String,
        /// The user that asked, by number.
        user: u32,
    },
    /// A group with devices that other drivers have.
    #[error("IOMMU group {group}: not all of {members} are bound to vfio-pci or to no driver")]
    NotViable {
        /// Its number.
        group: String,
        /// Its devices.
        members: String,
    },
    /// The operating system said no.
    #[error("{what}: {error}")]
    System {
        /// To what.
        what: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel's VFIO is of another kind.
    #[error("/dev/vfio/vfio: {0}")]
    Vfio(String),
    /// The registers are not where they should be.
    #[error("{address}: {what}")]
    Registers {
        /// Whose.
        address: Address,
        /// What is wrong with them.
        what: String,
    },
    /// The driver does not take the controller.
    #[error("{address}: {error}")]
    Controller {
        /// Whose.
        address: Address,
        /// Why.
        error: mmcq::host::sdhci::SdhciInitError,
    },
    /// The slot is empty.
    #[error("{address}: no card in the slot")]
    NoCard {
        /// Whose.
        address: Address,
    },
    /// The card does not come up.
    #[error("{address}: bring-up of the card failed: {error}")]
    BringUp {
        /// Whose.
        address: Address,
        /// Why.
        error: mmcq::engine::Error,
    },
    /// What was asked of the card failed.
    #[error("{address}: {error}")]
    Card {
        /// Whose.
        address: Address,
        /// Why.
        error: mmcq::engine::Error,
    },
    /// The card is not the one that was there.
    #[error("{address}: the card was taken out, or another one came")]
    Left {
        /// Whose.
        address: Address,
    },
}

impl Error {
    /// The operating system said no to `what`.
    pub(crate) fn system(what: impl Into<String>, error: io::Error) -> Self {
        Error::System { what: what.into(), error }
    }
}
