//! Tests of ADMA3: lists that end normally, that fail, and that end too early.

use super::rig::*;
use crate::card::Fill;
use crate::checker::{Answer, Asked, Checker, Content, Fault, Promise};
use crate::faults::{Point, Strike};
use crate::memory::MemoryConfig;
use crate::sdhci::{SdhciConfig, bits::int};
use crate::slot::Controller;
use mmcq::host::Direction;

const TC: u32 = int::TRANSFER_COMPLETE;
const CONFIG: SdhciConfig = SdhciConfig {
    capabilities1: SdhciConfig::GENERIC_4_20.capabilities1 | 1 << 27,
    ..SdhciConfig::GENERIC_4_20
};
/// Transfer mode: automatic CMD23, check of R1 for error bits, no Command Complete.
const LISTED: u16 = 2 << 2 | 1 << 7 | 1 << 8;

fn rig(wide: bool) -> Rig {
    let memory = if wide { MemoryConfig::BITS64 } else { MemoryConfig::BITS32 };
    let mut rig = Rig::with_memory(CONFIG, memory);
    rig.bring_up();
    rig.version4(wide);
    rig.select(3);
    rig
}

/// A command of the list, and its data in one buffer.
struct Part {
    read: bool,
    block: u32,
    data: Mapped,
}

impl Part {
    fn new(rig: &Rig, read: bool, block: u32, blocks: usize) -> Part {
        let (cpu, way) = if read {
            (vec![0; blocks * 512], Direction::Read)
        } else {
            (pattern(blocks * 512), Direction::Write)
        };
        Part { read, block, data: rig.mapped(cpu, way) }
    }

    /// Returns the command descriptor and the ADMA2 table of this command in memory.
    fn described(&self, rig: &Rig, wide: bool) -> Mapped {
        let blocks = (self.data.cpu.len() / 512) as u32;
        let (index, mode) = if self.read { (18u32, READ_MANY) } else { (25, WRITE_MANY) };
        let command = index << 24 | u32::from(R1 | DATA) << 16 | u32::from(mode | LISTED);
        let mut bytes = Vec::new();
        for (head, word) in [(9u32, blocks), (9, 512), (9, self.block), (11, command)] {
            bytes.extend(head.to_le_bytes());
            bytes.extend(word.to_le_bytes());
        }
        let head: u32 = 0x23 | ((blocks * 512) << 16);
        bytes.extend(head.to_le_bytes());
        bytes.extend(&self.data.bus.to_le_bytes()[..if wide { 8 } else { 4 }]);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        rig.mapped(bytes, Direction::Write)
    }
}

/// Returns the list of integrated descriptors in memory; `attribute` gives the attributes of each.
fn list(rig: &Rig, parts: &[Mapped], wide: bool, attribute: impl Fn(usize) -> u32) -> Mapped {
    let mut bytes = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        bytes.extend(attribute(n).to_le_bytes());
        bytes.extend(&part.bus.to_le_bytes()[..if wide { 8 } else { 4 }]);
        bytes.resize((n + 1) * if wide { 16 } else { 8 }, 0);
    }
    rig.mapped(bytes, Direction::Write)
}

fn start(rig: &mut Rig, list: &Mapped, wide: bool) {
    rig.w32(0x78, list.bus as u32);
    if wide {
        rig.w32(0x7c, (list.bus >> 32) as u32);
    }
}

/// Returns the number of list entries that are done.
fn passed(rig: &mut Rig, list: &Mapped, wide: bool) -> u64 {
    let at = u64::from(rig.r32(0x78)) | u64::from(rig.r32(0x7c)) << 32;
    (at - list.bus) / if wide { 16 } else { 8 }
}

fn ended(parts: usize) -> impl Fn(usize) -> u32 {
    move |n| if n + 1 == parts { 0x3b } else { 0x39 }
}

#[test]
fn a_list_moves_all_and_interrupts_once() {
    for wide in [false, true] {
        let mut rig = rig(wide);
        let parts: Vec<_> = [(true, 3, 8), (false, 100, 1), (true, 500, 2), (false, 700, 16)]
            .map(|(read, block, blocks)| Part::new(&rig, read, block, blocks))
            .into();
        let described: Vec<_> = parts.iter().map(|part| part.described(&rig, wide)).collect();
        let list = list(&rig, &described, wide, ended(4));
        start(&mut rig, &list, wide);
        assert_eq!(rig.interrupt(), TC);
        assert_eq!(passed(&mut rig, &list, wide), 4);
        let commands: Vec<u8> = rig.card.0.borrow().commands.iter().map(|c| c.0).collect();
        assert_eq!(commands, [23, 18, 23, 25, 23, 18, 23, 25]);
        for part in parts {
            let (block, bytes) = (part.block as usize, part.data.cpu.len());
            let found = rig.card_bytes(block, bytes);
            assert!(part.data.take() == found, "{block}");
        }
        rig.assert_clean();
    }
}

