//! Tests of reads and writes: by one buffer and by a list of buffers, and what they cost.

use super::{Chip, Rig, buffer};
use crate::timed::{filled, one_thread::NOW_NS};
use mmcq::engine::{DmaBuf, Kind};
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;
use mmcq_sim::world::Device;

fn chips() -> [Stm32SdmmcConfig; 3] {
    [Stm32SdmmcConfig::H7, Stm32SdmmcConfig::U5, Stm32SdmmcConfig::N6]
}

/// Checks CMD17 and CMD24 for one block, CMD18 and CMD25 with CMD12 for many, and the bytes on the
/// card.
#[test]
fn one_block_and_many_are_what_the_card_holds() {
    for model in chips() {
        let (rig, _) = Rig::up::<1>("sdhc-16g-hs", Chip::of(model));
        for (lba, blocks, commands) in [
            (7000, 1, [(24, 1), (25, 0), (17, 1), (18, 0)]),
            (9000, 200, [(24, 0), (25, 1), (17, 0), (18, 1)]),
        ] {
            rig.model.borrow_mut().take_stats();
            let mut data = buffer(blocks as usize);
            for (at, byte) in data.iter_mut().enumerate() {
                *byte = (at / 3) as u8;
            }
            let expected = data.to_vec();
            rig.finish(rig.submit(Kind::Write { lba, blocks }, data)).result.unwrap();
            let mut held = vec![0; expected.len()];
            rig.model.borrow_mut().card_mut().unwrap().peek(lba * 512, &mut held).unwrap();
            assert_eq!(held, expected);
            let read = rig.finish(rig.submit(Kind::Read { lba, blocks }, buffer(blocks as usize)));
            assert_eq!(read.buf[..], expected[..]);
            let stats = rig.model.borrow().stats().clone();
            for (index, count) in commands {
                assert_eq!(stats.commands[index], count, "CMD{index}");
            }
            assert_eq!(stats.commands[12], if blocks > 1 { 2 } else { 0 });
        }
        rig.checked();
    }
}

/// Checks four sequential requests, each with its own memory: the list makes one transfer of them,
/// one buffer makes four.
#[test]
fn a_list_makes_one_transfer_of_scattered_memory() {
    fn commands<const PIECES: usize>(model: Stm32SdmmcConfig) -> (u64, u64) {
        let (rig, _) = Rig::up::<PIECES>("sdhc-16g-hs", Chip::of(model));
        // The first write keeps the card busy while the others are submitted.
        let first = rig.submit(Kind::Write { lba: 100, blocks: 8 }, filled(8, 1));
        rig.model.borrow_mut().take_stats();
        let ids: Vec<_> = (0..4u64)
            .map(|i| rig.submit(Kind::Write { lba: 5000 + i * 24, blocks: 24 }, filled(24, 2 + i as u8)))
            .collect();
        rig.finish(first).result.unwrap();
        for id in ids {
            rig.finish(id).result.unwrap();
        }
        let mut held = vec![0; 4 * 24 * 512];
        rig.model.borrow_mut().card_mut().unwrap().peek(5000 * 512, &mut held).unwrap();
        for (i, part) in held.chunks(24 * 512).enumerate() {
            assert!(part.iter().all(|&byte| byte == 2 + i as u8));
        }
        rig.checked();
        let stats = rig.model.borrow().stats().clone();
        (stats.commands[25], stats.descriptors)
    }
    // The data are cut into pieces of 4 KiB; the first piece is in the registers and needs no
    // descriptor.
    assert_eq!(commands::<64>(Stm32SdmmcConfig::U5), (1, 11));
    assert_eq!(commands::<64>(Stm32SdmmcConfig::N6), (1, 11));
    assert_eq!(commands::<1>(Stm32SdmmcConfig::H7), (4, 0));
}

