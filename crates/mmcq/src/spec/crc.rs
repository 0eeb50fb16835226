//! CRC7 and CRC16, the checksums of the bus [SD 4.5], [eMMC 8.2].

/// Returns the CRC7 of a command or response in bits 6:0: polynomial x^7 + x^3 + 1, start value 0.
/// On the bus the end bit follows.
pub const fn crc7(bytes: &[u8]) -> u8 {
    let mut crc = 0u8;
    let mut i = 0;
    while i < bytes.len() {
        // x^7 = x^3 + 1 processes a whole byte at once, so six bytes need no table.
        let byte = crc << 1 ^ bytes[i];
        let folded = byte ^ byte >> 4 ^ byte >> 7;
        crc = (folded ^ folded << 3) & 0x7f;
        i += 1;
    }
    crc
}

/// Returns the CRC16 of the data on one line: polynomial x^16 + x^12 + x^5 + 1, start value 0.
pub const fn crc16(bytes: &[u8]) -> u16 {
    crc16_after(0, bytes)
}

/// Returns the CRC16 of data that continue earlier data; `crc` is the [`crc16`] of the earlier
/// data.
pub const fn crc16_after(mut crc: u16, bytes: &[u8]) -> u16 {
    let mut i = 0;
    while i < bytes.len() {
        crc = crc << 8 ^ TABLE16[(crc >> 8 ^ bytes[i] as u16) as usize];
        i += 1;
    }
    crc
}

/// Returns the CRC16 of each of four data lines, DAT0 first. A byte takes two clocks: its upper
/// half is sent first, and DAT3 carries the highest bit of each half.
pub const fn crc16_lanes4(bytes: &[u8]) -> [u16; 4] {
    // All four CRCs are computed together: bit n of line d's CRC is bit 4n + d.
    let mut crc = 0u64;
    let mut i = 0;
    while i < bytes.len() {
        let byte = bytes[i] as u64;
        crc = step4(step4(crc, byte >> 4), byte & 0xf);
        i += 1;
    }
    let mut lanes = [0; 4];
    let mut d = 0;
    while d < 4 {
        let mut n = 0;
        while n < 16 {
            lanes[d] |= ((crc >> (4 * n + d) & 1) as u16) << n;
            n += 1;
        }
        d += 1;
    }
    lanes
}

const fn step4(crc: u64, nibble: u64) -> u64 {
    let feedback = crc >> 60 ^ nibble;
    crc << 4 ^ feedback ^ feedback << 20 ^ feedback << 48
}

/// Returns the CRC16 of each of eight data lines, DAT0 first. A byte takes one clock, and DAT7
/// carries its highest bit.
pub const fn crc16_lanes8(bytes: &[u8]) -> [u16; 8] {
    // All eight CRCs are computed together: bit n of line d's CRC is bit 8n + d.
    let mut crc = 0u128;
    let mut i = 0;
    while i < bytes.len() {
        let feedback = crc >> 120 ^ bytes[i] as u128;
        crc = crc << 8 ^ feedback ^ feedback << 40 ^ feedback << 96;
        i += 1;
    }
    let mut lanes = [0; 8];
    let mut d = 0;
    while d < 8 {
        let mut n = 0;
        while n < 16 {
            lanes[d] |= ((crc >> (8 * n + d) & 1) as u16) << n;
            n += 1;
        }
        d += 1;
    }
    lanes
}

const TABLE16: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn examples_of_the_standard() {
        // [SD 4.5]: CMD0, CMD17 with argument 0, the response to CMD17, and 512 bytes of 0xff.
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0b100_1010);
        assert_eq!(crc7(&[0x51, 0, 0, 0, 0]), 0b010_1010);
        assert_eq!(crc7(&[0x11, 0, 0, 0x09, 0]), 0b011_0011);
        assert_eq!(crc16(&[0xff; 512]), 0x7fa1);
    }

    #[test]
    fn agree_with_another_implementation() {
        let oracle7 = crc::Crc::<u8>::new(&crc::CRC_7_MMC);
        let oracle16 = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
        crate::fuzz::fuzz("agree_with_another_implementation", 200, |u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            assert_eq!(crc7(&bytes), oracle7.checksum(&bytes));
            assert_eq!(crc16(&bytes), oracle16.checksum(&bytes));
            let (first, rest) = bytes.split_at(bytes.len() / 3);
            assert_eq!(crc16_after(crc16(first), rest), crc16(&bytes));
            Ok(())
        });
    }

    /// Returns the bits that a block of `bytes` has on data line `line` of `lanes` lines, packed
    /// into bytes.
    fn line(bytes: &[u8], line: usize, lanes: usize) -> Vec<u8> {
        let mut bits = Vec::new();
        for byte in bytes {
            for shift in (0..8 / lanes).rev() {
                bits.push(byte >> (shift * lanes + line) & 1);
            }
        }
        bits.chunks(8).map(|eight| eight.iter().fold(0, |byte, bit| byte << 1 | bit)).collect()
    }

    #[test]
    fn each_line_has_the_crc_of_its_own_bits() {
        let oracle = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
        crate::fuzz::fuzz("each_line_has_the_crc_of_its_own_bits", 200, |u| {
            let mut block = [0; 64];
            u.fill_buffer(&mut block)?;
            let (four, eight) = (crc16_lanes4(&block), crc16_lanes8(&block));
            for (d, crc) in four.into_iter().enumerate() {
                assert_eq!(crc, oracle.checksum(&line(&block, d, 4)));
            }
            for (d, crc) in eight.into_iter().enumerate() {
                assert_eq!(crc, oracle.checksum(&line(&block, d, 8)));
            }
            Ok(())
        });
    }
}
