//! Tests of memory that the DMA cannot use directly: odd addresses, odd lengths, shared cache
//! lines, memory out of reach.

use super::{Chip, Rig, buffer};
use crate::timed::{self, bytes};
use mmcq::block::{BlockDevice, Bounced};
use mmcq::card::{Options, bring_up_io};
use mmcq::engine::{DmaBuf, Error, Kind};
use mmcq::host::{DmaError, Timing};
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{CardInterrupt, Function};
use mmcq_sim::card::io::{Behind, IoProfile, type_a};
use mmcq_sim::memory::MemoryConfig;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;

/// Returns memory for `count` blocks, `off` bytes behind an address that is aligned for every
/// controller.
fn odd_blocks(count: usize, off: usize) -> DmaBuf {
    let memory = Box::leak(bytes(count * 512 + 64).to_vec().into_boxed_slice());
    let off = off + memory.as_ptr().align_offset(64);
    DmaBuf::from_static(&mut memory[off..off + count * 512])
}

#[test]
fn memory_at_an_odd_place_is_refused_and_copied_where_that_is_asked() {
    let (rig, _) = Rig::up::<1>("sdhc-16g-hs", Chip::of(Stm32SdmmcConfig::H7));
    for off in [1, 2, 3] {
        let refused = rig.try_submit(Kind::Read { lba: 0, blocks: 1 }, odd_blocks(1, off));
        assert_eq!(refused.map(drop), Err(Error::Dma(DmaError::Alignment)));
    }
    assert!(rig.finish(rig.submit(Kind::Read { lba: 0, blocks: 1 }, odd_blocks(1, 4))).result.is_ok());
    let mut copying = Bounced::new(BlockDevice::new(&rig.stack), buffer(4)).unwrap();
    let mut memory = odd_blocks(9, 3);
    for (at, byte) in memory.iter_mut().enumerate() {
        *byte = (at * 5) as u8;
    }
    rig.drive(copying.write(500, &memory)).unwrap();
    let mut read = odd_blocks(9, 1);
    rig.drive(copying.read(500, &mut read)).unwrap();
    assert_eq!(read[..], memory[..]);
    rig.checked();
}

/// Checks cache lines that are longer than a register of the card (SCR: 8 bytes): such registers go
/// through the driver's own bounce buffer, and blocks go as usual.
#[test]
fn short_registers_of_a_card_are_no_whole_cache_lines() {
    for line in [32, 64] {
        let memory = MemoryConfig { line, align: line as usize, ..MemoryConfig::BITS32 };
        for name in ["sdxc-128g-uhs", "emmc-hs200"] {
            let chip = Chip { memory, ..Chip::of(Stm32SdmmcConfig::H7) };
            let rig = Rig::new::<1>(Some(timed::card(&timed::profile(name))), chip.holds(name));
            let scratch = odd_blocks(1, 0);
            let found = rig.drive(mmcq::card::bring_up(&rig.stack, scratch, Options::DEFAULT)).0.unwrap();
            assert!(matches!(found.timing, Timing::Sdr104 | Timing::Hs200));
            let done = rig.finish(rig.submit(Kind::Read { lba: 9, blocks: 3 }, odd_blocks(3, 0)));
            assert!(done.result.is_ok());
            rig.checked();
        }
    }
}

