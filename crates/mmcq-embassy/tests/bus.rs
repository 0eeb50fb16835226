//! Tests of `sdio::MmcBus` in both directions, and of embassy's clock, on simulated hardware.

use crate::{tasks, world};
use aligned::{A4, Aligned};
use block_device_driver::BlockDevice as _;
use embassy_time::Delay;
use mmcq::block::BlockDevice;
use mmcq::card::{self, bring_up_sd};
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::sdhci::{SdhciConfig, SdhciQuirks};
use mmcq::host::{Timing, Width};
use mmcq::task::Stack;
use mmcq_embassy::{Bus, Clock, CriticalSection, Mailbox};
use mmcq_sim::slot::Controller;
use sdio::emmc::Emmc;
use sdio::sd::{Card, send_tuning_block};
use sdio::{BusWidth, DefaultBlockDevice, MmcBus, MmcError};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tasks::{drive, exclusive};
use world::World;

fn memory(bytes: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; bytes.div_ceil(8)].into_boxed_slice());
    // SAFETY: the bytes are the memory of the words, and no more.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) })
}

fn blocks(count: usize, seed: u8) -> Vec<Aligned<A4, [u8; 512]>> {
    (0..count).map(|i| Aligned([seed ^ i as u8; 512])).collect()
}

#[test]
fn embassy_s_own_card_driver_runs_over_our_host() {
    let _alone = exclusive();
    let world = World::new("sdhc-16g-hs");
    let stack = world.stack_with(Clock::<0>::TIMER);
    let bus = Bus::new(stack, memory(16 << 10)).at_most(Width::W4);
    drive(&world, stack, [Box::pin(async { Clock::<0>::run(stack).await })], async {
        let mut card = DefaultBlockDevice::<Card, _, _>::new(bus, Delay, 50_000_000).await.expect("a card");
        assert_eq!(card.freq(), 50_000_000);
        for (at, count) in [(77, 1), (100, 9)] {
            let data = blocks(count, 0x5a);
            card.write(at, &data).await.unwrap();
            let mut back = blocks(count, 0);
            card.read(at, &mut back).await.unwrap();
            assert!(back.iter().zip(&data).all(|(a, b)| **a == **b));
        }
        let mut more = blocks(33, 0);
        let error = card.read(0, &mut more).await.expect_err("33 blocks do not fit into 32");
        assert!(matches!(error, MmcError::BlockSize), "{error}");
    });
    assert!(world.memory.violations().is_empty());
    assert_eq!(world.model.borrow().protocol_violations(), 0);
}

/// Tests an eMMC whose lines have always 1.8 V: the controller keeps this voltage, and the timings
/// are those that `sdio` leaves the card in.
#[test]
fn a_soldered_emmc_at_1v8_works_at_high_speed() {
    const HOST_CONTROL_2: u16 = 0x3e;
    const AT_1V8: u32 = 1 << 3;
    const TIMING: u32 = 7;
    let _alone = exclusive();
    let controller = mmcq_sim::sdhci::SdhciConfig::GENERIC_4_20;
    let controller = mmcq_sim::sdhci::SdhciConfig { signal18_fixed: true, fixed: true, ..controller };
    let world = World::of("emmc-hs200", controller);
    let mut config = SdhciConfig::emmc_18();
    config.quirks = config.quirks.with(SdhciQuirks::FIXED_18);
    let stack = world.stack_on(world.host_with(config), Clock::<0>::TIMER);
    let bus = Bus::new(stack, memory(16 << 10));
    drive(&world, stack, [Box::pin(async { Clock::<0>::run(stack).await })], async {
        let mut card =
            DefaultBlockDevice::<Emmc, _, _>::new_emmc(bus, 26_000_000, Delay).await.expect("a card");
        let data = blocks(4, 0x5a);
        card.write(77, &data).await.unwrap();
        let mut back = blocks(4, 0);
        card.read(77, &mut back).await.unwrap();
        assert!(back.iter().zip(&data).all(|(a, b)| **a == **b));
    });
    let control = world.model.borrow_mut().read(HOST_CONTROL_2, 2, world.time.now());
    assert_eq!(control & (AT_1V8 | TIMING), AT_1V8, "1.8 V, and no timing of UHS-I");
}

