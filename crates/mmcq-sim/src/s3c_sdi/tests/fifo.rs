use super::*;
use crate::slot::Controller;
use crate::world::Device;

#[test]
fn two_kib_come_in_at_the_pace_of_the_bus() {
    let mut rig = Rig::ready(loopback_card(), 512);
    let data = pattern(2048);
    write_blocks(&mut rig, &data, 512);
    rig.take_logs();
    rig.prepare(READ, 4, 512);
    rig.w(IMSK, 1 << 0 | 1 << 2 | 1 << 7);
    let start = rig.now;
    rig.start(53, blocks_at_100(false, 4));
    let mut got = Vec::new();
    let mut halves = Vec::new();
    while rig.r(DSTA) >> 4 & 1 == 0 {
        assert!(rig.interrupt());
        let level = rig.r(FSTA);
        if level >> 7 & 1 == 1 {
            halves.push(rig.now);
            assert_eq!(level & 0x7f, 32, "half full, just now");
        }
        // A fast CPU empties the FIFO at once.
        while rig.r(FSTA) & 0x7f != 0 {
            got.extend(rig.r(DATA).to_le_bytes());
        }
    }
    assert_eq!(got, data);
    assert_eq!(rig.host.stats().held_ns, 0);
    // 32 bytes take 64 clocks on 4 lines.
    assert_eq!(halves.len(), 64);
    assert_eq!(halves[1] - halves[0], 6_400);
    // Command and response take 104 clocks; each block takes 8 + 1 + 1024 + 17.
    assert_eq!(rig.now - start, 100 * (104 + 4 * 1050));
    assert_eq!(rig.host.protocol_violations(), 0);
    assert_eq!(rig.host.stats().blocks_read, 4);
}

#[test]
fn a_slow_cpu_makes_gaps_and_loses_nothing() {
    let mut rig = Rig::ready(loopback_card(), 512);
    let data = pattern(2048);
    write_blocks(&mut rig, &data, 512);
    rig.take_logs();
    rig.prepare(READ, 4, 512);
    rig.w(IMSK, 1 << 0 | 1 << 2 | 1 << 7);
    rig.start(53, blocks_at_100(false, 4));
    let mut got = Vec::new();
    while rig.r(DSTA) >> 4 & 1 == 0 {
        assert!(rig.interrupt());
        rig.now += 20_000;
        while rig.r(FSTA) & 0x7f != 0 {
            got.extend(rig.r(DATA).to_le_bytes());
        }
    }
    assert_eq!(got, data);
    // The FIFO is half full after 6.4 us and full after 6.4 us more. For the rest of the 20 us the
    // clock is stopped.
    let held = rig.host.stats().held_ns;
    let holds = rig.holds.borrow().clone();
    assert_eq!(held, holds.iter().map(|(from, until)| until - from).sum::<u64>());
    assert!(holds.len() >= 28, "{}", holds.len());
    assert!(holds.iter().all(|(from, until)| (1..=13_600).contains(&(until - from))), "{holds:?}");
    // In the log, each block is longer by the time for which the clock was stopped inside it.
    let blocks: u64 = rig.blocks().iter().map(|(start, end)| end - start).sum();
    let inside: u64 = holds
        .iter()
        .filter(|(from, until)| rig.blocks().iter().any(|(start, end)| start < from && until < end))
        .map(|(from, until)| until - from)
        .sum();
    assert_eq!(blocks, 4 * 104_200 + inside);
    assert!(inside > 0);
}

#[test]
fn a_full_fifo_stops_the_clock_until_someone_reads() {
    let mut rig = Rig::ready(loopback_card(), 512);
    rig.prepare(READ, 2, 512);
    rig.start(53, blocks_at_100(false, 2));
    rig.until(FSTA, 1 << 8);
    assert_eq!(rig.r(FSTA) & 0x7f, 64);
    let full = rig.now;
    rig.now += 1_000_000_000;
    assert_eq!((rig.r(FSTA) & 0x7f, rig.r(DSTA) & 0x30), (64, 0), "no timeout counts without a clock");
    assert_eq!(rig.host.next_event_ns(), None);
    assert_eq!(rig.r(DCNT), 2 << 12 | (512 - 64));
    // A command also waits for the clock.
    rig.start(52, 0);
    rig.now += 1_000_000;
    assert_eq!(rig.r(CSTA) >> 8 & 0x1f, 1);
    rig.r(DATA);
    assert_eq!(rig.host.stats().held_ns, rig.now - full);
    rig.now += 800;
    assert_eq!(rig.r(FSTA) & 0x7f, 64, "a word is 8 clocks");
    // DCON stops the transfer, and the reset of the FIFO empties it.
    rig.w(DCON, 0);
    rig.w(FSTA, 1 << 16);
    assert_eq!(rig.r(FSTA), 0);
    rig.until(CSTA, 1 << 9);
    assert_eq!(rig.r(RSP) >> 8 & 0xff, 0x20, "the card is still in transfer");
    rig.put(0, 6, 1);
    assert_eq!(rig.get(0, 0), 0x32);
}

