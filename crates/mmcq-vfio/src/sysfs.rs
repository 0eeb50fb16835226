//! What Linux's sysfs says about a PCI device; read before the device is opened.

use crate::address::Address;
use crate::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Base class and subclass of an SD host controller in the PCI class code.
const SD_HOST: u32 = 0x0805;
const DRIVER: &str = "vfio-pci";
/// The name that sysfs shows for an IOMMU group without an IOMMU.
const UNPROTECTED: &str = "vfio-noiommu\n";

/// Access to sysfs, or to a copy of its tree in tests.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Sysfs { root: PathBuf::from("/sys") }
    }
}

/// A PCI device that passed all checks and may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub vendor: u32,
    pub device: u32,
    /// Number of the device's IOMMU group.
    pub group: String,
    /// PCI addresses of all devices in the group.
    pub members: Vec<String>,
}

/// Returns the last component of the path that a symbolic link leads to; `None`: it is no link, or
/// cannot be read.
fn target(link: &Path) -> Option<String> {
    fs::read_link(link).ok()?.file_name()?.to_str().map(str::to_owned)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

impl Sysfs {
    /// Makes an access that reads another tree instead of `/sys`, for tests.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Sysfs { root: root.into() }
    }

    fn devices(&self) -> PathBuf {
        self.root.join("bus/pci/devices")
    }

    fn number(&self, address: Address, file: &str) -> Result<u32, Error> {
        let path = self.devices().join(address.to_string()).join(file);
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|error| Error::system(shown.clone(), error))?;
        let digits = text.trim().trim_start_matches("0x");
        u32::from_str_radix(digits, 16).map_err(|_| {
            let what = format!("{:?}, expected a hexadecimal number", text.trim());
            Error::system(shown, io::Error::new(io::ErrorKind::InvalidData, what))
        })
    }

    /// Returns the PCI addresses of all SD host controllers of this machine.
    pub fn controllers(&self) -> Vec<Address> {
        let all = names(&self.devices()).into_iter().filter_map(|name| name.parse().ok());
        all.filter(|&address| self.number(address, "class").is_ok_and(|class| class >> 8 == SD_HOST))
            .collect()
    }

    /// Returns the SD host controllers of this machine as text, for messages.
    fn known(&self) -> String {
        let known: Vec<_> = self.controllers().iter().map(Address::to_string).collect();
        match known.as_slice() {
            [] => "this machine has no SD host controller on PCI".to_owned(),
            known => format!("SD host controllers: {}", known.join(", ")),
        }
    }

    /// Checks that the device is an SD host controller, bound to vfio-pci, in a group that an IOMMU
    /// protects (with `noiommu`: in a group without an IOMMU).
    pub(crate) fn find(&self, address: Address, noiommu: bool) -> Result<Found, Error> {
        let folder = self.devices().join(address.to_string());
        if !folder.exists() {
            return Err(Error::NoDevice { address, known: self.known() });
        }
        let class = self.number(address, "class")?;
        if class >> 8 != SD_HOST {
            return Err(Error::Class { address, class, known: self.known() });
        }
        let group = target(&folder.join("iommu_group"));
        // Without an IOMMU, VFIO itself makes a group once the device is bound to it.
        let protected = group.is_some()
            && fs::read_to_string(folder.join("iommu_group/name")).ok().as_deref() != Some(UNPROTECTED);
        match (protected, noiommu) {
            (false, false) => return Err(Error::NoGroup { address }),
            (true, true) => return Err(Error::Protected { address }),
            _ => {}
        }
        let driver = target(&folder.join("driver"));
        if driver.as_deref() != Some(DRIVER) {
            let command = self.binding(address, driver.is_some(), noiommu);
            return Err(Error::Driver { address, driver: driver.unwrap_or("no driver".to_owned()), command });
        }
        let group = group.ok_or(Error::NoGroup { address })?;
        let members = names(&folder.join("iommu_group/devices"));
        let [vendor, device] = [self.number(address, "vendor")?, self.number(address, "device")?];
        Ok(Found { vendor, device, group, members })
    }

    /// Returns the shell command that binds the device to vfio-pci. `bound`: another driver has the
    /// device now. `noiommu`: the machine has no IOMMU, so the command also allows vfio to work
    /// without one.
    fn binding(&self, address: Address, bound: bool, noiommu: bool) -> String {
        let loaded = self.root.join("bus/pci/drivers").join(DRIVER).exists();
        let mut load = if loaded { "" } else { "modprobe vfio-pci && " }.to_owned();
        if noiommu {
            load += "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode && ";
        }
        let unbind = match bound {
            true => format!("echo {address} > devices/{address}/driver/unbind && "),
            false => String::new(),
        };
        let choose = format!("echo {DRIVER} > devices/{address}/driver_override");
        format!("{load}cd /sys/bus/pci && {choose} && {unbind}echo {address} > drivers_probe")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const HERE: &str = "0000:00:04.0";

    /// A sysfs tree of a machine with an SD controller at 04.0 and an AHCI controller at 1f.2.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Machine(tempfile::tempdir().unwrap());
            for (address, class) in [(HERE, "0x080501"), ("0000:00:1f.2", "0x010601")] {
                let folder = machine.device(address);
                fs::create_dir_all(&folder).unwrap();
                for (file, text) in [("class", class), ("vendor", "0x1b36"), ("device", "0x0007")] {
                    fs::write(folder.join(file), format!("{text}\n")).unwrap();
                }
            }
            machine
        }

        fn device(&self, address: &str) -> PathBuf {
            self.0.path().join("bus/pci/devices").join(address)
        }

        fn driver(self, name: &str) -> Self {
            let driver = self.0.path().join("bus/pci/drivers").join(name);
            fs::create_dir_all(&driver).unwrap();
            symlink(driver, self.device(HERE).join("driver")).unwrap();
            self
        }

        fn group(self, number: &str) -> Self {
            let group = self.0.path().join("kernel/iommu_groups").join(number);
            fs::create_dir_all(group.join("devices").join(HERE)).unwrap();
            symlink(group, self.device(HERE).join("iommu_group")).unwrap();
            self
        }

        fn without_iommu(self, number: &str) -> Self {
            let machine = self.group(number);
            fs::write(machine.device(HERE).join("iommu_group/name"), "vfio-noiommu\n").unwrap();
            machine
        }

        fn find(&self, address: &str) -> Result<Found, String> {
            self.find_as(address, false)
        }

        fn find_as(&self, address: &str, noiommu: bool) -> Result<Found, String> {
            let address = address.parse().unwrap();
            Sysfs::at(self.0.path()).find(address, noiommu).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn a_controller_that_vfio_has() {
        let found = Machine::new().driver("vfio-pci").group("7").find(HERE);
        let members = vec![HERE.to_owned()];
        assert_eq!(found, Ok(Found { vendor: 0x1b36, device: 7, group: "7".to_owned(), members }));
    }

    #[test]
    fn what_is_not_there_or_no_sd_controller() {
        let machine = Machine::new();
        assert_eq!(
            machine.find("00:05.0").unwrap_err(),
            "0000:00:05.0: no such PCI device; SD host controllers: 0000:00:04.0"
        );
        assert_eq!(
            machine.find("00:1f.2").unwrap_err(),
            "0000:00:1f.2: class 0x010601, expected 0x0805xx (SD host controller); SD host controllers: 0000:00:04.0"
        );
        fs::write(machine.device(HERE).join("class"), "0x010601").unwrap();
        assert_eq!(
            machine.find("00:05.0").unwrap_err(),
            "0000:00:05.0: no such PCI device; this machine has no SD host controller on PCI"
        );
        fs::write(machine.device(HERE).join("class"), "SD").unwrap();
        let error = machine.find(HERE).unwrap_err();
        assert!(error.ends_with("class: \"SD\", expected a hexadecimal number"), "{error}");
    }

    #[test]
    fn another_driver_or_none_comes_with_the_command_that_binds() {
        assert_eq!(
            Machine::new().group("7").find(HERE).unwrap_err(),
            "0000:00:04.0: bound to no driver, expected vfio-pci; as root: modprobe vfio-pci && \
             cd /sys/bus/pci && echo vfio-pci > devices/0000:00:04.0/driver_override && echo 0000:00:04.0 > drivers_probe"
        );
        let machine = Machine::new().driver("sdhci-pci").group("7");
        fs::create_dir_all(machine.0.path().join("bus/pci/drivers/vfio-pci")).unwrap();
        assert_eq!(
            machine.find(HERE).unwrap_err(),
            "0000:00:04.0: bound to sdhci-pci, expected vfio-pci; as root: cd /sys/bus/pci && \
             echo vfio-pci > devices/0000:00:04.0/driver_override && \
             echo 0000:00:04.0 > devices/0000:00:04.0/driver/unbind && echo 0000:00:04.0 > drivers_probe"
        );
    }

    #[test]
    fn a_machine_without_an_iommu_needs_to_be_told_so() {
        for machine in [Machine::new(), Machine::new().driver("vfio-pci").without_iommu("0")] {
            let error = machine.find(HERE).unwrap_err();
            assert!(error.contains("no IOMMU") && error.contains("--noiommu"), "{error}");
        }
        let found = Machine::new().driver("vfio-pci").without_iommu("0").find_as(HERE, true).unwrap();
        assert_eq!(found.group, "0");
        let error = Machine::new().driver("sdhci-pci").find_as(HERE, true).unwrap_err();
        assert!(error.contains("enable_unsafe_noiommu_mode && cd /sys/bus/pci"), "{error}");
        let error = Machine::new().driver("vfio-pci").group("7").find_as(HERE, true).unwrap_err();
        assert_eq!(error, "0000:00:04.0: behind an IOMMU; expected no --noiommu");
    }
}
