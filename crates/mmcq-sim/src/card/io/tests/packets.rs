use super::super::type_a::{self, packet, register};
use super::super::{Behind, type_a::Handle};
use super::*;
use crate::card::Card;

const FIXED: (bool, bool) = (false, false);

/// Makes a card with a Type-A function that is enabled, with its interrupt on.
fn open(change: impl FnOnce(&mut type_a::Source)) -> (Host<IoCard>, Handle) {
    let mut profile = type_a();
    for behind in profile.behind_mut() {
        if let Behind::TypeA(source) = behind {
            change(source);
            break;
        }
    }
    let (card, mut handles) = profile.build();
    let mut host = Host::ready(card, 2);
    host.put(0, 0x110, 0);
    host.put(0, 0x111, 2);
    host.put(0, 4, 3);
    host.put(1, register::MODE, 0);
    host.put(1, register::EN_INTRD, 1);
    (host, handles.remove(0).1)
}

/// Waits for the card interrupt, as a controller does.
fn wait(host: &mut Host<IoCard>) {
    if !host.card.interrupt(host.now_ns) {
        host.now_ns = host.card.next_event_ns(host.now_ns).expect("a packet will come");
        assert!(host.card.interrupt(host.now_ns));
    }
}

/// Reads a packet by the steps of the standard, all but the acknowledgement. Returns the packet.
fn receive(host: &mut Host<IoCard>) -> Vec<u8> {
    wait(host);
    assert_eq!(host.get(0, 5), 2);
    assert_eq!(host.get(1, register::INTRD), 1);
    host.put(1, register::INTRD, 1);
    assert!(!host.card.interrupt(host.now_ns));
    let mut packet = host.read53(1, FIXED, 0, 4, 1);
    packet.extend(host.read53(1, (true, false), 0, 4, 4));
    packet
}

#[test]
fn packets_come_in_order_at_their_rate() {
    let (mut host, counts) = open(|_| {});
    let start = host.now_ns;
    for number in 0..5 {
        let got = receive(&mut host);
        assert_eq!((got.len(), &got[..4]), (2052, &[0x04, 0x08, 0x00, 0x02][..]));
        assert_eq!(got, packet(number, 2048));
        host.put(1, register::PC_RRT, 0);
    }
    let elapsed = host.now_ns - start;
    assert!((20_000_000..20_300_000).contains(&elapsed), "{elapsed}");
    let counts = counts.borrow();
    assert_eq!((counts.offered, counts.delivered, counts.overrun, counts.cut_short), (5, 5, 0, 0));
    assert_eq!(counts.packets_ns[1].0 - counts.packets_ns[0].0, 4_000_000);
    // Each latency is three CMD52 at 25 MHz; the third counts up to its end bit, which clears the
    // interrupt.
    assert_eq!(counts.latency_ns.len(), 5);
    assert!(counts.latency_ns.iter().all(|&ns| (10_000..20_000).contains(&ns)), "{:?}", counts.latency_ns);
}

#[test]
fn a_retry_brings_the_same_packet_again() {
    let (mut host, counts) = open(|source| source.packets = Some(1));
    let first = receive(&mut host);
    host.put(1, register::PC_RRT, 1);
    assert_eq!(receive(&mut host), first);
    host.put(1, register::PC_RRT, 0);
    assert_eq!(host.card.next_event_ns(host.now_ns), None, "that was all");
    host.put(1, register::PC_RRT, 0);
    let counts = counts.borrow();
    assert_eq!((counts.retried, counts.delivered, counts.stray), (1, 1, 1));
}

#[test]
fn a_slow_host_loses_packets_and_sees_the_gap() {
    let (mut host, counts) = open(|source| source.packets = Some(10));
    host.wait(100_000_000);
    for number in 0..4 {
        assert_eq!(receive(&mut host), packet(number, 2048));
        host.put(1, register::PC_RRT, 0);
    }
    assert!(!host.card.interrupt(host.now_ns));
    // A packet was acknowledged without being read, and data were read without a packet.
    let counts = counts.borrow();
    assert_eq!((counts.offered, counts.delivered, counts.overrun), (10, 4, 6));
    assert!(counts.latency_ns[0] > 90_000_000);
}

#[test]
fn an_early_acknowledgement_is_noticed() {
    let (mut host, counts) = open(|_| {});
    wait(&mut host);
    host.put(1, register::INTRD, 1);
    host.put(1, register::PC_RRT, 0);
    host.read53(1, FIXED, 0, 4, 1);
    let counts = counts.borrow();
    assert_eq!((counts.cut_short, counts.delivered, counts.empty_reads), (1, 0, 4));
}

#[test]
fn the_host_sends_packets_in_pieces_and_with_padding() {
    let (mut host, counts) = open(|_| {});
    let mut sent = packet(7, 600);
    sent[3] = 1;
    // 512 bytes go as a block, the other bytes in byte mode.
    host.write53(1, (true, false), 0, 1, &sent[..512]);
    host.write53(1, FIXED, 0, 92, &sent[512..]);
    // A packet with padding to a whole block.
    let mut padded = packet(8, 100);
    padded.resize(512, 0xee);
    host.write53(1, (true, false), 0, 1, &padded);
    // The host begins a packet, and drops it.
    host.write53(1, FIXED, 0, 8, &sent[..8]);
    host.put(1, register::PC_WRT, 1);
    host.write53(1, FIXED, 0, 14, &packet(9, 10));
    let counts = counts.borrow();
    assert_eq!((counts.sent_count, counts.sent_dropped), (3, 1));
    assert_eq!(counts.sent, [sent, packet(8, 100), packet(9, 10)]);
}
