//! Identity of an I/O card, and the bytes of its CIS (card information structure) [SDIO 6.9, 16].

use super::quirk::IoQuirks;
use std::fmt;

/// First address of the CIS area in function 0.
pub const CIS_BASE: u32 = 0x1000;

/// Bytes of the CIS area, and the address at which each tuple chain begins.
#[derive(Clone, PartialEq, Eq)]
pub struct Cis {
    /// Bytes of the CIS area from [`CIS_BASE`] on.
    pub image: Vec<u8>,
    /// Value of all bytes of the CIS area after those in `image`.
    pub fill: u8,
    /// CIS pointers of the card (index 0) and of the functions 1 to 7, 24 bits each.
    pub pointers: [u32; 8],
}

impl fmt::Debug for Cis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cis {{ {} bytes, then {:#04x}, {:x?} }}", self.image.len(), self.fill, self.pointers)
    }
}

impl Cis {
    /// Makes a CIS from tuple chains: first the card's chain, then a chain for each function.
    #[must_use]
    pub fn chains(chains: &[Vec<u8>]) -> Self {
        let mut cis = Cis { image: Vec::new(), fill: 0xff, pointers: [0; 8] };
        for (pointer, chain) in cis.pointers.iter_mut().zip(chains) {
            *pointer = CIS_BASE + cis.image.len() as u32;
            cis.image.extend_from_slice(chain);
        }
        cis
    }

    /// Makes a CIS with these bytes as the chain of tuples of the card and of every function, and
    /// `fill` after them. The bytes need not be valid.
    #[must_use]
    pub fn raw(image: Vec<u8>, fill: u8) -> Self {
        Cis { image, fill, pointers: [CIS_BASE; 8] }
    }

    /// Returns the byte at an address of function 0.
    pub(super) fn byte(&self, address: u32) -> u8 {
        let at = address.checked_sub(CIS_BASE).map(|at| at as usize);
        at.and_then(|at| self.image.get(at).copied()).unwrap_or(self.fill)
    }
}

/// Identity of one function of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionConfig {
    /// Standard interface code of the function: 2 is Bluetooth Type-A, 0 is none.
    pub class: u8,
    /// Largest block in bytes, and largest number of bytes of a CMD53 in byte mode: 1 to 2048.
    pub max_block_bytes: u16,
    /// Time in ns from the enable bit IOEx to the ready bit IORx; `u64::MAX`: never ready.
    pub enable_ns: u64,
    /// Time from IOEx to IORx as the CIS declares it, in units of 10 ms.
    pub enable_timeout_10ms: u16,
}

/// Identity and registers of an I/O card, without the behaviour of its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoConfig {
    /// CCCR 00h: versions of CCCR and of the SDIO specification.
    pub revision: u8,
    /// CCCR 01h: version of the physical layer.
    pub sd_revision: u8,
    /// CCCR 08h: capabilities. Bit 5 (interrupt between blocks) starts at 0.
    pub capabilities: u8,
    /// Supply voltages that the card supports: bits 23:0 of R4.
    pub ocr: u32,
    /// Whether the card supports high speed: CCCR 13h bit 0.
    pub high_speed: bool,
    /// UHS modes that the card supports, CCCR 14h: bits 0 SDR50, 1 SDR104, 2 DDR50.
    pub uhs: u8,
    /// Whether the card can interrupt while the clock is stopped: CCCR 16h bit 0.
    pub async_interrupt: bool,
    /// Largest block of function 0 in bytes.
    pub max_block_bytes: u16,
    /// Time in ns from the first CMD5 with voltages until the card is ready.
    pub power_up_ns: u64,
    /// Time in ns that the card needs to release the lines in a voltage switch.
    pub voltage_release_ns: u64,
    /// Relative card address (RCA) that the card chooses; not 0.
    pub rca: u16,
    /// Identity of each function, 1 to 7 in order.
    pub functions: Vec<FunctionConfig>,
    /// Card information structure: the tuple chains of the card and its functions.
    pub cis: Cis,
    /// Quirks: how the card differs from the standard.
    pub quirks: IoQuirks,
}

/// Returns the TRAN_SPEED code for a clock in kHz; `None` if no code means exactly this clock.
pub(super) fn tran_speed(khz: u32) -> Option<u8> {
    const VALUES: [u32; 15] = [10, 12, 13, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80];
    let mut unit_khz = 10;
    for unit in 0..4u8 {
        if let Some(value) = VALUES.iter().position(|value| value * unit_khz == khz) {
            return Some(((value as u8 + 1) << 3) | unit);
        }
        unit_khz *= 10;
    }
    None
}

fn tuple(to: &mut Vec<u8>, code: u8, body: &[u8]) {
    to.push(code);
    to.push(body.len() as u8);
    to.extend_from_slice(body);
}

/// Returns the tuple chain of the card: manufacturer and product (`manufacturer`, `device`), kind
/// of function (SDIO), and the extension tuple of function 0. That tuple has the largest block size
/// in bytes (`max_block`) and the code of the bus speed (`tran_speed`).
pub(super) fn common_chain(manufacturer: u16, device: u16, max_block: u16, tran_speed: u8) -> Vec<u8> {
    let mut chain = Vec::new();
    let ([m0, m1], [d0, d1], [b0, b1]) =
        (manufacturer.to_le_bytes(), device.to_le_bytes(), max_block.to_le_bytes());
    tuple(&mut chain, 0x20, &[m0, m1, d0, d1]);
    tuple(&mut chain, 0x21, &[0x0c, 0]);
    tuple(&mut chain, 0x22, &[0, b0, b1, tran_speed]);
    chain.push(0xff);
    chain
}

/// Returns the bytes of the CIS of a function, a chain of tuples. `ocr`: supply voltages of the
/// card, which the CIS contains.
pub(super) fn function_chain(function: &FunctionConfig, ocr: u32) -> Vec<u8> {
    let mut body = [0u8; 42];
    body[0] = 1;
    body[12..14].copy_from_slice(&function.max_block_bytes.to_le_bytes());
    body[14..18].copy_from_slice(&ocr.to_le_bytes());
    body[28..30].copy_from_slice(&function.enable_timeout_10ms.to_le_bytes());
    let mut chain = Vec::new();
    tuple(&mut chain, 0x21, &[0x0c, 0]);
    tuple(&mut chain, 0x22, &body);
    chain.push(0xff);
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_have_the_codes_of_the_standard() {
        // [SD 5.3.2]: 25 MHz is 2.5 times 10 MHz, and 50 MHz is 5.0 times 10 MHz.
        assert_eq!((tran_speed(25_000), tran_speed(50_000)), (Some(0x32), Some(0x5a)));
        assert_eq!((tran_speed(400), tran_speed(26)), (Some(0x48), None));
    }

    #[test]
    fn chains_lie_one_after_the_other() {
        let cis = Cis::chains(&[vec![1, 2, 3], vec![4]]);
        assert_eq!(cis.pointers[..3], [0x1000, 0x1003, 0]);
        assert_eq!([cis.byte(0x1002), cis.byte(0x1003), cis.byte(0x1004), cis.byte(5)], [3, 4, 0xff, 0xff]);
    }
}