/// Checks that the end of busy interrupts on a controller whose DATAEND waits for it, as the manual
/// says: then a busy card is not asked for its status. On a controller whose DATAEND does not wait,
/// consecutive writes wait for the card's status.
#[test]
fn the_end_of_busy_interrupts() {
    for data_end_after_busy in [true, false] {
        let chip = Chip::of(Stm32SdmmcConfig { data_end_after_busy, ..Stm32SdmmcConfig::H7 });
        let (rig, _) = Rig::up::<1>("sdsc-1g", chip);
        rig.model.borrow_mut().take_stats();
        for i in 0..20u64 {
            let blocks = [1, 64][i as usize % 2];
            rig.finish(rig.submit(Kind::Write { lba: 4096 + i * 977, blocks }, filled(blocks as usize, 7)))
                .result
                .unwrap();
        }
        let behind = [1u64, 2, 3].map(|i| rig.submit(Kind::Write { lba: i * 999, blocks: 1 }, filled(1, 7)));
        let stats = rig.model.borrow().stats().clone();
        for id in behind {
            rig.finish(id).result.unwrap();
        }
        assert_eq!(rig.model.borrow().stats().silent, 0, "a busy card was spoken to");
        assert!(stats.busy_ns > 1_000_000, "{stats:?}");
        // Each write has one CMD13, and none while the card is busy. If the controller does not
        // wait after a single block, CMD13 is repeated.
        assert_eq!(stats.commands[13] == 20, data_end_after_busy, "{}", stats.commands[13]);
        rig.checked();
    }
}

/// Checks that the interrupt alone drives the stack: nothing is polled, and no deadline is needed.
#[test]
fn the_interrupt_alone_moves_everything() {
    for model in chips() {
        for name in ["sdxc-128g-uhs", "emmc-hs200"] {
            let (rig, found) = Rig::up::<1>(name, Chip::of(model));
            let base = found.params.sectors / 2;
            for i in 0..60u64 {
                let blocks = [1u32, 8, 100][i as usize % 3];
                let (lba, write) = (base + i * 7919 % 4096, i % 4 < 2);
                let kind = if write { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
                let id = rig.submit(kind, filled(blocks as usize, i as u8));
                let mut interrupts = 0;
                while rig.stack.with(|engine| engine.take(id)).is_none() {
                    let event = rig.model.borrow().next_event_ns();
                    let event =
                        event.unwrap_or_else(|| panic!("{name}: nothing will ever happen to {kind:?}"));
                    let reached = rig.model.borrow_mut().advance(event);
                    rig.time.set(reached.max(rig.time.now()));
                    NOW_NS.set(rig.time.now());
                    if rig.model.borrow().irq() {
                        rig.stack.on_irq();
                        interrupts += 1;
                    }
                }
                assert!((1..=6).contains(&interrupts), "{kind:?}: {interrupts} interrupts");
            }
            rig.checked();
        }
    }
}

/// Checks how many register accesses a request of 4 KiB needs in a stream of such requests.
#[test]
fn a_request_costs_few_accesses() {
    let (rig, _) = Rig::up::<1>("sdhc-16g-hs", Chip::of(Stm32SdmmcConfig::H7));
    let one = |kind: Kind| {
        rig.model.borrow_mut().take_stats();
        let before = rig.port.counters();
        rig.finish(rig.submit(kind, buffer(8))).result.unwrap();
        let after = rig.port.counters();
        let interrupts = rig.model.borrow().stats().interrupts;
        (after.reads - before.reads, after.writes - before.writes, interrupts)
    };
    // Data and CMD12 have an interrupt each; a write also has one for its status.
    let read = one(Kind::Read { lba: 80_000, blocks: 8 });
    let write = one(Kind::Write { lba: 80_000, blocks: 8 });
    println!("read {read:?}, write {write:?}: reads, writes, interrupts");
    assert_eq!((read.2, write.2), (2, 4));
    assert!(read.0 <= 10 && read.1 <= 16, "{read:?}");
    assert!(write.0 <= 17 && write.1 <= 24, "{write:?}");
}

/// Checks a flush of a card with a cache, after writes into that cache.
#[test]
fn a_flush_ends_behind_the_busy_of_its_switch() {
    let (rig, found) = Rig::up::<1>("emmc-51-full", Chip::of(Stm32SdmmcConfig::H7));
    assert!(found.params.sectors > 0);
    rig.finish(rig.submit(Kind::Write { lba: 64, blocks: 64 }, filled(64, 9))).result.unwrap();
    rig.model.borrow_mut().take_stats();
    rig.finish(rig.submit(Kind::Flush, DmaBuf::EMPTY)).result.unwrap();
    assert_eq!(rig.model.borrow().stats().commands[6], 1);
    rig.checked();
}
