//! Bits of long registers. They are numbered as in the standards: the highest number goes first on
//! the wire.

use crate::wire::crc7;

/// Writes `value` into bits `msb..=lsb` of a register of `bytes.len() * 8` bits.
pub(crate) fn put(bytes: &mut [u8], msb: usize, lsb: usize, value: u64) {
    let top = bytes.len() * 8 - 1;
    for bit in lsb..=msb {
        let on = (value >> (bit - lsb)) & 1 == 1;
        let place = top - bit;
        let mask = 0x80u8 >> (place % 8);
        if on {
            bytes[place / 8] |= mask;
        } else {
            bytes[place / 8] &= !mask;
        }
    }
}

/// Completes a CID or CSD: CRC7 and the end bit in the last byte.
pub(crate) fn seal(register: &mut [u8; 16]) {
    register[15] = (crc7(&register[..15]) << 1) | 1;
}

/// Fields that the CIDs of both standards have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Manufacturer ID (MID).
    pub(crate) manufacturer_id: u8,
    /// OEM ID (OID): two characters on an SD card; one byte, the second, on an eMMC.
    pub(crate) oem_id: [u8; 2],
    /// Device type of an eMMC (CBX): 0 a removable card, 1 a BGA, 2 package on package.
    pub(crate) device_type: u8,
    /// Product name (PNM): 5 characters on an SD card, 6 on an eMMC.
    pub(crate) product: Vec<u8>,
    /// Product revision (PRV): two BCD digits.
    pub(crate) revision: u8,
    /// Serial number (PSN).
    pub(crate) serial: u32,
    /// Year of manufacture, such as 2022.
    pub(crate) year: u16,
    /// Month of manufacture, 1 to 12.
    pub(crate) month: u8,
}

/// Returns the CID of an SD card [SD 5.2].
pub(crate) fn sd_cid(identity: &Identity) -> [u8; 16] {
    let mut cid = [0u8; 16];
    cid[0] = identity.manufacturer_id;
    cid[1..3].copy_from_slice(&identity.oem_id);
    for (to, from) in cid[3..8].iter_mut().zip(&identity.product) {
        *to = *from;
    }
    cid[8] = identity.revision;
    put(&mut cid, 55, 24, identity.serial.into());
    put(&mut cid, 19, 12, (identity.year - 2000).into());
    put(&mut cid, 11, 8, identity.month.into());
    seal(&mut cid);
    cid
}

/// Returns the CID of an eMMC [eMMC 7.2]. The year field counts from 1997. It counts from 2013 in a
/// device of revision 4.41 or later that was made in 2013 or later.
pub(crate) fn emmc_cid(identity: &Identity, counts_from_2013: bool) -> [u8; 16] {
    let mut cid = [0u8; 16];
    cid[0] = identity.manufacturer_id;
    cid[1] = identity.device_type & 3;
    cid[2] = identity.oem_id[1];
    for (to, from) in cid[3..9].iter_mut().zip(&identity.product) {
        *to = *from;
    }
    cid[9] = identity.revision;
    put(&mut cid, 47, 16, identity.serial.into());
    put(&mut cid, 15, 12, identity.month.into());
    let from = if counts_from_2013 && identity.year >= 2013 { 2013 } else { 1997 };
    put(&mut cid, 11, 8, u64::from(identity.year - from) & 0xf);
    seal(&mut cid);
    cid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_numbers_bits_from_the_end() {
        let mut bytes = [0u8; 2];
        put(&mut bytes, 15, 12, 0xa);
        put(&mut bytes, 3, 0, 0x5);
        assert_eq!(bytes, [0xa0, 0x05]);
        put(&mut bytes, 13, 10, 0x3);
        assert_eq!(bytes, [0x8c, 0x05]);
    }
}
