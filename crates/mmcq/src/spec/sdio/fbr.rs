//! The FBR: function basic registers, in function 0 at 100h times the function's number
//! [SDIO 6.10].

use super::cccr::little_endian;

/// Offsets of the registers in a function's FBR.
pub mod reg {
    /// Standard interface code, and flags of the code storage area (CSA).
    pub const CLASS: u32 = 0x00;
    /// Extended standard interface code.
    pub const CLASS_EXTENDED: u32 = 0x01;
    /// Power selection of the function.
    pub const POWER: u32 = 0x02;
    /// First of three bytes with the address of the function's CIS.
    pub const CIS: u32 = 0x09;
    /// First of three bytes with the address of the window into the code storage area.
    pub const CSA: u32 = 0x0c;
    /// First of two bytes with the block size of CMD53.
    pub const BLOCK_SIZE: u32 = 0x10;
}

/// Number of bytes in an FBR that have a meaning.
pub const BYTES: usize = 0x12;

/// Standard interface codes [SDIO 6.10, table 6-4].
pub mod class {
    /// The function has no standard interface.
    pub const NONE: u8 = 0;
    /// Standard interface of a UART.
    pub const UART: u8 = 1;
    /// Standard interface of Bluetooth Type-A.
    pub const BLUETOOTH_A: u8 = 2;
    /// Standard interface of Bluetooth Type-B.
    pub const BLUETOOTH_B: u8 = 3;
    /// Standard interface of a GPS receiver.
    pub const GPS: u8 = 4;
    /// Standard interface of a camera.
    pub const CAMERA: u8 = 5;
    /// Standard interface of a PHS radio.
    pub const PHS: u8 = 6;
    /// Standard interface of a wireless LAN.
    pub const WLAN: u8 = 7;
    /// The code is in the extended register ([`reg::CLASS_EXTENDED`](super::reg::CLASS_EXTENDED)).
    pub const EXTENDED: u8 = 0xf;
}

/// Returns the address of a function's FBR.
pub const fn base(function: u8) -> u32 {
    (function as u32 & 7) << 8
}

/// The basic registers of a function, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fbr {
    /// Standard interface code, see [`class`]; from the extended register if the first one refers
    /// to it.
    pub class: u8,
    /// Whether the function has a code storage area.
    pub csa: bool,
    /// Whether access to the code storage area is enabled.
    pub csa_on: bool,
    /// Whether the function can work with less power (SPS).
    pub power_selection: bool,
    /// Whether the function works with less power now (EPS).
    pub low_power: bool,
    /// Address of the function's CIS, 24 bits.
    pub cis: u32,
    /// Address of the window into the function's code storage area, 24 bits.
    pub csa_pointer: u32,
    /// Block size of CMD53 in bytes; 0 if it was never set.
    pub block_bytes: u16,
}

impl Fbr {
    /// Decodes the registers at offsets 00h to 11h. Every content gives a value.
    pub fn parse(bytes: &[u8; BYTES]) -> Self {
        let at = |addr: u32| bytes.get(addr as usize).copied().unwrap_or(0);
        let three = |addr| little_endian([at(addr), at(addr + 1), at(addr + 2)]);
        let first = at(reg::CLASS);
        Fbr {
            class: match first & 0xf {
                class::EXTENDED => at(reg::CLASS_EXTENDED),
                class => class,
            },
            csa: first & 0x40 != 0,
            csa_on: first & 0x80 != 0,
            power_selection: at(reg::POWER) & 1 != 0,
            low_power: at(reg::POWER) & 2 != 0,
            cis: three(reg::CIS),
            csa_pointer: three(reg::CSA),
            block_bytes: u16::from_le_bytes([at(reg::BLOCK_SIZE), at(reg::BLOCK_SIZE + 1)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_table_says() {
        let mut bytes = [0; BYTES];
        bytes[..3].copy_from_slice(&[0x42, 0x99, 1]);
        bytes[9..].copy_from_slice(&[0x00, 0x20, 0x01, 1, 2, 3, 0, 0x00, 0x02]);
        let fbr = Fbr::parse(&bytes);
        assert_eq!((fbr.class, fbr.cis, fbr.block_bytes), (class::BLUETOOTH_A, 0x12000, 512));
        assert_eq!(fbr.csa_pointer, 0x30201);
        assert!(fbr.csa && !fbr.csa_on && fbr.power_selection && !fbr.low_power);
        bytes[0] = 0x8f;
        assert_eq!(Fbr::parse(&bytes).class, 0x99);
        assert_eq!(base(7), 0x700);
    }
}
