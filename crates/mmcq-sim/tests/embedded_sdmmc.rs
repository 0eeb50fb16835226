//! Tests of our card model by independent code: the crate `embedded-sdmmc` drives the model of a
//! card in SPI mode, byte by byte, with chip select high between two calls.

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use embedded_sdmmc::{
    Block, BlockDevice, BlockIdx, Mode, SdCard, TimeSource, Timestamp, VolumeIdx, VolumeManager,
};
use mmcq_sim::card::{CardProfile, Fill, Medium};
use mmcq_sim::cards;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::{Habits, SpiLine, SpiSlot};
use mmcq_sim::time::Time;
use mmcq_sim::world::Stream;

/// An SPI device on a bus of its own, for `embedded-sdmmc`.
#[derive(Clone)]
pub struct Device(SpiLine);

impl ErrorType for Device {
    type Error = core::convert::Infallible;
}

impl SpiDevice for Device {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Self::Error> {
        let line = &self.0;
        line.select(true);
        for operation in operations {
            match operation {
                Operation::Read(bytes) => {
                    bytes.fill(0xff);
                    line.transfer(bytes);
                }
                Operation::Write(bytes) => bytes.iter().for_each(|&byte| {
                    line.exchange(byte);
                }),
                Operation::Transfer(into, from) => {
                    for place in 0..into.len().max(from.len()) {
                        let back = line.exchange(from.get(place).copied().unwrap_or(0xff));
                        if let Some(to) = into.get_mut(place) {
                            *to = back;
                        }
                    }
                }
                Operation::TransferInPlace(bytes) => line.transfer(bytes),
                Operation::DelayNs(ns) => line.time.charge((*ns).into()),
            }
        }
        line.select(false);
        Ok(())
    }
}

impl DelayNs for Device {
    fn delay_ns(&mut self, ns: u32) {
        self.0.time.charge(ns.into());
    }
}

pub struct Rig {
    pub line: SpiLine,
    pub peer: SdCard<Device, Device>,
}

impl Rig {
    /// Makes the device. The caller sends the first 74 clocks.
    fn new(card: &str, habits: Habits) -> Self {
        let profile = CardProfile::from_toml(cards::named(card).unwrap(), card).unwrap();
        let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(3)).unwrap();
        let mut slot = SpiSlot::new(Some(profile.build(medium).unwrap()));
        slot.set_habits(habits);
        let line = SpiLine::new(slot, Time::new());
        line.time.set(1_000_000);
        line.transfer(&mut [0xff; 10]);
        let device = Device(line.clone());
        Rig { line, peer: SdCard::new(device.clone(), device) }
    }

    pub fn up(card: &str, habits: Habits) -> Self {
        let rig = Self::new(card, habits);
        rig.peer.num_bytes().unwrap_or_else(|error| panic!("{card}: {error}"));
        rig.line.set_clock(25_000_000);
        rig
    }

    fn peek(&self, sector: u32) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        let mut slot = self.line.slot.borrow_mut();
        slot.card_mut().unwrap().peek(u64::from(sector) * 512, &mut bytes).unwrap();
        bytes
    }

    fn faults(&self, plan: Plan) {
        let faults = Faults::new(plan);
        let mut slot = self.line.slot.borrow_mut();
        slot.set_faults(faults.clone());
        slot.card_mut().unwrap().set_faults(faults);
    }
}

/// Habits of a card that `embedded-sdmmc` can work with: busy shows directly after the token that
/// ends a write.
pub const PROMPT: Habits = Habits { stop_bytes: 0, ..Habits::USUAL };

fn blocks(random: &mut Stream, count: u64) -> Vec<Block> {
    let block = |random: &mut Stream| {
        let mut block = Block::new();
        block.contents.fill_with(|| random.bits() as u8);
        block
    };
    (0..count).map(|_| block(random)).collect()
}

#[test]
fn sdsc_sdhc_and_sdxc_come_up() {
    for card in ["sdsc-1g", "sdhc-16g-hs", "sdxc-64g-a2", "pro-plus-128"] {
        let profile = CardProfile::from_toml(cards::named(card).unwrap(), card).unwrap();
        for response_bytes in [1, 4, 8] {
            let rig = Rig::up(card, Habits { response_bytes, ..PROMPT });
            assert_eq!(rig.peer.num_bytes().unwrap(), profile.capacity_bytes(), "{card}");
            let by_bytes = matches!(
                rig.peer.get_card_type(),
                Some(embedded_sdmmc::embedded_sdmmc_types::sdcard::CardType::SD1)
            );
            assert_eq!(by_bytes, card == "sdsc-1g");
        }
    }
}

#[test]
fn random_reads_and_writes_are_what_the_card_holds() {
    for (seed, card) in (1..).zip(["sdsc-1g", "sdhc-16g-hs", "sdxc-64g-a2"]) {
        let rig = Rig::up(card, PROMPT);
        let mut random = Stream::new(seed, "blocks");
        let mut written = 0;
        for _ in 0..60 {
            let (count, at) = (1 + random.below(9), random.below(64) as u32);
            if random.chance(0.5) {
                let data = blocks(&mut random, count);
                rig.peer.write(&data, BlockIdx(at)).unwrap_or_else(|error| panic!("{card}: {error}"));
                for (sector, block) in (at..).zip(&data) {
                    assert_eq!(rig.peek(sector), block.contents);
                }
                written += count;
            } else {
                let mut data = vec![Block::new(); count as usize];
                rig.peer.read(&mut data, BlockIdx(at)).unwrap_or_else(|error| panic!("{card}: {error}"));
                for (sector, block) in (at..).zip(&data) {
                    assert_eq!(rig.peek(sector), block.contents);
                }
            }
        }
        let slot = rig.line.slot.borrow();
        assert_eq!(slot.stats().blocks_written, written);
        assert_eq!(slot.stats().blocks_bad, 0);
    }
}