/// Tests a driver that requests the fastest clock of the controller before the lines have 1.8 V:
/// the clock stays in the range of high speed.
#[test]
fn without_1v8_no_clock_is_faster_than_high_speed() {
    let _alone = exclusive();
    let world = World::new("sdxc-128g-uhs");
    let stack = world.stack_with(Clock::<0>::TIMER);
    let mut bus = Bus::new(stack, memory(4096)).at_most(Width::W4);
    assert!(bus.supports_frequency() > 100_000_000);
    drive(&world, stack, [Box::pin(async { Clock::<0>::run(stack).await })], async {
        bus.init_idle(400_000).await.unwrap();
        bus.set_bus(BusWidth::W4, 208_000_000).unwrap();
        // The next command sets the bus; the card is not ready for it.
        let mut block = Aligned::<A4, _>([0; 64]);
        assert!(bus.read_blocks(send_tuning_block(0, &mut block), false).await.is_err());
    });
    assert_eq!(stack.with(|engine| engine.bus().clock_hz), 50_000_000);
}

/// Tests a tuning that is dropped at any moment. During its tuning procedure a controller treats
/// any CMD19 as a step of the tuning, and does not deliver its data [SDHC 2.2.25].
#[test]
fn a_tuning_that_is_dropped_at_any_moment_is_ended_before_the_next_command() {
    const HOST_CONTROL_2: u16 = 0x3e;
    const EXECUTE_TUNING: u32 = 1 << 6;
    let _alone = exclusive();
    let world = World::new("sdxc-128g-uhs");
    let stack = world.stack_with(Clock::<3>::TIMER);
    let mut bus = Bus::new(stack, memory(4096)).at_most(Width::W4);
    let in_tuning =
        || world.model.borrow_mut().read(HOST_CONTROL_2, 2, world.time.now()) & EXECUTE_TUNING != 0;
    let mut left_in_it = 0;
    drive(&world, stack, [Box::pin(async { Clock::<3>::run(stack).await })], async {
        let mut card =
            DefaultBlockDevice::<Card, _, _>::new(&mut bus, Delay, 208_000_000).await.expect("a card");
        card.write(77, &blocks(1, 0x5a)).await.unwrap();
        for polls in 1.. {
            assert!(polls < 500, "never ended");
            let mut block = Aligned::<A4, _>([0; 64]);
            let mut polled = 0;
            let ended = {
                let mut call =
                    pin!(bus.tune_bus(BusWidth::W4, 208_000_000, send_tuning_block(0, &mut block)));
                poll_fn(|context| {
                    polled += 1;
                    match call.as_mut().poll(context) {
                        Poll::Ready(tuned) => Poll::Ready(Some(tuned)),
                        Poll::Pending if polled == polls => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            };
            left_in_it += u32::from(ended.is_none() && in_tuning());
            if let Some(tuned) = ended {
                tuned.expect("a sampling point");
                break;
            }
            // This clock is slow enough for any sampling point.
            bus.set_bus(BusWidth::W4, 25_000_000).unwrap();
            let read = bus.read_blocks(send_tuning_block(0, &mut block), false).await;
            assert!(read.is_ok(), "dropped after {polls} polls: {:?}", read.err());
            assert_eq!(block[..4], [0xff, 0x0f, 0xff, 0x00], "dropped after {polls} polls");
            assert!(!in_tuning(), "dropped after {polls} polls");
            bus.set_bus(BusWidth::W4, 208_000_000).unwrap();
        }
        // This clock needs the tuning.
        let mut block = Aligned::<A4, _>([0; 64]);
        bus.read_blocks(send_tuning_block(0, &mut block), false).await.expect("a tuned bus");
    });
    assert!(left_in_it > 10, "nothing was left in tuning: {left_in_it}");
    assert!(world.memory.violations().is_empty());
    assert_eq!(world.model.borrow().protocol_violations(), 0);
}

/// Tests the engine on an `MmcBus` that is itself made from a host of mmcq.
#[test]
fn the_queue_runs_over_any_bus() {
    let _alone = exclusive();
    let world = World::new("sdhc-16g-hs");
    let below = world.stack_with(Clock::<1>::TIMER);
    let mut buffer = Aligned::<A4, _>([0u8; 8192]);
    let mailbox = Mailbox::new(&mut buffer);
    let (host, mut runner) = mailbox.connect(Bus::new(below, memory(8192))).unwrap();
    let stack: Stack<(CriticalSection, _), 8> =
        Stack::new(CriticalSection, Clock::<2>::TIMER, host, Config::DEFAULT);
    drive(
        &world,
        below,
        [
            Box::pin(async { Clock::<1>::run(below).await }),
            Box::pin(async { Clock::<2>::run(&stack).await }),
            Box::pin(async { runner.run(&stack).await }),
        ],
        async {
            let (card, _) = bring_up_sd(&stack, memory(512), card::Options::DEFAULT).await;
            let card = card.expect("a card");
            assert_eq!((card.timing, card.width), (Timing::HighSpeed, Width::W4));
            let disk = BlockDevice::new(&stack);
            let mut data = memory(40 * 512);
            data.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 3) as u8);
            // The transfer is longer than the mailbox, so the engine splits it.
            let (written, data) = disk.write(5000, data).await;
            assert_eq!(written.unwrap(), 40);
            // Three requests at a time.
            let (a, b, c) = (disk.read(5000, memory(4096)), disk.read(5008, memory(8192)), disk.flush());
            let (a, (b, c)) = tasks::join(a, tasks::join(b, c)).await;
            assert!(a.0.is_ok() && b.0.is_ok() && c.is_ok());
            assert_eq!(a.1[..], data[..4096]);
            assert_eq!(b.1[..], data[4096..4096 + 8192]);
        },
    );
    assert!(world.memory.violations().is_empty());
    assert_eq!(world.model.borrow().protocol_violations(), 0);
}

#[test]
fn a_bus_that_hangs_is_dropped_by_the_deadline_and_used_again() {
    let _alone = exclusive();
    let world = World::new("sdhc-16g-hs");
    let below = world.stack_with(Clock::<1>::TIMER);
    let mut buffer = Aligned::<A4, _>([0u8; 4096]);
    let mailbox = Mailbox::new(&mut buffer);
    let bus = tasks::Hanging::new(Bus::new(below, memory(4096)));
    let (hang, asked) = (bus.hang.clone(), bus.asked.clone());
    let (host, mut runner) = mailbox.connect(bus).unwrap();
    let stack: Stack<(CriticalSection, _), 8> =
        Stack::new(CriticalSection, Clock::<2>::TIMER, host, Config::DEFAULT);
    drive(
        &world,
        below,
        [
            Box::pin(async { Clock::<1>::run(below).await }),
            Box::pin(async { Clock::<2>::run(&stack).await }),
            Box::pin(async { runner.run(&stack).await }),
        ],
        async {
            bring_up_sd(&stack, memory(512), card::Options::DEFAULT).await.0.expect("a card");
            hang.set(true);
            let (result, buf) = BlockDevice::new(&stack).read(0, memory(512)).await;
            assert!(result.is_err());
            assert_eq!(buf.len_bytes(), 512, "the buffer comes back");
            hang.set(false);
            asked.borrow_mut().clear();
            bring_up_sd(&stack, memory(512), card::Options::DEFAULT).await.0.expect("the card again");
            let (result, _) = BlockDevice::new(&stack).read(0, memory(512)).await;
            result.expect("a read as if nothing had been");
            // The clock from before the power cycle must not be set again during identification.
            assert_eq!(asked.borrow()[..2], [(true, 400_000), (false, 400_000)], "{:?}", asked.borrow());
        },
    );
}

#[test]
fn a_bus_without_the_native_protocol_is_refused() {
    struct Spi;
    impl MmcBus for Spi {
        async fn send_command<'a, C: sdio::ControlCommand + 'a>(
            &mut self,
            _: C,
        ) -> Result<C::Resp<'a>, MmcError> {
            Err(MmcError::Other)
        }
        async fn read_blocks<'a, C: sdio::BlockReadCommand + 'a>(
            &mut self,
            _: C,
            _: bool,
        ) -> Result<C::Resp<'a>, MmcError> {
            Err(MmcError::Other)
        }
        async fn write_blocks<'a, C: sdio::BlockWriteCommand + 'a>(
            &mut self,
            _: C,
            _: bool,
        ) -> Result<C::Resp<'a>, MmcError> {
            Err(MmcError::Other)
        }
        async fn read_bytes<'a, C: sdio::ByteReadCommand + 'a>(
            &mut self,
            _: C,
        ) -> Result<C::Resp<'a>, MmcError> {
            Err(MmcError::Other)
        }
        async fn write_bytes<'a, C: sdio::ByteWriteCommand + 'a>(
            &mut self,
            _: C,
        ) -> Result<C::Resp<'a>, MmcError> {
            Err(MmcError::Other)
        }
        async fn init_idle(&mut self, _: u32) -> Result<(), MmcError> {
            Ok(())
        }
        fn set_bus(&mut self, _: sdio::BusWidth, _: u32) -> Result<(), MmcError> {
            Ok(())
        }
    }
    let mut buffer = Aligned::<A4, _>([0u8; 512]);
    assert!(matches!(Mailbox::new(&mut buffer).connect(Spi), Err(MmcError::Unsupported)));
}
