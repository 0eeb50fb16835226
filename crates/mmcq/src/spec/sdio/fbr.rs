//! The function basic registers, function 0, 100h times the function's number [SDIO 6.10].

use super::cccr::little_endian;

/// Offsets of the registers in a function's FBR.
pub mod reg {
    /// Interface code, CSA flags.
    pub const CLASS: u32 = 0x00;
    /// Extended interface code.
    pub const CLASS_EXTENDED: u32 = 0x01;
    /// Power selection.
    pub const POWER: u32 = 0x02;
    /// First of three bytes: where the function's CIS begins.
    pub const CIS: u32 = 0x09;
    /// First of three bytes: the window into its code storage.
    pub const CSA: u32 = 0x0c;
    /// First of two bytes: block size of CMD53.
    pub const BLOCK_SIZE: u32 = 0x10;
}

/// Bytes of a FBR with a meaning.
pub const BYTES: usize = 0x12;

/// Interface codes [SDIO 6.10, table 6-4].
pub mod class {
    /// No standard interface.
    pub const NONE: u8 = 0;
    /// UART.
    pub const UART: u8 = 1;
    /// Bluetooth Type-A.
    pub const BLUETOOTH_A: u8 = 2;
    /// Bluetooth Type-B.
    pub const BLUETOOTH_B: u8 = 3;
    /// GPS.
    pub const GPS: u8 = 4;
    /// Camera.
    pub const CAMERA: u8 = 5;
    /// PHS radio.
    pub const PHS: u8 = 6;
    /// Wireless LAN.
    pub const WLAN: u8 = 7;
    /// The code is in the next register.
    pub const EXTENDED: u8 = 0xf;
}

/// Returns the address of a function's FBR.
pub const fn base(function: u8) -> u32 {
    (function as u32 & 7) << 8
}

/// A function's basic registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fbr {
    /// Interface code: see [`class`]; from the extended register if the first one refers to it.
    pub class: u8,
    /// Whether it has a code storage area.
    pub csa: bool,
    /// Whether access to that area is on.
    pub csa_on: bool,
    /// SPS: whether it can be used with less power.
    pub power_selection: bool,
    /// EPS: whether it is used with less power.
    pub low_power: bool,
    /// Address of its CIS, 24 bits.
    pub cis: u32,
    /// Address of the window into its code storage, 24 bits.
    pub csa_pointer: u32,
    /// Block size of CMD53 in bytes; 0 if never set.
    pub block_bytes: u16,
}

impl Fbr {
    /// Reads offsets 00h to 11h. Every value has a meaning.
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