/// Checks that memory which the DMA of an H7 cannot reach is refused if the board's settings
/// exclude it; otherwise the transfer fails, and its data are not used.
#[test]
fn memory_out_of_reach_is_refused() {
    let window = [0x4000_0000, 0x4000_2000];
    let model = Stm32SdmmcConfig { window: Some(window), ..Stm32SdmmcConfig::H7 };
    let chip = Chip::of(model);
    let told = Chip { driver: chip.driver.dma_window((window[0], window[1])), ..chip };
    let (rig, _) = Rig::up::<1>("sdhc-16g-hs", told);
    let refused = rig.try_submit(Kind::Read { lba: 0, blocks: 64 }, buffer(64));
    assert_eq!(refused.map(drop), Err(Error::Dma(DmaError::Unreachable)));
    assert!(rig.finish(rig.submit(Kind::Read { lba: 0, blocks: 1 }, buffer(1))).result.is_ok());
    rig.checked();
    for model in [model, Stm32SdmmcConfig { window: Some(window), ..Stm32SdmmcConfig::N6 }] {
        let (rig, _) = Rig::up::<1>("sdhc-16g-hs", Chip::of(model));
        for kind in [Kind::Read { lba: 0, blocks: 64 }, Kind::Write { lba: 0, blocks: 64 }] {
            let begin_ns = rig.time.now();
            let done = rig.finish(rig.submit(kind, buffer(64)));
            assert!(done.result.is_err(), "{kind:?}");
            assert!(rig.time.now() - begin_ns < 20_000_000_000, "{kind:?}: {} ns", rig.time.now() - begin_ns);
        }
        assert!(rig.memory.violations().is_empty());
    }
}

/// Checks packets of any length in both directions on an I/O card, driven by the card's interrupt.
/// Also blocks that are shorter than a cache line, such that the packet is a whole number of blocks
/// but not of lines.
#[test]
fn packets_of_any_length_arrive_whole_and_answers_leave() {
    for (model, payload, block, line) in [
        (Stm32SdmmcConfig::H7, 2048, 512, 1),
        (Stm32SdmmcConfig::H7, 1, 512, 1),
        (Stm32SdmmcConfig::H7, 31, 512, 1),
        (Stm32SdmmcConfig::H7, 517, 512, 1),
        (Stm32SdmmcConfig::N6, 62, 512, 1),
        (Stm32SdmmcConfig::H7, 33 * 16, 16, 64),
        (Stm32SdmmcConfig::H7, 100 * 8 + 3, 8, 32),
    ] {
        let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut profile = IoProfile::from_toml(&text, "bt-type-a").unwrap();
        for behind in profile.behind_mut() {
            if let Behind::TypeA(source) = behind {
                (source.packets, source.payload_bytes) = (Some(20), payload);
            }
        }
        let (card, mut handles) = profile.build();
        let counts = handles.remove(0).1;
        let memory = MemoryConfig { line, align: line as usize, ..MemoryConfig::BITS32 };
        let rig = Rig::new::<1>(Some(Box::new(card)), Chip { memory, ..Chip::of(model) });
        rig.drive(async {
            let card = bring_up_io(&rig.stack, odd_blocks(1, 0), Options::DEFAULT).await.0;
            let card = card.unwrap_or_else(|error| panic!("{error}"));
            let function = Function::new(&rig.stack, &card, 1).unwrap();
            let mut irq = CardInterrupt::new(&rig.stack, &card);
            let bluetooth = TypeA::open(function, &mut irq, block).await.unwrap();
            let (mut buf, mut reply) = (odd_blocks(4, 0), odd_blocks(1, 0));
            for number in 0..20 {
                let received;
                (received, buf) = bluetooth.receive(&mut irq, buf).await;
                let received = received.unwrap_or_else(|error| panic!("{payload}: {error}"));
                let expected = type_a::packet(number, payload);
                assert_eq!(buf[..received.bytes as usize], expected[4..], "{payload}: packet {number}");
                reply[4..].fill(number as u8);
                let sent;
                (sent, reply) = bluetooth.transmit(received.kind, 90 + number as u32 % 4, reply).await;
                sent.unwrap();
            }
        });
        let counts = counts.borrow();
        assert_eq!((counts.delivered, counts.sent_count, counts.overrun), (20, 20, 0));
        assert_eq!((counts.retried, counts.stray, counts.sent_dropped), (0, 0, 0));
        timed::checked(&rig.memory, &rig.model);
        assert_eq!(rig.stats().lost_interrupts, 0);
    }
}
