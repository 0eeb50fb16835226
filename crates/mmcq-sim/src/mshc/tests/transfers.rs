//! Tests of blocks that the CPU moves.

use super::*;

fn drain(rig: &mut Rig, got: &mut Vec<u8>) {
    while rig.r(rig.at.status) & 1 << 2 == 0 {
        got.extend(rig.r(FIFO).to_le_bytes());
    }
    rig.w(rig.at.raw, RXDR);
}

#[test]
fn the_cpu_reads_by_the_mark_and_the_rest_at_the_end() {
    for config in [MshcConfig::H3, MshcConfig::PCI] {
        let mut rig = Rig::warm(config);
        rig.by_cpu(3);
        rig.start(READ | AUTO | 18, 4);
        let mut got = Vec::new();
        while rig.until(RXDR | OVER) & OVER == 0 {
            assert!(rig.r(rig.at.status) >> 17 & 0x1fff > 7);
            drain(&mut rig, &mut got);
        }
        drain(&mut rig, &mut got);
        assert_eq!(got, rig.stored(4, 1536));
        let raw = rig.until(ACD);
        assert_eq!(raw & (OVER | DCRC | EBE | DRTO | HTO), OVER);
        let commands: Vec<u8> = rig.card.0.borrow().commands.iter().map(|c| c.0).collect();
        assert_eq!(commands, [18, 12]);
        assert_eq!(rig.violations(), 0);
    }
}

#[test]
fn the_clock_stands_while_the_fifo_is_full_and_that_has_a_limit() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    rig.w(rig.at.timeout, 10_000 << 8 | 0xff);
    rig.by_cpu(1);
    rig.start(READ | 17, 0);
    rig.until(HTO);
    assert_ne!(rig.r(rig.at.status) & 1 << 3, 0);
    let mut got = Vec::new();
    while rig.raw() & OVER == 0 {
        drain(&mut rig, &mut got);
        rig.step();
    }
    drain(&mut rig, &mut got);
    assert_eq!(got, rig.stored(0, 512));
    assert!(rig.host.stats().held_ns > 1_000_000);
}

#[test]
fn the_cpu_writes_and_busy_comes_behind_the_end_of_data() {
    for config in [MshcConfig::H3, MshcConfig::PCI] {
        let mut rig = Rig::warm(config);
        rig.card.0.borrow_mut().write_busy_ns = 300_000;
        rig.by_cpu(2);
        let data = pattern(1024);
        rig.start(WRITE | AUTO | 25, 8);
        let mut words = data.chunks_exact(4);
        while words.len() > 0 {
            rig.until(TXDR);
            while rig.r(rig.at.status) & 1 << 3 == 0 {
                let Some(word) = words.next() else { break };
                rig.w(FIFO, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            }
            rig.w(rig.at.raw, TXDR);
        }
        let raw = rig.until(OVER);
        assert_eq!(raw & BCI, 0);
        assert_ne!(rig.r(rig.at.status) & 1 << 9, 0, "busy is a level");
        let at = rig.now;
        assert_eq!(rig.until(ACD) & BCI, 0);
        rig.until(BCI);
        assert!((290_000..310_000).contains(&(rig.now - at)));
        assert_eq!(rig.stored(8, 1024), data);
        assert_eq!(rig.violations(), 0);
    }
}

#[test]
fn the_answer_to_the_automatic_stop_has_its_place() {
    for (config, place) in [(MshcConfig::H3, 0), (MshcConfig::PCI, 4)] {
        let mut rig = Rig::warm(config);
        rig.by_cpu(1);
        rig.start(READ | AUTO | 18, 4);
        rig.until(DONE);
        rig.card.0.borrow_mut().status = 0xb00;
        let mut got = Vec::new();
        while rig.raw() & ACD == 0 {
            drain(&mut rig, &mut got);
            rig.step();
        }
        assert_eq!(rig.r(rig.at.resp + place), 0xb00);
        assert_eq!(rig.r(rig.at.resp), if place == 0 { 0xb00 } else { 0x900 });
    }
}

#[test]
fn the_fifo_belongs_to_no_one_without_data() {
    let mut rig = Rig::warm(MshcConfig::H3);
    assert_eq!(rig.r(FIFO), 0);
    rig.w(FIFO, 1);
    assert_eq!(rig.violations(), 2);
    // On an SMHC the CPU accesses the FIFO only with bit 31 set.
    rig.by_cpu(1);
    rig.w(CONTROL, 1 << 4);
    rig.start(READ | 17, 0);
    rig.step();
    rig.now += 1_000_000;
    assert_eq!((rig.r(FIFO), rig.violations()), (0, 3));
}
