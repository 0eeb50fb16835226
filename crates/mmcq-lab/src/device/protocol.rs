//! Messages of vfio-user 0.0 as bytes: the requests of a client, and the answers.
//!
//! A message is a header of 16 bytes and a payload. All numbers are in the byte order of this
//! machine, since client and server run on it.

/// Size in bytes of a message's header.
pub const HEADER_BYTES: usize = 16;
/// Size in bytes of the longest message that the server accepts.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Size in bytes of the longest read or write of a region in one message.
pub const ACCESS_BYTES_MAX: usize = 4096;
/// Largest number of file descriptors that a message may carry.
pub const DESCRIPTORS_MAX: usize = 8;

const KIND: u32 = 0xf;
const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// Flags of [`Request::DmaMap`] and [`Request::DmaUnmap`].
pub mod dma {
    /// Flag: the device may read the mapped range.
    pub const READ: u32 = 1;
    /// Flag: the device may write to the mapped range.
    pub const WRITE: u32 = 1 << 1;
    /// Flag of an unmap request: unmap all ranges of the client.
    pub const ALL: u32 = 1 << 1;
}

/// Flags of [`Request::SetIrqs`].
pub mod irqs {
    /// No data follow: the action of this message ([`MASK`], [`UNMASK`] or [`TRIGGER`]) applies to
    /// the whole range of interrupts.
    pub const DATA_NONE: u32 = 1;
    /// A byte of data follows for each interrupt: not 0 if the action of this message applies to
    /// it.
    pub const DATA_BOOL: u32 = 1 << 1;
    /// An eventfd for each interrupt comes with the message.
    pub const DATA_EVENTFD: u32 = 1 << 2;
    /// Action: masks the interrupts.
    pub const MASK: u32 = 1 << 3;
    /// Action: unmasks the interrupts.
    pub const UNMASK: u32 = 1 << 4;
    /// Action: sets up the interrupt's eventfd, or signals it as a test.
    pub const TRIGGER: u32 = 1 << 5;
}

/// Header of a vfio-user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Message number that the client chose; its answer has the same number.
    pub id: u16,
    /// Number of the command that the message asks for.
    pub command: u16,
    /// Size in bytes of header and payload together.
    pub bytes: u32,
    flags: u32,
}

impl Header {
    /// Parses a header. The error is one line of text.
    pub fn parse(raw: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        let mut fields = Fields(raw);
        let id = fields.u16();
        let command = fields.u16();
        let header = Header { id, command, bytes: fields.u32(), flags: fields.u32() };
        let within = HEADER_BYTES..=MESSAGE_BYTES_MAX;
        if !within.contains(&(header.bytes as usize)) {
            return Err(format!(
                "message {id}: size {}: expected {HEADER_BYTES} to {MESSAGE_BYTES_MAX}",
                header.bytes
            ));
        }
        if header.flags & KIND != 0 {
            return Err(format!("message {id}: flags {:#x}: expected a request (kind 0)", header.flags));
        }
        Ok(header)
    }

    /// Returns the number of bytes that follow the header.
    pub fn payload_bytes(&self) -> usize {
        (self.bytes as usize).saturating_sub(HEADER_BYTES)
    }

    /// Returns whether the client waits for an answer to the message.
    pub fn wants_reply(&self) -> bool {
        self.flags & NO_REPLY == 0
    }

    /// Returns the answer to this header's message, with this payload.
    pub fn reply(&self, payload: &[u8]) -> Vec<u8> {
        self.answer(REPLY, 0, payload)
    }

    /// Returns the answer that refuses this header's message with an error number of `errno.h`.
    pub fn refusal(&self, errno: i32) -> Vec<u8> {
        self.answer(REPLY | ERROR, errno as u32, &[])
    }

