//! Frames of the replay-protected area: 512 bytes, big endian [eMMC 6.6.22.4].

use super::Key;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a frame.
pub const FRAME_BYTES: usize = 512;
/// Bytes of data in one frame.
pub const UNIT_BYTES: usize = 256;

/// Offsets of the fields in a frame.
mod at {
    pub const MAC: usize = 196;
    pub const DATA: usize = 228;
    pub const NONCE: usize = 484;
    pub const COUNTER: usize = 500;
    pub const ADDRESS: usize = 504;
    pub const BLOCKS: usize = 506;
    pub const RESULT: usize = 508;
    pub const KIND: usize = 510;
}

/// Kinds of RPMB requests by their codes. The code of the response is the request's code times 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Program the key.
    Key = 1,
    /// Read the write counter.
    Counter = 2,
    /// Write data.
    Write = 3,
    /// Read data.
    Read = 4,
    /// Read the result of the last request.
    Result = 5,
}

impl Ask {
    /// Returns the code of the response to this kind of request.
    pub const fn response(self) -> u16 {
        (self as u16) << 8
    }
}

/// The fields of a frame, except data and MAC (message authentication code).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Number in a request that the response must repeat, against replays.
    pub nonce: [u8; 16],
    /// Number of authenticated writes so far (the write counter).
    pub counter: u32,
    /// Number of the first unit of 256 bytes.
    pub address: u16,
    /// Number of units of 256 bytes that the request reads or writes.
    pub blocks: u16,
    /// Result of the request; bit 7: the write counter has reached its end.
    pub result: u16,
    /// Kind of request or response.
    pub kind: u16,
}

/// One RPMB frame of 512 bytes, as it is sent to the device.
pub type Frame = [u8; FRAME_BYTES];

fn put<const B: usize>(frame: &mut Frame, at: usize, bytes: [u8; B]) {
    for (to, from) in frame.iter_mut().skip(at).zip(bytes) {
        *to = from;
    }
}

fn get<const B: usize>(frame: &Frame, at: usize) -> [u8; B] {
    frame.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; B])
}

/// Fills a frame: zeros, the fields, data (256 bytes at most).
pub fn fill(frame: &mut Frame, fields: Fields, data: &[u8]) {
    *frame = [0; FRAME_BYTES];
    for (to, from) in frame.iter_mut().skip(at::DATA).take(UNIT_BYTES).zip(data) {
        *to = *from;
    }
    put(frame, at::NONCE, fields.nonce);
    put(frame, at::COUNTER, fields.counter.to_be_bytes());
    put(frame, at::ADDRESS, fields.address.to_be_bytes());
    put(frame, at::BLOCKS, fields.blocks.to_be_bytes());
    put(frame, at::RESULT, fields.result.to_be_bytes());
    put(frame, at::KIND, fields.kind.to_be_bytes());
}

/// Returns the fields of a received frame.
pub fn fields(frame: &Frame) -> Fields {
    Fields {
        nonce: get(frame, at::NONCE),
        counter: u32::from_be_bytes(get(frame, at::COUNTER)),
        address: u16::from_be_bytes(get(frame, at::ADDRESS)),
        blocks: u16::from_be_bytes(get(frame, at::BLOCKS)),
        result: u16::from_be_bytes(get(frame, at::RESULT)),
        kind: u16::from_be_bytes(get(frame, at::KIND)),
    }
}

/// Returns the data of a frame.
pub fn data(frame: &Frame) -> &[u8] {
    frame.get(at::DATA..at::NONCE).unwrap_or(&[])
}

/// Returns the part of a frame that the MAC covers: from the data to the end.
fn covered(frame: &Frame) -> &[u8] {
    frame.get(at::DATA..).unwrap_or(&[])
}

fn mac<'f>(key: &Key, frames: impl Iterator<Item = &'f Frame>) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).ok()?;
    for frame in frames {
        mac.update(covered(frame));
    }
    Some(mac)
}

/// Writes the key into a frame, in place of the MAC.
pub fn put_key(frame: &mut Frame, key: &Key) {
    put(frame, at::MAC, key.0);
}

