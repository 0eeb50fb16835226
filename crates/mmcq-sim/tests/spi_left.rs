//! Tests of a card on an SPI bus that an earlier stack left in the middle.

use mmcq::engine::{Kind, Request};
use mmcq_sim::spi::{Habits, SpiLine};

use crate::cases;
use crate::spi_rig::{Rig, buffer};
use crate::timed::one_thread::NOW_NS;

/// Checks that a new stack can run a load on a bus that was used before.
fn good(line: SpiLine) -> Result<(), String> {
    let rig = Rig::on(line);
    let found = rig.bring_up()?;
    let failed = rig.load(found, 1, 6)?;
    if failed.is_empty() { Ok(()) } else { Err(format!("{failed:?}")) }
}

fn frame(index: u8, arg: u32) -> Vec<u8> {
    let mut frame = vec![0x40 | index];
    frame.extend(arg.to_be_bytes());
    let crc = crc::Crc::<u8>::new(&crc::CRC_7_MMC).checksum(&frame);
    frame.push(crc << 1 | 1);
    frame
}

/// Checks a processor that is reset in the middle of an exchange, while the card's supply stays on.
#[test]
fn a_card_left_by_another_in_the_middle_is_brought_back() {
    let mut wrong = Vec::new();
    let block = [vec![0xff, 0xfc], vec![0x40; 512], vec![0; 2]].concat();
    for deselect_ends in [false, true] {
        for stays_selected in [false, true] {
            for (index, bytes) in [
                (18, 0),
                (18, 1),
                (18, 7_600),
                (18, 8_000),
                (18, 9_001),
                (17, 3),
                (17, 7_700),
                (25, 0),
                (25, 2),
            ]
            .into_iter()
            .chain([1, 100, 511, 512, 513].map(|bytes| (25, 3 + bytes)))
            .chain([(25, 516), (25, 517), (25, 530), (38, 0), (38, 40), (13, 0), (55, 2)])
            {
                let habits = Habits { deselect_ends, ..Habits::USUAL };
                let rig = Rig::new("sdhc-16g-hs", habits);
                rig.bring_up().unwrap();
                let line = rig.line.clone();
                line.select(true);
                line.transfer(&mut [0xff; 20]);
                line.transfer(&mut frame(12, 0));
                line.transfer(&mut [0xff; 4]);
                for (index, arg) in [(32, 0), (33, 9_000), (index, 0)] {
                    line.transfer(&mut frame(index, arg));
                    line.transfer(&mut [0xff; 2]);
                }
                let mut sent = if index == 25 { block.clone() } else { Vec::new() };
                sent.resize(bytes, 0xff);
                line.transfer(&mut sent);
                line.select(stays_selected);
                if let Err(error) = good(line) {
                    let how = format!("ends {deselect_ends}, low {stays_selected}");
                    wrong.push(format!("CMD{index} and {bytes} bytes, {how}: {error}"));
                }
            }
            // Half a command frame was sent.
            let rig = Rig::new("sdsc-1g", Habits { deselect_ends, ..Habits::USUAL });
            rig.bring_up().unwrap();
            rig.line.select(true);
            rig.line.transfer(&mut frame(17, 0)[..4]);
            rig.line.select(stays_selected);
            if let Err(error) = good(rig.line.clone()) {
                wrong.push(format!("half a frame: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks a new stack after an earlier stack that disappeared in the middle of a request; the
/// card's supply stays on.
#[test]
fn a_card_left_in_the_middle_is_brought_back() {
    let mut wrong = Vec::new();
    for deselect_ends in [false, true] {
        for stays_selected in [false, true] {
            for (what, turns) in ["read", "write"]
                .into_iter()
                .flat_map(|what| cases::some(4, (0..60).step_by(3)).map(move |n| (what, n)))
            {
                let rig = Rig::new("sdhc-16g-hs", Habits { deselect_ends, ..Habits::USUAL });
                rig.bring_up().unwrap();
                let kind = match what {
                    "read" => Kind::Read { lba: 0, blocks: 8 },
                    _ => Kind::Write { lba: 0, blocks: 8 },
                };
                let now_ns = rig.line.time.now();
                NOW_NS.set(now_ns);
                rig.stack.with(|engine| engine.submit(Request::new(kind, buffer(8)), now_ns)).unwrap();
                for _ in 0..turns {
                    if rig.turn().is_err() {
                        break;
                    }
                }
                let line = rig.line.clone();
                // A reset of the processor leaves the bus in the middle of an exchange.
                line.transfer(&mut vec![0xff; turns as usize % 7]);
                line.select(stays_selected);
                let Err(told) = good(line) else { continue };
                wrong.push(format!(
                    "{what} after {turns}, ends {deselect_ends}, low {stays_selected}: {told}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
