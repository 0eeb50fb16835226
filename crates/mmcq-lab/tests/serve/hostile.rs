//! Tests clients that lie, stop half-way, or request too much: only their own connection ends.

use super::wire::{option, request};
use super::{Server, pattern};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Client that sends and receives raw bytes.
struct Raw(UnixStream);

impl Raw {
    /// Connects and negotiates with `EXPORT_NAME`, so that replies are simple.
    fn connect(server: &Server) -> Raw {
        let mut raw = Raw::greeted(server);
        raw.send(&option(1, b""));
        assert_eq!(raw.receive(10).unwrap()[..8], (1u64 << 20).to_be_bytes());
        raw
    }

    fn greeted(server: &Server) -> Raw {
        let stream = UnixStream::connect(server.path("card.img.sock")).unwrap();
        let mut raw = Raw(stream);
        assert_eq!(&raw.receive(18).unwrap()[..16], b"NBDMAGICIHAVEOPT");
        raw.send(&3u32.to_be_bytes());
        raw
    }

    fn send(&mut self, bytes: &[u8]) {
        // If the server has ended the connection, the next read shows this.
        let _ = self.0.write_all(bytes);
    }

    fn receive(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.0.read_exact(&mut buffer).ok().map(|()| buffer)
    }

    /// Returns the error number of the next simple reply; `None`: the connection has ended.
    fn error(&mut self) -> Option<u32> {
        let reply = self.receive(16)?;
        assert_eq!(reply[..4], 0x6744_6698u32.to_be_bytes());
        Some(u32::from_be_bytes(reply[4..8].try_into().unwrap()))
    }

    /// Reads all that still arrives from the server. Returns true if the connection has then ended,
    /// in order or by a reset.
    fn read_to_end(&mut self) -> bool {
        let mut rest = Vec::new();
        // Data that the server has not read turn the end into a reset.
        self.0.read_to_end(&mut rest).err().is_none_or(|e| e.kind() == std::io::ErrorKind::ConnectionReset)
    }

    /// Closes the connection without a request, and waits until the server has noticed it.
    fn go(mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
        assert!(self.read_to_end());
    }
}

fn server() -> Server {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("card.img"), pattern(1 << 20, 5)).unwrap();
    Server::over(folder, "--write")
}

/// Checks that the server still serves, and that no client has changed the image. Returns what the
/// server printed to standard error.
fn unharmed(server: Server) -> String {
    let mut raw = Raw::connect(&server);
    raw.send(&request(0, 0, 4096, 512));
    assert_eq!(raw.error(), Some(0));
    assert!(raw.receive(512).unwrap() == pattern(1 << 20, 5)[4096..4608]);
    drop(raw);
    let (said, folder) = server.stop();
    assert!(std::fs::read(folder.path().join("card.img")).unwrap() == pattern(1 << 20, 5));
    said
}

#[test]
fn requests_that_make_no_sense_are_refused_one_by_one() {
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    let server = server();
    let mut raw = Raw::connect(&server);
    for (request, expected) in [
        (request(0, 0, 0, 0), EINVAL),
        (request(0, 0, 1 << 20, 512), EINVAL),
        (request(0, 0, u64::MAX - 511, 512), EINVAL),
        (request(0, 0, u64::MAX - 1023, 1024), EINVAL),
        (request(0, 0, 0, u32::MAX), EINVAL),
        (request(0, 0, 1, 512), EINVAL),
        (request(0, 0, 0, 513), EINVAL),
        (request(2, 0, 0, 512), EINVAL),
        (request(0x8000, 0, 0, 512), EINVAL),
        (request(0, 3, 512, 0), EINVAL),
        (request(0, 4, 1 << 20, 512), ENOSPC),
        (request(0, 6, 0, !511), ENOSPC),
        (request(0, 5, 0, 512), EINVAL),
        (request(0, 7, 0, 512), EINVAL),
        (request(0, 99, 0, 512), EINVAL),
    ] {
        raw.send(&request);
        assert_eq!(raw.error(), Some(expected), "{request:x?}");
    }
    // A write beyond the end: the server reads its data and discards them.
    raw.send(&request(0, 1, (1 << 20) - 512, 1024));
    raw.send(&[0xee; 1024]);
    assert_eq!(raw.error(), Some(ENOSPC));
    unharmed(server);
}

