//! The NBD protocol byte by byte, for tests that other clients cannot express.

use super::Server;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Number of the command "read".
pub const READ: u16 = 0;
/// Number of the command "write".
pub const WRITE: u16 = 1;
/// Number of the command "disconnect".
pub const DISCONNECT: u16 = 2;
/// Number of the command "flush".
pub const FLUSH: u16 = 3;
/// Number of the command "write zeroes".
pub const WRITE_ZEROES: u16 = 6;
/// Number of the command "block status".
pub const BLOCK_STATUS: u16 = 7;
/// Flag of a request: forced unit access.
pub const FUA: u16 = 1;

/// Returns the bytes of an option of the handshake.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = b"IHAVEOPT".to_vec();
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

/// Returns the bytes of a request without its data.
pub fn request(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    request_as(7, flags, command, offset, length)
}

fn request_as(cookie: u64, flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut out = 0x2560_9513u32.to_be_bytes().to_vec();
    out.extend(flags.to_be_bytes());
    out.extend(command.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(length.to_be_bytes());
    out
}

/// A chunk of a structured reply.
pub struct Chunk {
    pub cookie: u64,
    pub kind: u16,
    pub body: Vec<u8>,
}

/// Client with structured replies and block status.
pub struct Client(UnixStream);

impl Client {
    pub fn connect(server: &Server) -> Client {
        let stream = UnixStream::connect(server.path("card.img.sock")).unwrap();
        let mut client = Client(stream);
        client.receive(18);
        client.0.write_all(&3u32.to_be_bytes()).unwrap();
        client.agree(8, b"");
        let mut contexts = [0u32, 1, 15].map(u32::to_be_bytes).concat();
        contexts.extend(b"base:allocation");
        client.agree(10, &contexts);
        client.agree(7, &[0; 6]);
        client
    }

    /// Sends an option, and reads its answers up to the acknowledgement.
    fn agree(&mut self, number: u32, data: &[u8]) {
        self.0.write_all(&option(number, data)).unwrap();
        loop {
            let head = self.receive(20);
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            self.receive(word(16) as usize);
            match word(12) {
                1 => return,
                kind => assert!(kind & 0x8000_0000 == 0, "option {number}: answer {kind:#x}"),
            }
        }
    }

    fn receive(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        self.0.read_exact(&mut buffer).unwrap();
        buffer
    }

    /// Sends a request without waiting for its reply.
    pub fn send(&mut self, cookie: u64, flags: u16, command: u16, (offset, length): (u64, u32), data: &[u8]) {
        let mut out = request_as(cookie, flags, command, offset, length);
        out.extend(data);
        self.0.write_all(&out).unwrap();
    }

    pub fn chunk(&mut self) -> Chunk {
        let head = self.receive(20);
        let length = u32::from_be_bytes(head[16..20].try_into().unwrap());
        Chunk {
            cookie: u64::from_be_bytes(head[8..16].try_into().unwrap()),
            kind: u16::from_be_bytes([head[6], head[7]]),
            body: self.receive(length as usize),
        }
    }

    fn ask(&mut self, flags: u16, command: u16, range: (u64, u32), data: &[u8]) -> Chunk {
        self.send(1, flags, command, range, data);
        self.chunk()
    }

    /// Writes data. Returns whether the write was acknowledged.
    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> bool {
        self.ask(flags, WRITE, (offset, data.len() as u32), data).kind == 0
    }

    /// Writes zeros. Returns whether they were acknowledged.
    pub fn zeros(&mut self, flags: u16, offset: u64, length: u32) -> bool {
        self.ask(flags, WRITE_ZEROES, (offset, length), &[]).kind == 0
    }

    /// Flushes. Returns whether the flush was acknowledged.
    pub fn flush(&mut self) -> bool {
        self.ask(0, FLUSH, (0, 0), &[]).kind == 0
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let chunk = self.ask(0, READ, (offset, length), &[]);
        assert_eq!((chunk.kind, chunk.body.len()), (1, 8 + length as usize));
        chunk.body[8..].to_vec()
    }

    /// Queries the block status. Returns lengths of ranges, each with true for a hole that reads as
    /// zeros.
    pub fn status(&mut self, offset: u64, length: u32) -> Vec<(u32, bool)> {
        let chunk = self.ask(0, BLOCK_STATUS, (offset, length), &[]);
        assert_eq!(chunk.kind, 5);
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        chunk.body[4..].chunks(8).map(|range| (word(&range[..4]), word(&range[4..]) == 3)).collect()
    }

    /// Disconnects in order, and waits until the server has noticed it.
    pub fn leave(mut self) {
        self.send(1, 0, DISCONNECT, (0, 0), &[]);
        self.ended();
    }

    /// Closes the connection without a disconnect request, and waits until the server has noticed
    /// it.
    pub fn go(mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
        self.ended();
    }

    fn ended(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