    fn answer(&self, flags: u32, error: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
        out.extend_from_slice(&self.id.to_ne_bytes());
        out.extend_from_slice(&self.command.to_ne_bytes());
        for field in [(HEADER_BYTES + payload.len()) as u32, flags, error] {
            out.extend_from_slice(&field.to_ne_bytes());
        }
        out.extend_from_slice(payload);
        out
    }
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Agreement on the protocol version; the first message.
    Version {
        /// Major version of the protocol.
        major: u16,
        /// Minor version of the protocol.
        minor: u16,
    },
    /// Maps a range of the client's memory for the device. Without a file descriptor only the
    /// client can access the range.
    DmaMap {
        /// Flags of the request, as in [`dma`].
        flags: u32,
        /// Offset in the client's file of the range's first byte.
        offset: u64,
        /// Bus address of the range.
        address: u64,
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// Unmaps a range of the client's memory.
    DmaUnmap {
        /// Flags of the request, as in [`dma`].
        flags: u32,
        /// Bus address of the range.
        address: u64,
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// Asks how many regions and kinds of interrupts the device has.
    DeviceInfo,
    /// Asks for the properties of this region.
    RegionInfo(u32),
    /// Asks for the properties of this kind of interrupt.
    IrqInfo(u32),
    /// Sets up, masks, unmasks or tests interrupts.
    SetIrqs {
        /// Flags of the request, as in [`irqs`].
        flags: u32,
        /// Kind of interrupt: pin, MSI, MSI-X, error or device request.
        index: u32,
        /// Number of the first interrupt of this kind that the request concerns.
        start: u32,
        /// Number of interrupts of this kind that the request concerns, from `start` on.
        count: u32,
        /// With the flag [`irqs::DATA_BOOL`]: one byte for each interrupt, not 0 if the action in
        /// the flags applies to this interrupt.
        data: &'a [u8],
    },
    /// Reads from a region of the device (registers or configuration space).
    RegionRead {
        /// Number of the region.
        region: u32,
        /// Offset in the region of the first byte to read.
        offset: u64,
        /// Number of bytes to read, at most [`ACCESS_BYTES_MAX`].
        count: usize,
    },
    /// Writes to a region of the device (registers or configuration space).
    RegionWrite {
        /// Number of the region.
        region: u32,
        /// Offset in the region of the first byte to write.
        offset: u64,
        /// Bytes to write to the region.
        data: &'a [u8],
    },
    /// Resets the device to its state after power-on.
    Reset,
    /// A request that this device does not support; the field is the command's number.
    Other(u16),
}

impl<'a> Request<'a> {
    /// Parses the payload of a request. The error is one line of text.
    pub fn parse(header: &Header, payload: &'a [u8]) -> Result<Self, String> {
        let (name, needed) = match header.command {
            1 => ("VERSION", 4),
            2 => ("DMA_MAP", 32),
            3 => ("DMA_UNMAP", 24),
            4 => ("DEVICE_GET_INFO", 16),
            5 => ("DEVICE_GET_REGION_INFO", 32),
            7 => ("DEVICE_GET_IRQ_INFO", 16),
            8 => ("DEVICE_SET_IRQS", 20),
            9 => ("REGION_READ", 16),
            10 => ("REGION_WRITE", 16),
            13 => ("DEVICE_RESET", 0),
            other => return Ok(Request::Other(other)),
        };
        let place = || format!("message {} ({name})", header.id);
        if payload.len() < needed {
            return Err(format!(
                "{}: {} bytes of payload: expected {needed} or more",
                place(),
                payload.len()
            ));
        }
        let mut fields = Fields(payload);
        Ok(match header.command {
            1 => Request::Version { major: fields.u16(), minor: fields.u16() },
            2 => {
                fields.u32();
                let flags = fields.u32();
                let offset = fields.u64();
                Request::DmaMap { flags, offset, address: fields.u64(), bytes: fields.u64() }
            }
            3 => {
                fields.u32();
                Request::DmaUnmap { flags: fields.u32(), address: fields.u64(), bytes: fields.u64() }
            }
            4 => Request::DeviceInfo,
            5 | 7 => {
                fields.u64();
                let index = fields.u32();
                if header.command == 5 { Request::RegionInfo(index) } else { Request::IrqInfo(index) }
            }
            8 => {
                fields.u32();
                let flags = fields.u32();
                let index = fields.u32();
                Request::SetIrqs { flags, index, start: fields.u32(), count: fields.u32(), data: fields.0 }
            }
            9 | 10 => {
                let offset = fields.u64();
                let region = fields.u32();
                let count = fields.u32() as usize;
                if count > ACCESS_BYTES_MAX {
                    return Err(format!("{}: {count} bytes: expected at most {ACCESS_BYTES_MAX}", place()));
                }
                if header.command == 9 {
                    Request::RegionRead { region, offset, count }
                } else {
                    let data = fields.0.get(..count).ok_or_else(|| {
                        format!("{}: {count} bytes to write, {} sent", place(), fields.0.len())
                    })?;
                    Request::RegionWrite { region, offset, data }
                }
            }
            _ => Request::Reset,
        })
    }
}

/// Reads the numbers of a payload one after the other. Returns zeros after the end of the payload.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            None => [0; N],
        }
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
}