#[test]
fn an_error_stops_the_list_and_says_where() {
    let mut rig = rig(false);
    let parts: Vec<_> = [4, 200, 300].map(|block| Part::new(&rig, false, block, 2)).into();
    let described: Vec<_> = parts.iter().map(|part| part.described(&rig, false)).collect();
    let list = list(&rig, &described, false, ended(3));
    let before = rig.card_bytes(300, 1024);
    // From the second write on, the card sends no CRC status.
    rig.next(Point::WriteBlock, &[Strike::Late(0), Strike::Late(0), Strike::NoStatus]);
    start(&mut rig, &list, false);
    let status = rig.interrupt();
    assert_eq!(status & (int::ERROR | TC), int::ERROR, "{status:#x}");
    assert_eq!(passed(&mut rig, &list, false), 1);
    rig.run(10_000_000);
    assert_eq!(rig.card_bytes(300, 1024), before);
    // An integrated descriptor with wrong attributes.
    let mut rig = self::rig(false);
    let wrong = self::list(&rig, &described, false, |_| 0x21);
    start(&mut rig, &wrong, false);
    assert_ne!(rig.interrupt() & int::ADMA, 0);
}

#[test]
fn it_begins_where_it_is_selected_alone() {
    let mut rig = Rig::warm(CONFIG);
    rig.w32(0x78, 0x1000);
    assert_eq!(rig.host.protocol_violations(), 1);
    let mut without = Rig::warm(SdhciConfig::GENERIC_4_20);
    without.w32(0x78, 0x1000);
    assert_eq!((without.r32(0x78), without.host.protocol_violations()), (0, 0));
}

/// Does three writes by a list. Returns the result of the checker for a driver that takes the end
/// of the list as success of all writes.
fn believed(
    rig: &mut Rig,
    attribute: impl Fn(usize) -> u32,
    entries: impl Fn(usize) -> usize,
) -> (u64, Vec<Option<Fault>>) {
    let content = Content::new(1, 1, Fill::Zeros);
    let mut judge = Checker::new(Promise { content, write_through: true });
    rig.card.0.borrow_mut().blocks.fill(0);
    let parts: Vec<_> = [4u64, 200, 300]
        .map(|block| (block, judge.submit(Asked::Write { durable: false }, block, 1, 0)))
        .into();
    let described: Vec<_> = parts
        .iter()
        .map(|&(block, ticket)| {
            let mut data = vec![0; 512];
            judge.content().write(block, ticket.version(), &mut data);
            let part = Part { read: false, block: block as u32, data: rig.mapped(data, Direction::Write) };
            (part.described(rig, false), part)
        })
        .collect();
    // Code that writes all descriptors to the same place leaves only the last one there.
    let places: Vec<usize> = (0..parts.len()).map(&entries).collect();
    let mut bytes = vec![0u8; 8 * parts.len()];
    for (n, &place) in places.iter().enumerate() {
        bytes[8 * place..8 * place + 4].copy_from_slice(&attribute(n).to_le_bytes());
        bytes[8 * place + 4..8 * place + 8].copy_from_slice(&(described[n].0.bus as u32).to_le_bytes());
    }
    let list = rig.mapped(bytes, Direction::Write);
    start(rig, &list, false);
    assert_eq!(rig.wait_for(TC), TC, "it says that all is well");
    let passed = passed(rig, &list, false);
    for &(_, ticket) in &parts {
        judge.answered(ticket, Answer::Done, &[]).unwrap();
    }
    let faults = parts
        .iter()
        .map(|&(block, _)| {
            let read = judge.submit(Asked::Read, block, 1, 0);
            let data = rig.card_bytes(block as usize, 512);
            judge.answered(read, Answer::Done, &data).err().map(|violation| violation.fault)
        })
        .collect();
    (passed, faults)
}

/// Checks that the checker finds a bug of ADMA3 drivers that were posted publicly. They wrote each
/// integrated descriptor to the first place, with the attribute End. So the controller executed one
/// request of a list, and the driver reported all as complete.
#[test]
fn the_judge_finds_a_list_that_ends_early() {
    let mut good = rig(false);
    assert_eq!(believed(&mut good, ended(3), |n| n), (3, vec![None, None, None]));
    let mut historic = rig(false);
    let (passed, faults) = believed(&mut historic, |_| 0x3b, |_| 0);
    assert_eq!((passed, faults), (1, vec![Some(Fault::Lost), Some(Fault::Lost), None]));
    // A faulty controller has the same effect.
    let mut bad = rig(false);
    bad.next(Point::List, &[Strike::Late(0), Strike::Lost]);
    let (passed, faults) = believed(&mut bad, ended(3), |n| n);
    assert_eq!((passed, faults), (2, vec![None, None, Some(Fault::Lost)]));
}
