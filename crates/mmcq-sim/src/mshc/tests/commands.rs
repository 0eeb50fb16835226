use super::*;
use crate::sdhci::tests::rig::CID;

const BOTH: [MshcConfig; 2] = [MshcConfig::H3, MshcConfig::PCI];

#[test]
fn answers_arrive_and_a_long_one_has_its_last_bits_first() {
    for config in BOTH {
        let mut rig = Rig::warm(config);
        assert_eq!(rig.command(13, 5), 0x900);
        rig.start(LONG | 2, 0);
        assert_eq!(rig.until(DONE) & (RTO | RCRC | RE), 0);
        let words: Vec<u32> = (0..4).map(|i| rig.r(rig.at.resp + 4 * i)).collect();
        let top = u32::from_be_bytes([CID[0], CID[1], CID[2], CID[3]]);
        assert_eq!((words[3], words[0] >> 8), (top, 0x0a_0b0c));
        rig.start(0, 0);
        assert_eq!(rig.until(DONE), DONE, "nothing is expected");
        assert_eq!(rig.violations(), 0);
    }
}

#[test]
fn the_answer_may_not_come_in_so_many_clocks() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    rig.card.0.borrow_mut().deaf_to = vec![13];
    let from = rig.now;
    rig.start(SHORT | 13, 0);
    assert_eq!(rig.until(DONE), DONE | RTO);
    // 255 clocks of 8.25 MHz after the command.
    let clocks = (rig.now - from) * 33 / 4 / 1000;
    assert!((300..310).contains(&clocks), "{clocks}");
}

#[test]
fn bad_answers_have_their_bits_and_the_command_is_done() {
    for (strike, bit) in [(Strike::Crc, RCRC), (Strike::Index, RE), (Strike::EndBit, RE), (Strike::Lost, RTO)]
    {
        let mut rig = Rig::warm(MshcConfig::H3);
        rig.next(Point::Response, &[strike]);
        rig.start(SHORT | 13, 0);
        assert_eq!(rig.until(DONE), DONE | bit, "{strike:?}");
        // Without bit 8 the controller does not check CRC and index.
        if strike == Strike::Crc {
            rig.next(Point::Response, &[strike]);
            rig.start(NO_CRC | 13, 0);
            assert_eq!(rig.until(DONE), DONE);
        }
    }
}

#[test]
fn registers_are_locked_while_a_command_waits() {
    for config in BOTH {
        let mut rig = Rig::warm(config);
        rig.start(SHORT | 13, 1);
        rig.w(rig.at.arg, 2);
        assert_eq!(rig.raw(), HLE);
        rig.w(rig.at.raw, HLE);
        rig.w(rig.at.mask, 0);
        rig.until(DONE);
        assert_eq!(rig.raw() & HLE, 0, "the mask is no part of a command");
        assert_eq!(rig.card.0.borrow().commands.last().unwrap().1, 1);
        // While a command is on the line, the next one waits for it, and its registers are locked.
        rig.start(SHORT | 13, 3);
        rig.now += 1_000;
        assert_eq!(rig.r(rig.at.cmd) & START, 0);
        rig.w(rig.at.arg, 4);
        rig.w(rig.at.cmd, START | SHORT | 13);
        rig.now += 1_000;
        assert_ne!(rig.r(rig.at.cmd) & START, 0);
        rig.w(rig.at.cmd, START | SHORT | 7);
        assert_ne!(rig.raw() & HLE, 0);
        rig.until(DONE);
        rig.w(rig.at.raw, DONE);
        rig.until(DONE);
        assert_eq!(rig.card.0.borrow().commands.last().map(|c| (c.0, c.1)), Some((13, 4)));
    }
}

#[test]
fn the_clock_changes_with_an_update_alone() {
    for config in BOTH {
        let mut rig = Rig::cold(config);
        if config.layout == Layout::Smhc {
            rig.w(0x04, 1 << 16 | 60);
        } else {
            rig.w(0x04, 1);
            rig.w(0x08, 60);
            rig.w(0x10, 1);
        }
        assert_eq!(rig.host.bus().clock_hz, 0);
        rig.update(0);
        assert_eq!(rig.host.bus().clock_hz, config.source_hz / 120);
        let done = if config.layout == Layout::Smhc { DONE } else { 0 };
        assert_eq!(rig.raw(), done);
        assert!(rig.card.0.borrow().commands.is_empty());
    }
}