#[test]
fn a_write_is_prefilled_and_fed_at_half() {
    let mut rig = Rig::ready(loopback_card(), 512);
    let data = pattern(2048);
    rig.prepare(WRITE, 4, 512);
    assert_eq!(rig.r(FSTA), 1 << 13 | 1 << 11 | 1 << 10);
    let mut words = data.chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap()));
    for word in words.by_ref().take(16) {
        rig.w(DATA, word);
    }
    assert_eq!(rig.r(FSTA), 64);
    rig.w(IMSK, 1 << 4 | 1 << 7);
    rig.start(53, blocks_at_100(true, 4));
    let start = rig.now;
    while rig.r(DSTA) >> 4 & 1 == 0 {
        assert!(rig.interrupt());
        let mut more = false;
        while rig.r(FSTA) >> 13 & 1 == 1
            && let Some(word) = words.next()
        {
            more = true;
            rig.w(DATA, word);
        }
        if !more {
            rig.w(IMSK, 1 << 7);
        }
    }
    // Command and response, then blocks with gap and CRC status.
    assert_eq!(rig.now - start, 100 * (104 + 4 * (1050 + 10)));
    assert_eq!((rig.host.stats().held_ns, rig.host.stats().blocks_written), (0, 4));
    assert_eq!(rig.r(DSTA) & 0x3fb, 1 << 4);
    assert_eq!(rig.host.protocol_violations(), 0);
    assert_eq!(read_blocks(&mut rig, 4, 512), data);
}

