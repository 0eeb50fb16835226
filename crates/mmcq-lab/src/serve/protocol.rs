//! Numbers of the NBD protocol on the wire, big endian. Only those that this server sends or
//! understands.
//!
//! Reference: `proto.md` of the NBD project (fixed newstyle, structured replies, block status).

/// First bytes that a server sends: `NBDMAGIC`, `IHAVEOPT`.
pub const HELLO: [u8; 16] = *b"NBDMAGICIHAVEOPT";
/// Magic number at the start of each option that a client sends.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic number at the start of each answer of the server to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic number at the start of each request of a client.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic number at the start of a simple reply of the server.
pub const SIMPLE_MAGIC: u32 = 0x6744_6698;
/// Magic number at the start of each chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags: fixed newstyle; no padding zeros after the export's data.
pub const HANDSHAKE_FLAGS: u16 = 0b11;

/// Numbers of the options that a client sends.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Numbers of the server's answers to options.
pub mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const UNSUPPORTED: u32 = 0x8000_0001;
    pub const INVALID: u32 = 0x8000_0003;
    pub const UNKNOWN: u32 = 0x8000_0006;
    pub const TOO_BIG: u32 = 0x8000_0009;
}

/// Numbers of the kinds of information about an export in an answer.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export: what the server supports.
pub mod flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Numbers of the commands in requests.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a command in a request.
pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const REQUEST_ONE: u16 = 1 << 3;
}

/// Types and flags of chunks in structured replies.
pub mod chunk {
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 0x8001;
}

/// Error numbers that clients receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: the export is read-only, or the card is write protected.
    Permission = 1,
    /// The card failed to execute the request.
    Io = 5,
    /// The request is invalid.
    Invalid = 22,
    /// The write goes beyond the end of the export.
    NoSpace = 28,
    /// The server is shutting down.
    ShutDown = 108,
}

/// A client's request, without the data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl Request {
    pub const BYTES: usize = 28;

    /// Parses the first bytes of a request. Returns `None` if they are not a request.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Request> {
        (be32(bytes, 0) == REQUEST_MAGIC).then(|| Request {
            flags: be16(bytes, 4),
            command: be16(bytes, 6),
            cookie: be64(bytes, 8),
            offset: be64(bytes, 16),
            length: be32(bytes, 24),
        })
    }
}

/// Returns the bytes of a simple reply to the request with this `cookie`; after a read without an
/// error, the data follow it.
pub fn simple_reply(cookie: u64, error: Option<Errno>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.extend(SIMPLE_MAGIC.to_be_bytes());
    out.extend(error.map_or(0, |e| e as u32).to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out
}

/// Returns the header of a chunk of an answer; the caller sends `bytes` bytes of payload after it.
/// `flags` and `kind` are from [`chunk`]; `cookie` is the number that the client gave its request.
pub fn chunk_head(flags: u16, kind: u16, cookie: u64, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    out.extend(CHUNK_MAGIC.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend((bytes as u32).to_be_bytes());
    out
}

/// Returns a whole structured reply that only reports the error `error` with the message `text`.
/// `cookie`: the client's number of the request.
pub fn error_chunk(cookie: u64, error: Errno, text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(4096)];
    let mut out = chunk_head(chunk::DONE, chunk::ERROR, cookie, 6 + text.len());
    out.extend((error as u32).to_be_bytes());
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text);
    out
}

/// Returns the bytes of the server's answer to the option `option` of a client. `kind`: the
/// answer's number, from [`answer`].
pub fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + data.len());
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|n| bytes[at + n]))
}

pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|n| bytes[at + n]))
}