/// Returns the payload that answers VERSION.
pub fn version() -> Vec<u8> {
    let capabilities = serde_json::json!({ "capabilities": {
        "max_msg_fds": DESCRIPTORS_MAX,
        "max_data_xfer_size": ACCESS_BYTES_MAX,
        "max_dma_maps": super::memory::RANGES_MAX,
    } });
    // Version 0.0, then the capabilities as text that ends with a zero.
    let mut payload = vec![0; 4];
    payload.extend_from_slice(capabilities.to_string().as_bytes());
    payload.push(0);
    payload
}

/// Returns the payload that answers DEVICE_GET_INFO: the device has `regions` regions of registers
/// or memory, and `irqs` kinds of interrupts.
pub fn device_info(regions: u32, irqs: u32) -> Vec<u8> {
    // Flags: the device can be reset, and it is a PCI device.
    words(&[16, 0b11, regions, irqs])
}

/// Returns the payload that answers DEVICE_GET_REGION_INFO. A region of 0 bytes does not exist.
pub fn region_info(index: u32, bytes: u64) -> Vec<u8> {
    // Flags: the region can be read and written.
    let flags = if bytes == 0 { 0 } else { 0b11 };
    let mut payload = words(&[32, flags, index, 0]);
    payload.extend_from_slice(&bytes.to_ne_bytes());
    payload.extend_from_slice(&0u64.to_ne_bytes());
    payload
}

/// Returns the payload that answers DEVICE_GET_IRQ_INFO for the kind `index` of interrupts;
/// `count`: number of interrupts of this kind that the device has.
pub fn irq_info(index: u32, count: u32) -> Vec<u8> {
    // Flags: notifies by eventfd, can be masked, masks itself when it notifies.
    let flags = if count == 0 { 0 } else { 0b111 };
    words(&[16, flags, index, count])
}

/// Returns the payload that answers REGION_READ or, with empty `data`, REGION_WRITE: an access of
/// `count` bytes from `offset` on in a region.
pub fn access(offset: u64, region: u32, count: usize, data: &[u8]) -> Vec<u8> {
    let mut payload = offset.to_ne_bytes().to_vec();
    payload.extend_from_slice(&words(&[region, count as u32]));
    payload.extend_from_slice(data);
    payload
}