/// Signs a sequence of frames: the MAC of all is written into the last one. Returns false if that
/// fails.
pub fn sign(key: &Key, frames: &mut [Frame]) -> bool {
    let Some(mac) = mac(key, frames.iter()) else { return false };
    let bytes: [u8; 32] = mac.finalize().into_bytes().into();
    match frames.last_mut() {
        Some(last) => put(last, at::MAC, bytes),
        None => return false,
    }
    true
}

/// Returns whether the sequence is signed by this key. The check takes constant time.
pub fn signed(key: &Key, frames: &[Frame]) -> bool {
    let (Some(mac), Some(last)) = (mac(key, frames.iter()), frames.last()) else { return false };
    mac.verify_slice(&get::<32>(last, at::MAC)).is_ok()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const KEY: Key = Key(*b"0123456789abcdef0123456789abcdef");

    /// Makes the frame that writes one unit: bytes 0 to 255, counter 7, address 3. The MAC was
    /// computed by Python's hmac module.
    fn write() -> Frame {
        let mut frame = [0xee; FRAME_BYTES];
        let data: std::vec::Vec<u8> = (0..=255).collect();
        fill(&mut frame, Fields { counter: 7, address: 3, blocks: 1, kind: 3, ..Fields::default() }, &data);
        frame
    }

    #[test]
    fn fields_stand_where_the_standard_says() {
        let mut frame = [0; FRAME_BYTES];
        let all = Fields {
            nonce: *b"ABCDEFGHIJKLMNOP",
            counter: 0x0102_0304,
            address: 0x0506,
            blocks: 0x0708,
            result: 0x0081,
            kind: Ask::Read.response(),
        };
        fill(&mut frame, all, &[0x55; 300]);
        assert_eq!(frame[484..], *b"ABCDEFGHIJKLMNOP\x01\x02\x03\x04\x05\x06\x07\x08\x00\x81\x04\x00");
        assert!(
            frame[..228].iter().all(|&byte| byte == 0) && frame[228..484].iter().all(|&byte| byte == 0x55)
        );
        assert_eq!(fields(&frame), all);
        assert_eq!(data(&frame).len(), UNIT_BYTES);
    }

    #[test]
    fn the_mac_is_that_of_an_independent_hmac() {
        let mut frames = [write()];
        assert!(sign(&KEY, &mut frames));
        assert_eq!(frames[0][196..228], MAC_ONE);
        assert!(signed(&KEY, &frames));
        let mut two = [write(), write()];
        assert!(sign(&KEY, &mut two));
        assert_eq!(two[1][196..228], MAC_TWO);
        assert!(two[0][196..228].iter().all(|&byte| byte == 0), "only the last is signed");
    }

    #[test]
    fn any_changed_byte_is_seen() {
        let mut frames = [write()];
        sign(&KEY, &mut frames);
        for at in 196..512 {
            let mut forged = frames;
            forged[0][at] ^= 1;
            assert!(!signed(&KEY, &forged), "byte {at}");
        }
        assert!(!signed(&Key([0; 32]), &frames) && !signed(&KEY, &[]));
    }

    const MAC_ONE: [u8; 32] = [
        0x81, 0x42, 0xa3, 0xb6, 0xb4, 0x49, 0xd9, 0x52, 0x89, 0x01, 0xd3, 0xdf, 0xd7, 0x7b, 0xbc, 0x06, 0x68,
        0x38, 0x0e, 0x6e, 0xb3, 0x6e, 0xb4, 0x56, 0x73, 0xbb, 0xde, 0x81, 0xf1, 0x4f, 0x8c, 0x13,
    ];
    const MAC_TWO: [u8; 32] = [
        0xb0, 0x16, 0x11, 0xda, 0x55, 0x17, 0x72, 0x33, 0x5a, 0x00, 0xfe, 0xa2, 0x0e, 0x85, 0x7e, 0x9e, 0x85,
        0xa2, 0x6a, 0x0d, 0xce, 0x66, 0x12, 0xfc, 0x17, 0x28, 0x2c, 0xf6, 0xb6, 0xe3, 0x0c, 0x52,
    ];
}