#[test]
fn an_endless_write_ends_its_connection() {
    let server = server();
    let mut raw = Raw::connect(&server);
    raw.send(&request(0, 1, 0, u32::MAX));
    assert_eq!(raw.error(), Some(22));
    assert!(raw.read_to_end());
    let said = unharmed(server);
    assert!(said.contains("4294967295 bytes"), "{said}");
}

#[test]
fn what_is_no_request_ends_its_connection() {
    let server = server();
    for garbage in [&b"GET / HTTP/1.1\r\nHost: card\r\n\r\n"[..], &[0; 28], &[0xff; 4096]] {
        let mut raw = Raw::connect(&server);
        raw.send(garbage);
        assert!(raw.read_to_end());
    }
    unharmed(server);
}

#[test]
fn what_is_no_handshake_ends_its_connection() {
    let server = server();
    for bytes in [&[0xff; 4][..], &[0; 4]] {
        let mut stream = UnixStream::connect(server.path("card.img.sock")).unwrap();
        stream.write_all(bytes).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 18);
    }
    let mut raw = Raw::greeted(&server);
    raw.send(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    assert!(raw.read_to_end());
    let mut raw = Raw::greeted(&server);
    raw.send(&option(1, b"another"));
    assert!(raw.read_to_end());
    // A client that sends options without end.
    let mut raw = Raw::greeted(&server);
    for _ in 0..100 {
        raw.send(&option(1234, b""));
    }
    assert!(raw.read_to_end());
    // Malformed lists and lengths beyond the data are refused, and the negotiation continues.
    let mut raw = Raw::greeted(&server);
    for (number, data) in
        [(7, &b"\xff\xff\xff\xff"[..]), (7, b""), (10, b"\0\0\0\0\xff\xff\xff\xff"), (3, b"x")]
    {
        raw.send(&option(number, data));
        let reply = raw.receive(20).unwrap();
        assert!(reply[12] & 0x80 != 0, "{number}: {reply:x?}");
        let length = u32::from_be_bytes(reply[16..20].try_into().unwrap());
        raw.receive(length as usize).unwrap();
    }
    unharmed(server);
}

/// Checks that clients that stop half-way block no other client. `connection.rs` tests their time
/// limits.
#[test]
fn those_that_stop_half_way_hold_up_nobody() {
    let server = server();
    let mut slow = Raw::greeted(&server);
    let mut half = Raw::connect(&server);
    half.send(&request(0, 1, 0, 4096)[..20]);
    let mut data = Raw::connect(&server);
    data.send(&request(0, 1, 0, 4096));
    data.send(&[0xee; 4095]);
    unharmed(server);
    // The server has stopped, which ended their connections.
    for client in [&mut slow, &mut half, &mut data] {
        assert!(client.read_to_end());
    }
}

#[test]
fn the_seventeenth_client_is_sent_away() {
    let server = server();
    let clients: Vec<Raw> = (0..16).map(|_| Raw::connect(&server)).collect();
    let mut stream = UnixStream::connect(server.path("card.img.sock")).unwrap();
    let mut all = Vec::new();
    // The connection may be reset instead of closed.
    let _ = stream.read_to_end(&mut all);
    assert!(all.is_empty());
    clients.into_iter().for_each(Raw::go);
    let said = unharmed(server);
    assert!(said.contains("16 clients"), "{said}");
}

#[test]
fn overlapping_writes_leave_one_of_them() {
    let server = server();
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::connect(&server)).collect();
    for round in 0..50u8 {
        for (n, raw) in clients.iter_mut().enumerate() {
            raw.send(&request(0, 1, 8192, 4096));
            raw.send(&[round * 4 + n as u8; 4096]);
        }
        for raw in &mut clients {
            assert_eq!(raw.error(), Some(0));
        }
        clients[0].send(&request(0, 0, 8192, 4096));
        assert_eq!(clients[0].error(), Some(0));
        let read = clients[0].receive(4096).unwrap();
        assert!((round * 4..round * 4 + 4).contains(&read[0]) && read.iter().all(|&b| b == read[0]));
    }
}

#[test]
fn a_server_in_the_way_is_named() {
    let server = server();
    std::fs::copy(server.path("card.img"), server.path("other.img")).unwrap();
    let refused = |line: &[&str], expected: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let output = command.current_dir(server.folder.path()).args(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    };
    refused(&["serve", "other.img", "--socket", "card.img.sock"], "card.img.sock: another server listens");
    refused(&["serve", "card.img", "--socket", "other.sock"], "card.img: another mmcq writes to this image");
    unharmed(server);
}
