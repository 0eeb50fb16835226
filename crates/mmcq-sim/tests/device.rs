//! Tests of what a block device does in addition to plain reads and writes: erase, zeroes, durable
//! writes, partitions, sleep and power-off, in virtual time.

use crate::timed;
use mmcq::block::{BlockDevice, Partition};
use mmcq::board::NoLock;
use mmcq::card::partition::Area;
use mmcq::card::{self, Card, maintain, power};
use mmcq::engine::{Config, DmaBuf, Erase, Error, Irreversible, Kind, Request};
use mmcq::host::sdhci::{self, Table};
use mmcq::sched::Fifo;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use timed::blocks as buffer;
use timed::one_thread::NOW_NS;

type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;
type Stack = timed::On<Driver>;

struct Rig {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    stack: Stack,
    card: Card,
}

impl Rig {
    fn new(card: &str) -> Rig {
        let profile = timed::profile(card);
        let (emmc, model) = (profile.is_emmc(), timed::card(&profile));
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let config = SdhciConfig { uhs_at_33v: !emmc, ..SdhciConfig::GENERIC_4_20 };
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(model))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
        let host = sdhci::Sdhci::new(port, memory.clone(), table, driver).unwrap();
        NOW_NS.set(0);
        let stack = timed::on(host, Config::DEFAULT);
        let found = timed::drive(&stack, &model, &time, async {
            let (found, scratch) = card::bring_up(&stack, buffer(1), card::Options::DEFAULT).await;
            let found = found.unwrap_or_else(|error| panic!("{error}"));
            card::enable_extended_ops(&stack, &found, scratch).await.0.unwrap();
            found
        });
        Rig { time, model, memory, stack, card: found }
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    fn disk(&self) -> BlockDevice<'_, (NoLock, Driver, Fifo), 16> {
        BlockDevice::new(&self.stack)
    }

    fn read(&self, lba: u64, blocks: usize) -> Vec<u8> {
        let (result, buf) = self.run(self.disk().read(lba, buffer(blocks)));
        result.unwrap();
        buf.to_vec()
    }

    fn write(&self, lba: u64, blocks: usize, fill: u8) {
        self.run(self.disk().write(lba, timed::filled(blocks, fill))).0.unwrap();
    }

    fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        assert!(self.memory.live_mappings() <= 1, "only the descriptor table stays mapped");
        assert_eq!(self.stack.with(|engine| engine.stats().lost_interrupts), 0);
    }
}

const ALL: [&str; 6] = ["sdsc-1g", "sdhc-16g-hs", "sdxc-128g-uhs", "hbg4a2", "emmc-hs200", "emmc-4g-old"];
const EMMC: [&str; 3] = ["hbg4a2", "emmc-hs200", "emmc-4g-old"];

#[test]
fn zeroes_are_zeroes_and_touch_no_other_block() {
    for card in ALL {
        let rig = Rig::new(card);
        let base = rig.card.params.sectors / 2 + 3;
        rig.write(base - 1, 66, 0x5a);
        let (result, zeros) = rig.run(rig.disk().write_zeroes(base, 64, buffer(8)));
        result.unwrap_or_else(|error| panic!("{card}: {error}"));
        assert_eq!(zeros.len_bytes(), 4096, "{card}");
        let read = rig.read(base - 1, 66);
        assert!(read[..512].iter().chain(&read[65 * 512..]).all(|&byte| byte == 0x5a), "{card}");
        assert!(read[512..65 * 512].iter().all(|&byte| byte == 0), "{card}");
        rig.checked();
    }
}

#[test]
fn erased_blocks_are_all_alike_and_their_neighbours_stay() {
    for card in ALL {
        let rig = Rig::new(card);
        let geometry = rig.disk().geometry().unwrap();
        let group = geometry.erase_blocks as usize;
        assert!(group > 0, "{card} cannot erase");
        let base = (geometry.blocks / 2).next_multiple_of(group as u64);
        rig.write(base - 1, 1, 0x5a);
        rig.write(base, 8, 0x33);
        rig.write(base + group as u64, 1, 0x77);
        rig.run(rig.disk().erase(base, group as u32)).unwrap_or_else(|error| panic!("{card}: {error}"));
        let erased = rig.read(base, group.min(8));
        assert!(erased.iter().all(|&byte| byte == erased[0]) && matches!(erased[0], 0 | 0xff), "{card}");
        assert_eq!((rig.read(base - 1, 1)[0], rig.read(base + group as u64, 1)[0]), (0x5a, 0x77), "{card}");
        rig.checked();
    }
}