/// Returns the payload that answers DMA_UNMAP. It repeats the flags, the address and the length in
/// bytes of the client's message.
pub fn unmapped(flags: u32, address: u64, bytes: u64) -> Vec<u8> {
    let mut payload = words(&[24, flags]);
    payload.extend_from_slice(&address.to_ne_bytes());
    payload.extend_from_slice(&bytes.to_ne_bytes());
    payload
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u16, payload: usize) -> Header {
        Header { id: 7, command, bytes: (HEADER_BYTES + payload) as u32, flags: 0 }
    }

    #[test]
    fn a_header_is_sixteen_bytes_in_this_order() {
        let raw: Vec<u8> = [[0x34, 0x12, 9, 0], 32u32.to_ne_bytes(), 0x10u32.to_ne_bytes(), [0; 4]].concat();
        let header = Header::parse(raw[..].try_into().unwrap()).unwrap();
        if cfg!(target_endian = "little") {
            assert_eq!((header.id, header.command), (0x1234, 9));
        }
        assert_eq!((header.payload_bytes(), header.wants_reply()), (16, false));
        assert_eq!(header.reply(&[5]).len(), 17);
        let refusal = header.refusal(22);
        assert_eq!(refusal[8..12], 0x21u32.to_ne_bytes(), "reply and error");
        assert_eq!(refusal[12..16], 22u32.to_ne_bytes());
    }

    #[test]
    fn a_header_that_lies_is_one_line() {
        for (size, flags, expected) in [
            (15u32, 0u32, "size 15: expected 16"),
            (u32::MAX, 0, "size 4294967295"),
            (16, 1, "expected a request"),
        ] {
            let raw: Vec<u8> = [[0; 4], size.to_ne_bytes(), flags.to_ne_bytes(), [0; 4]].concat();
            let error = Header::parse(raw[..].try_into().unwrap()).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn requests_have_their_fields_where_the_protocol_puts_them() {
        let mut payload = words(&[32, dma::READ | dma::WRITE]);
        for field in [0x1000u64, 0x10_0000, 0x4000] {
            payload.extend_from_slice(&field.to_ne_bytes());
        }
        let map = Request::DmaMap { flags: 3, offset: 0x1000, address: 0x10_0000, bytes: 0x4000 };
        assert_eq!(Request::parse(&header(2, 32), &payload), Ok(map));
        let write = access(0x28, 0, 2, &[0xaa, 0xbb]);
        let request = Request::RegionWrite { region: 0, offset: 0x28, data: &[0xaa, 0xbb] };
        assert_eq!(Request::parse(&header(10, write.len()), &write), Ok(request));
        let set = words(&[20, irqs::DATA_EVENTFD | irqs::TRIGGER, 0, 0, 1]);
        let request = Request::SetIrqs { flags: 0x24, index: 0, start: 0, count: 1, data: &[] };
        assert_eq!(Request::parse(&header(8, 20), &set), Ok(request));
        assert_eq!(Request::parse(&header(14, 0), &[]), Ok(Request::Other(14)));
        assert_eq!(Request::parse(&header(13, 0), &[]), Ok(Request::Reset));
    }

    #[test]
    fn payloads_that_are_too_short_or_ask_too_much_are_one_line() {
        for (command, payload, expected) in [
            (2, vec![0; 31], "message 7 (DMA_MAP): 31 bytes of payload: expected 32 or more"),
            (10, access(0, 0, 8, &[1, 2]), "message 7 (REGION_WRITE): 8 bytes to write, 2 sent"),
            (9, access(0, 0, 5000, &[]), "message 7 (REGION_READ): 5000 bytes: expected at most 4096"),
        ] {
            assert_eq!(Request::parse(&header(command, payload.len()), &payload), Err(expected.to_owned()));
        }
    }

    #[test]
    fn any_bytes_are_taken_apart_without_a_panic() {
        crate::fuzz::fuzz("any_bytes_are_taken_apart_without_a_panic", 200, |u| {
            let raw: [u8; HEADER_BYTES] = u.arbitrary()?;
            let payload: Vec<u8> = u.arbitrary()?;
            let _ = Header::parse(&raw);
            let header = header(u.int_in_range(0..=16)?, payload.len());
            let _ = Request::parse(&header, &payload);
            Ok(())
        });
    }
}