#[test]
fn a_write_without_data_holds_the_clock() {
    let mut rig = Rig::ready(loopback_card(), 64);
    rig.prepare(WRITE, 1, 64);
    rig.start(53, blocks_at_100(true, 1));
    rig.until(CSTA, 1 << 9);
    let from = rig.now;
    rig.now += 50_000;
    for word in 0..8 {
        rig.w(DATA, word);
    }
    // After 8 + 1 clocks and 8 words of 8 clocks the FIFO is empty.
    rig.now += 100_000;
    assert_eq!((rig.r(FSTA) & 0x7f, rig.host.stats().held_ns), (0, 50_000));
    for word in 8..16 {
        rig.w(DATA, word);
    }
    rig.until(DSTA, 1 << 4);
    let holds = rig.holds.borrow().clone();
    assert_eq!(holds[0], (from, from + 50_000));
    assert_eq!(holds[1].0, from + 50_000 + 100 * (9 + 64));
    assert_eq!(read_blocks(&mut rig, 1, 64)[..8], [0, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn a_tail_of_one_to_three_bytes_needs_a_word() {
    let mut rig = Rig::ready(loopback_card(), 64);
    for bytes in [1u32, 2, 3, 5, 35, 63] {
        let data = pattern(bytes as usize);
        rig.prepare(WRITE, 1, bytes);
        for word in data.chunks(4) {
            let mut four = [0xee; 4];
            four[..word.len()].copy_from_slice(word);
            rig.w(DATA, u32::from_le_bytes(four));
        }
        rig.start(53, bytes_at_0(true, bytes));
        rig.until(DSTA, 1 << 4);
        rig.prepare(READ, 1, bytes);
        rig.start(53, bytes_at_0(false, bytes));
        rig.until(DSTA, 1 << 4);
        assert_eq!(rig.r(FSTA) >> 9 & 1, 1, "last");
        let mut got: Vec<u8> = Vec::new();
        while rig.r(FSTA) & 0x7f != 0 {
            let count = (rig.r(FSTA) & 0x7f).min(4) as usize;
            got.extend(&rig.r(DATA).to_le_bytes()[..count]);
        }
        assert_eq!(got, data);
        assert_eq!(rig.r(FSTA) >> 9 & 1, 0);
    }
    assert_eq!(rig.host.protocol_violations(), 0);
    // Several blocks cannot have a length that is not a multiple of a word.
    rig.prepare(READ, 2, 6);
    rig.start(53, blocks_at_100(false, 2));
    rig.until(CSTA, 1 << 9);
    assert_eq!(rig.host.protocol_violations(), 1);
}

#[test]
fn errors_of_data() {
    let mut rig = Rig::ready(loopback_card(), 64);
    // A wrong CRC of a read block.
    rig.next(Point::ReadBlock, &[Strike::Crc]);
    rig.prepare(READ, 1, 64);
    rig.w(IMSK, 1 << 9);
    rig.start(53, blocks_at_100(false, 1));
    assert!(rig.interrupt());
    assert_eq!(rig.r(DSTA), 1 << 7);
    // A CRC status that reports an error of a written block.
    rig.next(Point::WriteBlock, &[Strike::Crc]);
    rig.prepare(WRITE, 1, 64);
    rig.w(IMSK, 1 << 10);
    for _ in 0..16 {
        rig.w(DATA, 0);
    }
    rig.start(53, blocks_at_100(true, 1));
    assert!(rig.interrupt());
    assert_eq!(rig.r(DSTA), 1 << 6);
    // The block length differs from the card's.
    rig.prepare(READ, 1, 60);
    rig.start(53, blocks_at_100(false, 1));
    assert_eq!(rig.until(DSTA, 1 << 7 | 1 << 4), 1 << 7);
    // After a response with an error no data come, and the timer counts clocks.
    rig.prepare(READ, 1, 64);
    rig.w(TIMER, 10_000);
    rig.w(IMSK, 1 << 8);
    let start = rig.now;
    rig.start(53, 3 << 28);
    assert!(rig.interrupt());
    assert_eq!(rig.r(DSTA), 1 << 5);
    assert_eq!(rig.now - start, 100 * (104 + 8 + 10_000));
    assert_eq!(rig.r(RSP), 0x1200);
}

#[test]
fn a_reset_ends_what_is_under_way_and_keeps_what_is_configured() {
    let mut rig = Rig::ready(loopback_card(), 512);
    rig.prepare(READ, 1, 512);
    rig.w(IMSK, 1);
    rig.start(53, blocks_at_100(false, 1));
    rig.until(FSTA, 1 << 8);
    rig.w(CON, 1 << 8 | 1 << 3 | 1);
    assert_eq!((rig.r(CON), rig.r(PRE), rig.r(TIMER), rig.r(IMSK)), (9, 4, 0x7f_ffff, 1));
    assert_eq!((rig.r(FSTA), rig.r(DSTA), rig.r(DCON), rig.r(CSTA)), (0, 0, 0, 0));
    assert_eq!((rig.host.irq(), rig.host.next_event_ns()), (false, None));
    rig.put(0, 6, 1);
    assert_eq!(rig.get(0, 0), 0x32);
}

fn write_blocks(rig: &mut Rig, data: &[u8], block: u32) {
    let count = data.len() as u32 / block;
    rig.prepare(WRITE, count, block);
    rig.start(53, blocks_at_100(true, count));
    for word in data.chunks(4) {
        rig.until(FSTA, 1 << 13);
        rig.w(DATA, u32::from_le_bytes(word.try_into().unwrap()));
    }
    rig.until(DSTA, 1 << 4);
}

fn read_blocks(rig: &mut Rig, count: u32, block: u32) -> Vec<u8> {
    rig.w(IMSK, 0);
    rig.prepare(READ, count, block);
    rig.start(53, blocks_at_100(false, count));
    let mut got = Vec::new();
    while got.len() < (count * block) as usize {
        rig.until(FSTA, 1 << 12);
        got.extend(rig.r(DATA).to_le_bytes());
    }
    rig.until(DSTA, 1 << 4);
    got
}

impl Rig {
    fn take_logs(&mut self) {
        self.log.borrow_mut().clear();
        self.holds.borrow_mut().clear();
        self.host.take_stats();
    }

    /// Returns the start and end time of every block in the log.
    fn blocks(&self) -> Vec<(u64, u64)> {
        let log = self.log.borrow();
        let block = |event: &BusEvent| match *event {
            BusEvent::Block { start_ns, end_ns, .. } => Some((start_ns, end_ns)),
            _ => None,
        };
        log.iter().filter_map(block).collect()
    }
}