#[test]
fn a_discard_keeps_what_it_cannot_free_exactly() {
    for card in ALL {
        let rig = Rig::new(card);
        let grain = rig.disk().geometry().unwrap().discard_blocks as u64;
        let base = (rig.card.params.sectors / 2).next_multiple_of(grain.max(1)) + 1;
        rig.write(base - 1, 1, 0x5a);
        rig.write(base, 64, 0x33);
        rig.run(rig.disk().discard(base, 64)).unwrap();
        assert_eq!(rig.read(base - 1, 1)[0], 0x5a, "{card}");
        let left = rig.read(base, 64);
        assert!(left.iter().all(|&byte| matches!(byte, 0x33 | 0 | 0xff)), "{card}");
        // Data written afterwards can be read.
        rig.write(base, 64, 0x44);
        assert!(rig.read(base, 64).iter().all(|&byte| byte == 0x44), "{card}");
        rig.checked();
    }
}

#[test]
fn readers_are_served_between_the_pieces_of_a_long_erase() {
    let rig = Rig::new("hbg4a2");
    let blocks = 1 << 22;
    let erase = Request::new(Kind::Erase { lba: 0, blocks, how: Erase::Trim }, DmaBuf::EMPTY);
    let now = rig.time.now();
    let erase = rig.stack.with(|engine| engine.submit(erase, now)).unwrap();
    let mut longest_ns = 0;
    let mut served = 0;
    while rig.stack.with(|engine| engine.take(erase)).is_none() {
        let asked_ns = rig.time.now();
        rig.read(30_000_000 + 8 * served, 8);
        longest_ns = longest_ns.max(rig.time.now() - asked_ns);
        served += 1;
        assert!(served < 100_000);
    }
    assert!(served > 4, "{served}");
    assert!(longest_ns < 500_000_000, "{longest_ns}");
    assert!(rig.read(1000, 8).iter().all(|&byte| byte == 0));
    rig.checked();
}

#[test]
fn durable_writes_are_there_and_plain_ones_need_a_flush() {
    for card in ALL {
        let rig = Rig::new(card);
        let mut buf = buffer(8);
        buf.fill(0x66);
        let base = rig.card.params.sectors / 2;
        rig.run(rig.disk().write_durable(base, buf)).0.unwrap_or_else(|error| panic!("{card}: {error}"));
        let mut one = buffer(1);
        one.fill(0x67);
        rig.run(rig.disk().write_durable(base + 8, one)).0.unwrap();
        assert_eq!((rig.read(base, 8)[4095], rig.read(base + 8, 1)[0]), (0x66, 0x67), "{card}");
        rig.run(rig.disk().flush()).unwrap();
        rig.checked();
    }
}

#[test]
fn boot_areas_are_apart_and_read_only_until_asked() {
    for card in EMMC {
        let rig = Rig::new(card);
        rig.write(0, 8, 0x11);
        let (boot, scratch) = rig.run(Partition::open(&rig.stack, &rig.card, buffer(1), Area::Boot1));
        let boot = boot.unwrap_or_else(|error| panic!("{card}: {error}"));
        let mut buf = buffer(8);
        buf.fill(0x22);
        let (refused, buf) = rig.run(boot.write(0, buf));
        assert_eq!(refused.unwrap_err().error, Error::Protected, "{card}");
        let boot = boot.writable().unwrap();
        rig.run(boot.write(0, buf)).0.unwrap_or_else(|error| panic!("{card}: {error}"));
        assert_eq!(rig.read(0, 8)[0], 0x11, "{card}: the user area");
        let (result, buf) = rig.run(boot.read(0, buffer(8)));
        result.unwrap();
        assert!(buf.iter().all(|&byte| byte == 0x22), "{card}");
        let (beyond, _) = rig.run(boot.read(boot.blocks(), buffer(1)));
        assert!(matches!(beyond.unwrap_err().error, Error::OutOfRange { .. }));
        rig.run(boot.flush()).unwrap();
        let (none, _) = rig.run(Partition::open(&rig.stack, &rig.card, scratch, Area::General(4)));
        assert_eq!(none.err(), Some(Error::Unsupported), "{card}");
        rig.checked();
    }
}

