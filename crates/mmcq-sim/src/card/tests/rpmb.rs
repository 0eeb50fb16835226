//! Tests of RPMB with raw frames. The test computes the authentication code itself, as RFC 2104
//! defines it.

use super::emmc::card;
use super::host::Host;
use crate::card::emmc::Attack;
use crate::card::{Card, EmmcCard, ReadBlock};
use sha2::{Digest, Sha256};

const KEY: [u8; 32] = [0x5a; 32];

/// Computes an HMAC from two SHA-256 hashes.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(to, from)| *to ^= from);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[test]
fn the_code_is_that_of_rfc_4231() {
    // Test case 2, with the key "Jefe".
    let mut key = [0; 32];
    key[..4].copy_from_slice(b"Jefe");
    let code = hmac(&key, b"what do ya want for nothing?");
    assert_eq!(code[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
}

fn open() -> Host<EmmcCard> {
    let mut host = card("emmc-51-full");
    assert_eq!(host.ext_csd()[168], 4, "512 KiB");
    assert!(host.ext_write(179, 3));
    host
}

fn frame(kind: u16) -> Vec<u8> {
    let mut frame = vec![0; 512];
    frame[510..].copy_from_slice(&kind.to_be_bytes());
    frame
}

fn send(host: &mut Host<EmmcCard>, frames: &[Vec<u8>], reliable: bool) {
    host.ok(23, frames.len() as u32 | u32::from(reliable) << 31);
    host.ok(25, 0);
    for frame in frames {
        host.transmit(frame);
    }
    assert_eq!(host.state(), 4);
}

fn receive(host: &mut Host<EmmcCard>, frames: usize) -> Vec<u8> {
    host.ok(23, frames as u32);
    host.ok(18, 0);
    host.receive(frames)
}

/// Requests the result of the request before. Returns result code, write counter and data.
fn result(host: &mut Host<EmmcCard>) -> (u16, u32, Vec<u8>) {
    send(host, &[frame(5)], false);
    let answer = receive(host, 1);
    let counter = u32::from_be_bytes(answer[500..504].try_into().unwrap());
    (u16::from_be_bytes([answer[508], answer[509]]), counter, answer)
}

fn program_key(host: &mut Host<EmmcCard>) -> u16 {
    let mut request = frame(1);
    request[196..228].copy_from_slice(&KEY);
    send(host, &[request], true);
    result(host).0
}

fn sign(frames: &mut [Vec<u8>]) {
    let message: Vec<u8> = frames.iter().flat_map(|frame| frame[228..].to_vec()).collect();
    let code = hmac(&KEY, &message);
    frames.last_mut().unwrap()[196..228].copy_from_slice(&code);
}

fn write(host: &mut Host<EmmcCard>, address: u16, counter: u32, values: &[u8]) -> (u16, u32) {
    let mut frames = signed(address, counter, values);
    sign(&mut frames);
    send(host, &frames, true);
    let (code, counter, answer) = result(host);
    if code != 7 {
        assert_eq!(answer[196..228], hmac(&KEY, &answer[228..])[..]);
    }
    assert_eq!(answer[510..], [3, 0]);
    (code, counter)
}

fn signed(address: u16, counter: u32, values: &[u8]) -> Vec<Vec<u8>> {
    values
        .iter()
        .map(|&value| {
            let mut frame = frame(3);
            frame[228..484].fill(value);
            frame[500..504].copy_from_slice(&counter.to_be_bytes());
            frame[504..506].copy_from_slice(&address.to_be_bytes());
            frame[506..508].copy_from_slice(&(values.len() as u16).to_be_bytes());
            frame
        })
        .collect()
}

fn ask(host: &mut Host<EmmcCard>, address: u16, blocks: usize, nonce: u8) -> Vec<u8> {
    let mut request = frame(4);
    request[484..500].fill(nonce);
    request[504..506].copy_from_slice(&address.to_be_bytes());
    send(host, &[request], false);
    receive(host, blocks)
}

fn authentic(answer: &[u8], nonce: u8) -> bool {
    let message: Vec<u8> = answer.chunks(512).flat_map(|frame| frame[228..].to_vec()).collect();
    let last = &answer[answer.len() - 512..];
    last[196..228] == hmac(&KEY, &message) && last[484..500] == [nonce; 16]
}

#[test]
fn key_counter_write_and_read() {
    let mut host = open();
    assert_eq!(write(&mut host, 0, 0, &[1]).0, 7, "no key");
    assert_eq!(program_key(&mut host), 0);
    assert_eq!(program_key(&mut host), 1, "once only");
    assert_eq!(write(&mut host, 2, 0, &[1, 2]), (0, 1));
    assert_eq!(write(&mut host, 3, 1, &[9]), (0, 2));
    let answer = ask(&mut host, 2, 2, 0x77);
    assert!(authentic(&answer, 0x77));
    assert_eq!((answer[228], answer[512 + 228]), (1, 9));
    // The request that reads the write counter.
    let mut request = frame(2);
    request[484..500].fill(0x11);
    send(&mut host, &[request], false);
    let answer = receive(&mut host, 1);
    assert_eq!((answer[503], answer[510]), (2, 2));
    assert!(authentic(&answer, 0x11));
    // Data, counter and key survive a power cycle.
    host.power_off();
    host.power_up();
    host.bring_up_emmc();
    assert!(host.ext_write(179, 3));
    assert_eq!(write(&mut host, 3, 2, &[7]), (0, 3));
}

#[test]
fn what_is_not_authentic_is_refused() {
    let mut host = open();
    program_key(&mut host);
    write(&mut host, 0, 0, &[1]);
    assert_eq!(write(&mut host, 0, 0, &[2]), (3, 1), "a counter seen before");
    assert_eq!(write(&mut host, 0, 5, &[2]), (3, 1), "a counter of the future");
    assert_eq!(write(&mut host, 2048, 1, &[2]), (4, 1), "beyond the end");
    let mut frames = signed(0, 1, &[2]);
    sign(&mut frames);
    frames[0][300] ^= 1;
    send(&mut host, &frames, true);
    assert_eq!(result(&mut host).0, 2);
    let mut frames = signed(0, 1, &[2]);
    sign(&mut frames);
    send(&mut host, &frames, false);
    assert_eq!(result(&mut host).0, 1, "not as a reliable write");
    assert_eq!(ask(&mut host, 0, 1, 3)[228], 1);
    assert_eq!(ask(&mut host, 2048, 1, 3)[509], 4);
    host.card.set_rpmb_counter(u32::MAX);
    assert_eq!(write(&mut host, 0, u32::MAX, &[2]).0, 0x81, "expired");
}

#[test]
fn an_attacker_in_between() {
    let mut host = open();
    program_key(&mut host);
    write(&mut host, 0, 0, &[1]);
    ask(&mut host, 0, 1, 1);
    host.card.attack_rpmb(Attack::Replay);
    let answer = ask(&mut host, 0, 1, 2);
    assert!(authentic(&answer, 1) && !authentic(&answer, 2), "an old answer");
    assert!(authentic(&ask(&mut host, 0, 1, 2), 2), "once");
    for attack in [Attack::ForgedMac, Attack::ForgedData] {
        host.card.attack_rpmb(attack);
        assert!(!authentic(&ask(&mut host, 0, 1, 3), 3), "{attack:?}");
    }
    // The device did the write, but the host gets no response; or the device did not do it.
    for (attack, done) in [(Attack::DroppedAnswer, true), (Attack::DroppedWrite, false)] {
        let counter = u32::from(!done) + 1;
        let mut frames = signed(0, counter, &[0x40]);
        sign(&mut frames);
        host.card.attack_rpmb(attack);
        send(&mut host, &frames, true);
        if done {
            send(&mut host, &[frame(5)], false);
            host.ok(23, 1);
            host.ok(18, 0);
            assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
            host.short(12, 0);
        } else {
            assert_ne!(result(&mut host).0, 0);
        }
        let mut request = frame(2);
        request[484..500].fill(1);
        send(&mut host, &[request], false);
        assert_eq!(receive(&mut host, 1)[503], 2);
    }
}

#[test]
fn only_counted_transfers_of_several_blocks() {
    let mut host = open();
    for (index, arg) in [(17, 0), (24, 0), (18, 0), (25, 0), (35, 0), (38, 0)] {
        host.silent(index, arg);
        assert_eq!(host.status(), 0x0040_0900, "CMD{index}");
    }
    assert!(host.ext_write(179, 0));
    host.ok(17, 0);
    host.receive(1);
}
