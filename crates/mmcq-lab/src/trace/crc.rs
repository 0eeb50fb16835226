//! Checksums of the bus, computed bit by bit like the shift registers of the standard [SD 4.5]. The
//! stack and the models have their own code for these checksums, so the waveforms check that code
//! independently.

/// Returns the CRC7 of the bytes of a token: G(x) = x^7 + x^3 + 1, with the register at zero before
/// the first bit.
pub(super) fn crc7(bytes: &[u8]) -> u8 {
    let mut register = 0u8;
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1)) {
        let feedback = bit ^ register >> 6;
        register = register << 1 & 0x7f ^ if feedback == 1 { 0b1001 } else { 0 };
    }
    register
}

/// CRC16 of one DAT line, G(x) = x^16 + x^12 + x^5 + 1, started at zero.
#[derive(Clone, Copy, Default)]
pub(super) struct Crc16(u16);

impl Crc16 {
    pub(super) fn shift(&mut self, bit: bool) {
        let feedback = bit ^ (self.0 & 0x8000 != 0);
        self.0 = self.0 << 1 ^ if feedback { 0x1021 } else { 0 };
    }

    pub(super) fn value(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_examples() {
        // Examples of [SD 4.5]: CMD0, CMD17 with argument 0, and the response to CMD17.
        let tokens = [[0x40, 0, 0, 0, 0], [0x51, 0, 0, 0, 0], [0x11, 0, 0, 9, 0]];
        assert_eq!(tokens.map(|t| crc7(&t)), [0b100_1010, 0b010_1010, 0b011_0011]);
        // Example of the standard: 512 bytes of ones on one data line.
        let mut crc = Crc16::default();
        (0..4096).for_each(|_| crc.shift(true));
        assert_eq!(crc.value(), 0x7fa1);
    }
}