#[test]
fn a_general_purpose_partition_is_longer_than_a_transfer() {
    let rig = Rig::new("emmc-hs200");
    rig.write(0, 8, 0x11);
    let (partition, _) = rig.run(Partition::open(&rig.stack, &rig.card, buffer(1), Area::General(1)));
    let partition = partition.unwrap_or_else(|error| panic!("{error}"));
    let mut buf = buffer(3000);
    for (n, block) in buf.chunks_mut(512).enumerate() {
        block.fill(n as u8);
    }
    let expected = buf.to_vec();
    rig.run(partition.write(5, buf)).0.unwrap();
    let (result, buf) = rig.run(partition.read(5, buffer(3000)));
    assert_eq!(result.unwrap(), 3000);
    assert!(buf[..] == expected[..]);
    assert_eq!(rig.read(0, 8)[0], 0x11, "the user area");
    rig.checked();
}

/// Checks that a read whose later pieces are refused returns the whole buffer: the caller finds the
/// data of the first piece there.
#[test]
fn a_read_that_is_refused_half_way_gives_the_whole_buffer_back() {
    let rig = Rig::new("emmc-hs200");
    let (partition, _) = rig.run(Partition::open(&rig.stack, &rig.card, buffer(1), Area::General(1)));
    let partition = partition.unwrap_or_else(|error| panic!("{error}"));
    let mut buf = buffer(partition.blocks().min(32_000) as usize);
    for (n, block) in buf.chunks_mut(512).enumerate() {
        block.fill(n as u8);
    }
    let expected = buf.to_vec();
    let (result, buf) = rig.run(partition.write(0, buf));
    result.unwrap();
    let (claim, mut read) = (buf.claim(), pin!(partition.read(0, buf)));
    let (result, buf) = rig.run(poll_fn(|context| {
        let polled = read.as_mut().poll(context);
        rig.stack.with(|engine| engine.suspend());
        polled
    }));
    let refused = result.unwrap_err();
    assert_eq!(refused.error, Error::Suspended);
    let done = refused.blocks_done as usize * 512;
    assert!(done > 0 && done < expected.len(), "{done}");
    assert_eq!((buf.len_bytes() as usize, buf.claim()), (expected.len(), claim));
    assert!(buf[..done] == expected[..done]);
}

#[test]
fn a_device_sleeps_and_wakes_with_its_data() {
    for card in EMMC {
        let rig = Rig::new(card);
        rig.write(100, 8, 0x42);
        let (asleep, scratch) = rig.run(power::sleep(&rig.stack, &rig.card, buffer(1)));
        let asleep = asleep.unwrap_or_else(|error| panic!("{card}: {error}"));
        assert_eq!(rig.run(rig.disk().read(100, buffer(8))).0.unwrap_err().error, Error::NoCard);
        let (woken, _) = rig.run(power::awake(&rig.stack, &rig.card, scratch, asleep));
        woken.unwrap_or_else(|error| panic!("{card}: {error}"));
        assert_eq!(rig.read(100, 8)[0], 0x42, "{card}");
        // The stack can still erase after the device woke.
        rig.run(rig.disk().write_zeroes(100, 8, buffer(1))).0.unwrap();
        rig.checked();
    }
}

#[test]
fn power_goes_after_everything_is_written() {
    for card in ALL {
        for off in [power::Off::Short, power::Off::Long] {
            let rig = Rig::new(card);
            rig.write(100, 8, 0x42);
            let (result, scratch) = rig.run(power::power_off(&rig.stack, &rig.card, buffer(1), off));
            result.unwrap_or_else(|error| panic!("{card}: {error}"));
            assert_eq!(rig.run(rig.disk().read(100, buffer(8))).0.unwrap_err().error, Error::NoCard);
            // The card comes up again, and what was written is there.
            let (again, _) = rig.run(card::bring_up(&rig.stack, scratch, card::Options::DEFAULT));
            again.unwrap_or_else(|error| panic!("{card}: {error}"));
            assert_eq!(rig.read(100, 8)[0], 0x42, "{card}");
            rig.checked();
        }
    }
}

#[test]
fn health_is_told_by_emmc_alone() {
    let rig = Rig::new("hbg4a2");
    rig.run(maintain::health(&rig.stack, &rig.card, buffer(1))).0.unwrap();
    let sure = Irreversible::i_know_that_this_cannot_be_undone();
    rig.run(maintain::sanitize(&rig.stack, &rig.card, buffer(1), sure)).0.unwrap();
    let (urgency, _) =
        rig.run(maintain::background_work(&rig.stack, &rig.card, buffer(1), maintain::Urgency::Some));
    urgency.unwrap();
    rig.checked();
    let rig = Rig::new("sdhc-16g-hs");
    assert_eq!(rig.run(maintain::health(&rig.stack, &rig.card, buffer(1))).0, Err(Error::Unsupported));
}
