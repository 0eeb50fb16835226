//! Addresses of PCI functions.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// The address of a PCI function: domain, bus, device and function, as `lspci -D` prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// Parses a hexadecimal number of at most `digits` digits. Returns `None` if the text is no such
/// number or the number is larger than `most`.
fn number(text: &str, digits: usize, most: u32) -> Option<u32> {
    let well = !text.is_empty() && text.len() <= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(text, 16).ok().filter(|&number| well && number <= most)
}

impl FromStr for Address {
    type Err = Error;

    /// Parses `[DOMAIN:]BUS:DEVICE.FUNCTION`, in hexadecimal; without a domain the domain is 0000.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
            Some(Address {
                // Virtual PCI domains (behind Intel's VMD) have numbers of five digits and more.
                domain: number(domain, 8, u32::MAX)?,
                bus: number(bus, 2, 0xff)? as u8,
                device: number(device, 2, 0x1f)? as u8,
                function: number(function, 1, 7)? as u8,
            })
        };
        parsed().ok_or_else(|| Error::Address(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_lspci_writes_them() {
        for (text, full) in [
            ("0000:00:04.0", "0000:00:04.0"),
            ("00:04.0", "0000:00:04.0"),
            ("0:1f.7", "0000:00:1f.7"),
            ("10000:E1:00.3", "10000:e1:00.3"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), full, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in [
            "",
            "4",
            "00:04",
            "04.0",
            "00:20.0",
            "00:04.8",
            "00:04.0 ",
            "+0:04.0",
            "100:00.0",
            "a:b:c:d.0",
            "00:g4.0",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?}")) && error.contains("0000:00:04.0"), "{error}");
        }
    }
}