#[test]
fn what_waits_for_data_waits_for_dat0_and_what_does_not_goes() {
    for config in BOTH {
        let mut rig = Rig::warm(config);
        rig.card.0.borrow_mut().r1b_busy_ns = 5_000_000;
        rig.command(7, 1 << 16);
        let until = rig.now + 4_900_000;
        assert_ne!(rig.r(rig.at.status) & 1 << 9, 0);
        rig.command(13, 0);
        rig.w(rig.at.cmd, START | UPDATE);
        rig.now = until;
        assert_ne!(rig.r(rig.at.cmd) & START, 0, "the card is busy");
        rig.now += 1_000_000;
        rig.host.advance(rig.now);
        assert_eq!(rig.r(rig.at.cmd) & START, 0);
        assert_eq!(rig.r(rig.at.status) & 1 << 9, 0);
        assert_eq!(rig.raw() & BCI, 0, "not for R1b");
    }
}

#[test]
fn without_its_clock_nothing_is_taken_and_no_reset_ends() {
    let mut rig = Rig::cold(MshcConfig { source_hz: 0, ..MshcConfig::H3 });
    rig.w(CONTROL, 7);
    rig.w(rig.at.cmd, START | UPDATE);
    rig.now += 1_000_000_000;
    assert_eq!((rig.r(CONTROL), rig.r(rig.at.cmd) & START), (7, START));
    assert_eq!(rig.host.next_event_ns(), None);
    let mut rig = Rig::cold(MshcConfig { bus_clock: false, ..MshcConfig::H3 });
    rig.w(CONTROL, 0);
    assert_eq!((rig.r(CONTROL), rig.raw()), (u32::MAX, u32::MAX));
}

#[test]
fn a_reset_ends_what_there_is_and_stops_the_clock_of_a_designware() {
    for config in BOTH {
        let mut rig = Rig::warm(config);
        rig.by_cpu(4);
        rig.start(READ | 18, 0);
        rig.until(RXDR);
        assert_ne!(rig.r(rig.at.status) & 1 << 10, 0);
        rig.w(CONTROL, 7);
        assert_eq!(rig.r(CONTROL), 7);
        rig.now += 1_000;
        assert_eq!(rig.r(CONTROL), 0);
        assert_eq!(rig.r(rig.at.status) & (1 << 10 | 1 << 2), 1 << 2);
        let runs = rig.host.bus().clock_hz != 0;
        assert_eq!(runs, config.layout == Layout::Smhc);
        rig.power_up();
        rig.command(13, 0);
    }
}

#[test]
fn cards_come_and_go() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    assert_eq!(rig.r(0x50), 0);
    rig.w(rig.at.mask, 1);
    let card = rig.host.remove(rig.now).unwrap();
    assert_eq!((rig.r(0x50), rig.raw(), rig.host.irq()), (1, 1, true));
    rig.w(rig.at.raw, 1);
    assert!(!rig.host.irq());
    rig.host.insert(card, rig.now);
    assert_eq!((rig.r(0x50), rig.raw()), (0, 1));
    let mut rig = Rig::warm(MshcConfig::H3);
    assert_ne!(rig.r(rig.at.status) & 1 << 8, 0);
    rig.host.remove(rig.now);
    assert_eq!((rig.r(rig.at.status) & 1 << 8, rig.raw()), (0, 1 << 31));
}

#[test]
fn identity_is_as_configured() {
    let mut rig = Rig::cold(MshcConfig::PCI);
    assert_eq!(rig.r(0x6c) & 0xffff, 0x290a);
    let features = rig.r(0x70);
    assert_eq!((features >> 7 & 7, features >> 16 & 3, features >> 27 & 1), (1, 0, 0));
    assert_eq!(rig.r(rig.at.threshold) >> 16 & 0xfff, 31);
    for (config, key) in [
        (MshcConfig { source_hz: 5, ..MshcConfig::H3 }, "source_hz"),
        (MshcConfig { fifo_words: 9, ..MshcConfig::H3 }, "fifo_words"),
        (MshcConfig { size_bits: 16, ..MshcConfig::PCI }, "size_bits"),
        (MshcConfig { address_shift: 1, ..MshcConfig::H3 }, "address_shift"),
        (MshcConfig { wide_dma: true, ..MshcConfig::H3 }, "wide_dma"),
        (MshcConfig { lines: 3, ..MshcConfig::H3 }, "lines"),
        (MshcConfig { fifo_offset: 4, ..MshcConfig::H3 }, "fifo_offset"),
        (MshcConfig { best_phase: 400, ..MshcConfig::H3 }, "best_phase"),
    ] {
        let text = config.check().unwrap_err();
        assert!(text.contains(key) && !text.contains('\n'), "{text}");
    }
}
