//! Tests power cuts of the card while clients write.

use super::wire::{Client, FUA, WRITE, WRITE_ZEROES};
use super::{Server, URI};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Checks after power cuts that no block has an older version than the one that was flushed. Each
/// block contains a version number.
#[test]
fn what_was_flushed_is_there_and_the_next_flush_says_what_happened() {
    let mut server = Server::start(64, "--write --platform hsq-sprd");
    // The client asks for a power cut, and continues when the card is up again.
    let script = r#"
import nbd
def put(version):
    for block in range(8):
        h.pwrite(bytes([version]) * 512, block * 512)
def versions():
    return {h.pread(512, block * 512)[0] for block in range(8)}
def cut():
    print('cut', flush=True)
    input()
put(1)
h.flush()
put(2)
cut()
print(versions() <= {1, 2})
try:
    h.flush()
    print('flushed')
except nbd.Error as e:
    print(e.errno)
print(h.flush())
put(3)
h.flush()
cut()
print(versions())
"#;
    let spawned = server.with_client(&["nbdsh", "-u", URI, "-c", script], |command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    });
    let Some(mut client) = spawned else { return };
    let mut asks = client.stdin.take().unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line == "cut" {
            server.cut();
            asks.write_all(b"\n").unwrap();
        } else {
            said.push(line);
        }
    }
    assert!(client.wait().unwrap().success(), "{said:?}");
    assert_eq!(said, ["True", "EIO", "None", "{3}"]);
    let (told, _) = server.stop();
    let cuts: Vec<_> =
        told.lines().filter(|line| line.starts_with("the card's power was cut: 0 requests")).collect();
    assert_eq!(cuts.len(), 2, "{told}");
    assert!(
        cuts[1].contains(" 0 sectors written and not flushed are lost, what was flushed is kept"),
        "{told}"
    );
}

const BLOCKS: u64 = 8;

fn put(client: &mut Client, version: u8) {
    for block in 0..BLOCKS {
        assert!(client.write(0, block * 512, &[version; 512]));
    }
}

fn versions(client: &mut Client) -> Vec<u8> {
    (0..BLOCKS).map(|block| client.read(block * 512, 512)[0]).collect()
}

/// Returns whether the client's next flush is refused; the flush after it must succeed. Then reads
/// once: by a request after the refusal the server knows that the client was told.
fn refused_once(client: &mut Client) -> bool {
    let refused = !client.flush();
    assert!(client.flush());
    client.read(0, 512);
    refused
}

#[test]
fn a_client_that_comes_back_after_the_cut_is_told_what_the_one_before_lost() {
    let mut server = Server::start(64, "--write --platform hsq-sprd");
    let mut lost = false;
    for version in 10..16 {
        let mut before = Client::connect(&server);
        // This connection may be told the loss of the previous round.
        before.flush();
        assert!(before.flush());
        put(&mut before, version);
        before.go();
        server.cut();
        let mut after = Client::connect(&server);
        let flushed = after.flush();
        let seen = versions(&mut after);
        lost |= seen.iter().any(|&now| now != version);
        assert!(!flushed, "a flush was acknowledged; written: {version}, there: {seen:?}");
        assert!(after.flush(), "told once");
        after.leave();
    }
    assert!(lost, "nothing was lost in six cuts: the test shows nothing");
}

/// Checks that a loss is reported on every connection. The export announces that a flush on one
/// connection covers the writes of all connections.
#[test]
fn every_connection_is_told_and_each_lost_writer_has_an_heir() {
    let mut server = Server::start(64, "--write --platform hsq-sprd");
    let [mut writer, mut other, mut gone, mut reader] = [0; 4].map(|_| Client::connect(&server));
    put(&mut writer, 1);
    assert!(gone.write(0, 1 << 20, &[1; 512]));
    gone.go();
    reader.read(0, 512);
    server.cut();
    for client in [&mut writer, &mut other, &mut reader] {
        assert!(refused_once(client));
    }
    // One writer disconnected without being told. The next new connection is its heir and is told.
    let mut heir = Client::connect(&server);
    assert!(refused_once(&mut heir));
    assert!(!refused_once(&mut Client::connect(&server)), "all is said");
}

/// Checks that a server reports at its end a loss of which no client was told, since the next
/// server does not know of it.
#[test]
fn a_server_that_ends_with_an_untold_loss_says_so() {
    for told in [false, true] {
        let mut server = Server::start(64, "--write --platform hsq-sprd");
        let mut client = Client::connect(&server);
        put(&mut client, 1);
        server.cut();
        if told {
            assert!(!client.flush());
            assert!(client.flush());
        }
        let (code, said) = server.end();
        assert_eq!(code, Some(if told { 0 } else { 1 }), "{said}");
        let says = said
            .contains("acknowledged writes are lost, and 1 of the connections that made them may not know");
        assert_eq!(says, !told, "{said}");
    }
}

/// Checks that durable writes are never lost, and that the flush after a refused durable write is
/// refused, too: the refusal of a durable write does not report the loss of writes before it.
#[test]
fn a_durable_write_is_refused_once_and_the_flush_after_it_too() {
    let mut server = Server::start(64, "--write --platform hsq-sprd");
    let mut client = Client::connect(&server);
    put(&mut client, 1);
    server.cut();
    assert!(!client.write(FUA, 1 << 20, &[2; 512]));
    assert!(client.write(FUA, 1 << 20, &[2; 512]));
    assert!(!client.flush());
    assert!(client.flush());
    // Now no write is left that a power cut could lose.
    assert!(client.write(FUA, 0, &[3; 512]) && client.zeros(FUA, 4096, 4096));
    server.cut();
    assert_eq!(client.read(0, 512), [3; 512]);
    assert!(client.flush());
}

#[test]
fn readers_of_a_card_that_is_never_written_are_told_nothing() {
    let mut server = Server::start(64, "--platform hsq-sprd");
    let mut client = Client::connect(&server);
    server.cut();
    assert!(client.flush());
    assert!(Client::connect(&server).flush());
}

#[test]
fn zeros_and_a_write_at_once_leave_a_true_map() {
    const BYTES: u32 = 1 << 20;
    let server = Server::start(64, "--write");
    let mut client = Client::connect(&server);
    for first in [WRITE_ZEROES, WRITE] {
        // Data are written first, so that writing zeros is real work.
        assert!(client.write(0, 0, &vec![9; BYTES as usize]));
        let write = (WRITE, (u64::from(BYTES / 2), 512), &[0x77; 512][..]);
        let zeros = (WRITE_ZEROES, (0, BYTES), &[][..]);
        let both = if first == WRITE { [write, zeros] } else { [zeros, write] };
        for (cookie, (command, range, data)) in both.into_iter().enumerate() {
            client.send(cookie as u64, 0, command, range, data);
        }
        let mut ended = [client.chunk(), client.chunk()].map(|chunk| (chunk.kind, chunk.cookie));
        ended.sort_unstable();
        assert_eq!(ended, [(0, 0), (0, 1)]);
        is_true(&mut client, BYTES);
    }
    // Zeros without other changes become a hole.
    assert!(client.zeros(0, 0, BYTES));
    assert_eq!(client.status(0, BYTES), [(BYTES, true)]);
}

/// Checks that each hole that the server reports reads as zeros.
fn is_true(client: &mut Client, bytes: u32) {
    let status = client.status(0, bytes);
    let data = client.read(0, bytes);
    let mut at = 0;
    for &(length, hole) in &status {
        let range = at..at + length as usize;
        at = range.end;
        assert!(!hole || data[range.clone()].iter().all(|&byte| byte == 0), "a hole over data: {range:?}");
    }
}