#[test]
fn it_complains_about_faults() {
    let rig = Rig::up("sdhc-16g-hs", PROMPT);
    let mut one = [Block::new()];
    for (point, strike) in [
        (Point::ReadBlock, Strike::Crc),
        (Point::Command, Strike::Lost),
        (Point::Response, Strike::Lost),
        (Point::Medium, Strike::Fail),
    ] {
        rig.faults(Plan::none().shot(point, 1, strike));
        assert!(rig.peer.read(&mut one, BlockIdx(5)).is_err(), "{point:?} {strike:?}");
        rig.faults(Plan::none());
        rig.line.set_clock(400_000);
        rig.peer.mark_card_uninit();
        rig.peer.read(&mut one, BlockIdx(5)).unwrap();
        rig.line.set_clock(25_000_000);
    }
    for (point, strike) in [(Point::WriteBlock, Strike::Crc), (Point::Medium, Strike::Fail)] {
        rig.faults(Plan::none().shot(point, 1, strike));
        assert!(rig.peer.write(&one, BlockIdx(5)).is_err(), "{point:?} {strike:?}");
    }
}

/// Documents what `embedded-sdmmc` does against the standard, or does not notice.
#[test]
fn what_the_judge_itself_does_wrong() {
    // It sends the token of a single block directly after the response (the standard wants at least
    // one byte between: N_WR).
    let rig = Rig::up("sdhc-16g-hs", PROMPT);
    rig.peer.write(&[Block::new()], BlockIdx(5)).unwrap();
    assert_eq!(rig.line.slot.borrow().protocol_violations(), 1);
    let rig = Rig::up("sdhc-16g-hs", Habits { needs_gap: true, ..PROMPT });
    assert!(rig.peer.write(&[Block::new()], BlockIdx(5)).is_err());
    // It takes the byte after the last token of a write, which is undefined, for the end of busy.
    let rig = Rig::up("sdhc-16g-hs", Habits::USUAL);
    rig.peer.write(&[Block::new(), Block::new()], BlockIdx(5)).unwrap();
    assert!(rig.peer.read(&mut [Block::new()], BlockIdx(5)).is_err());
    // It does not ask for the error of a write of several blocks.
    let rig = Rig::up("sdhc-16g-hs", PROMPT);
    rig.faults(Plan::none().shot(Point::Medium, 2, Strike::Fail));
    rig.peer.write(&[Block::new(), Block::new()], BlockIdx(5)).unwrap();
    assert_ne!(rig.peek(6), [0; 512]);
}

struct NoTime;

impl TimeSource for NoTime {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp::from_calendar(2026, 11, 24, 12, 0, 0).unwrap()
    }
}

/// Writes a partition with an empty FAT16 file system to the card from sector 64 on: 16 MiB,
/// clusters of 4 KiB.
fn format(peer: &SdCard<Device, Device>) {
    const START: u32 = 64;
    const SECTORS: u32 = 32_768 + 1_024;
    let put = |at: u32, parts: &[(usize, &[u8])]| {
        let mut block = Block::new();
        for (place, bytes) in parts {
            block.contents[*place..*place + bytes.len()].copy_from_slice(bytes);
        }
        peer.write(&[block], BlockIdx(at)).unwrap();
    };
    let entry = [[0, 0, 0, 0], [6, 0, 0, 0], START.to_le_bytes(), SECTORS.to_le_bytes()].concat();
    put(0, &[(446, &entry), (510, &[0x55, 0xaa])]);
    // The boot sector: sectors of 512 bytes, clusters of 8 sectors, 1 reserved sector, 2 tables of
    // 32 sectors, 512 entries in the root directory.
    let layout = [0x00, 0x02, 8, 1, 0, 2, 0x00, 0x02, 0, 0, 0xf8, 32, 0];
    put(
        START,
        &[
            (0, &[0xeb, 0x3c, 0x90]),
            (3, b"MMCQ    "),
            (11, &layout),
            (28, &START.to_le_bytes()),
            (32, &SECTORS.to_le_bytes()),
            (36, &[0x80, 0, 0x29, 1, 2, 3, 4]),
            (43, b"SPI        FAT16   "),
            (510, &[0x55, 0xaa]),
        ],
    );
    for at in START + 1..START + 65 + 32 {
        let first = (at - START - 1).is_multiple_of(32) && at < START + 65;
        put(at, if first { &[(0, &[0xf8, 0xff, 0xff, 0xff])] } else { &[] });
    }
}

#[test]
fn a_file_on_a_fat_volume() {
    let rig = Rig::up("sdxc-64g-a2", PROMPT);
    format(&rig.peer);
    let mut random = Stream::new(9, "file");
    let data: Vec<u8> = (0..50_000).map(|_| random.bits() as u8).collect();
    let volumes: VolumeManager<_, _> = VolumeManager::new(rig.peer, NoTime);
    let volume = volumes.open_volume(VolumeIdx(0)).unwrap();
    let root = volume.open_root_dir().unwrap();
    let file = root.open_file_in_dir("DATA.BIN", Mode::ReadWriteCreate).unwrap();
    for part in data.chunks(700) {
        file.write(part).unwrap();
    }
    file.close().unwrap();
    let file = root.open_file_in_dir("DATA.BIN", Mode::ReadOnly).unwrap();
    let mut back = vec![0; data.len()];
    let mut got = 0;
    while got < back.len() {
        got += file.read(&mut back[got..]).unwrap();
    }
    assert_eq!(back, data);
}
