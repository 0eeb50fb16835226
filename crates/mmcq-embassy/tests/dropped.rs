//! Tests of a block device's call that is dropped before its end (a time limit, a `select`), on the
//! only executor, which also polls the supervisor and the bus's runner. The drop must wait for
//! nothing, and the card must continue.

use crate::{tasks, watchdog, world};
use aligned::{A4, Aligned};
use block_device_driver::BlockDevice as _;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options, bring_up, bring_up_sd};
use mmcq::engine::{Config, DmaBuf, RecoveryStep};
use mmcq::task::{Platform, Stack, Timer};
use mmcq_embassy::{Bus, CriticalSection, Disk, Mailbox};
use mmcq_sim::slot::Controller;
use sdio::common::read_multiple_blocks;
use sdio::{BusWidth, MmcBus as _};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use world::{World, now_ns};

type Call<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
type Block = [Aligned<A4, [u8; 512]>; 1];

fn memory(blocks: usize) -> DmaBuf {
    DmaBuf::from_static(Box::leak(vec![0u64; blocks * 64].into_boxed_slice()).as_bytes())
}

trait AsBytes {
    fn as_bytes(&mut self) -> &mut [u8];
}

impl AsBytes for [u64] {
    fn as_bytes(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are the same memory, and any bytes are valid.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), 8 * self.len()) }
    }
}

/// Begins a read in one of the two ways that embassy's users have: with a copy, or with a buffer
/// that the call takes. The call is polled one time, and is pending.
fn begun<'a, B: Platform>(disk: &'a mut Disk<'_, B, 8, A4>, into: &'a mut Block, copies: bool) -> Call<'a> {
    let mut call: Call<'a> = if copies {
        Box::pin(async {
            let _ = disk.read(0, into).await;
        })
    } else {
        let device: &BlockDevice<'_, B, 8> = disk.device();
        Box::pin(async move { drop(device.read(0, memory(1)).await) })
    };
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    call
}

#[test]
fn while_the_supervisor_is_needed() {
    for copies in [true, false] {
        let _alone = tasks::exclusive();
        let world = World::new("sdhc-16g-hs");
        let stack = world.stack();
        let mut context = Context::from_waker(Waker::noop());
        let (card, scratch) = stack.block_on(bring_up(stack, memory(1), Options::DEFAULT), |_| {});
        let mut supervisor = pin!(card::supervise(stack, scratch, Options::DEFAULT, card.unwrap()));
        assert!(supervisor.as_mut().poll(&mut context).is_pending());
        world.model.borrow_mut().card_mut().unwrap().brown_out(world.time.now());
        let mut disk = Disk::new(stack, memory(1)).unwrap();
        let mut data = [Aligned([0; 512])];
        let call = begun(&mut disk, &mut data, copies);
        // The engine asks for help, but the executor does not poll the supervisor before the time
        // limit.
        while stack.with(|engine| engine.stats().recovery_steps[RecoveryStep::Reinit as usize]) == 0 {
            stack.turn();
        }
        let began_ns = world.time.now();
        drop(call);
        assert_eq!(world.time.now(), began_ns, "the drop waited");
        let mut other = Disk::<_, 8, A4>::new(stack, memory(1)).unwrap();
        let result = stack.block_on(other.read(0, &mut data), |_| {
            assert!(supervisor.as_mut().poll(&mut context).is_pending());
        });
        assert_eq!(result, Ok(()), "the card is given up because a future was dropped");
    }
}

#[test]
fn while_the_runner_of_a_bus_is_needed() {
    for copies in [true, false] {
        let _alone = tasks::exclusive();
        let world = World::new("sdhc-16g-hs");
        let below = world.stack();
        let mut buffer = Aligned::<A4, _>([0u8; 4096]);
        let mailbox = Mailbox::new(&mut buffer);
        let (host, mut runner) = mailbox.connect(Bus::new(below, memory(8))).unwrap();
        let timer = Timer { now_ns, set_alarm: |_| {} };
        let stack: Stack<(CriticalSection, _), 8> = Stack::new(CriticalSection, timer, host, Config::DEFAULT);
        let mut context = Context::from_waker(Waker::noop());
        let mut run = pin!(runner.run(&stack));
        let mut step = || {
            below.turn();
            let _: Poll<_> = run.as_mut().poll(&mut context);
        };
        let (card, _) = stack.block_on(bring_up_sd(&stack, memory(1), Options::DEFAULT), |_| step());
        card.unwrap();
        let mut disk = Disk::new(&stack, memory(1)).unwrap();
        let mut data = [Aligned([0; 512])];
        let call = begun(&mut disk, &mut data, copies);
        // The runner has begun the work.
        step();
        let began_ns = world.time.now();
        drop(call);
        assert_eq!(world.time.now(), began_ns, "the drop waited");
        let mut other = Disk::<_, 8, A4>::new(&stack, memory(1)).unwrap();
        let result = stack.block_on(other.read(0, &mut data), |_| step());
        assert_eq!(result, Ok(()), "the bus is dead because a future was dropped");
    }
}

#[test]
fn while_the_engine_is_halted() {
    for copies in [true, false] {
        let _alone = tasks::exclusive();
        // This test is about a drop that never returns.
        let _alive = watchdog::watch();
        let world = World::new("sdhc-16g-hs");
        let stack = world.stack();
        stack.block_on(bring_up(stack, memory(1), Options::DEFAULT), |_| {}).0.unwrap();
        let mut disk = Disk::new(stack, memory(1)).unwrap();
        let mut data = [Aligned([0; 512])];
        stack.with(|engine| engine.halt());
        drop(begun(&mut disk, &mut data, copies));
    }
}

/// Tests calls of a bus that are dropped at any moment, such as while the bus changes or between
/// the data and their CMD12: the buffer comes back, and the card works.
#[test]
fn a_call_of_a_bus_at_any_moment() {
    for polls in 1..200 {
        let _alone = tasks::exclusive();
        let world = World::new("sdhc-16g-hs");
        let stack = world.stack();
        stack.block_on(bring_up_sd(stack, memory(1), Options::DEFAULT), |_| {}).0.unwrap();
        let mut bus = Bus::new(stack, memory(8)).at_most(mmcq::host::Width::W4);
        let mut data = [Aligned([0; 512]), Aligned([0; 512])];
        bus.set_bus(BusWidth::W4, 25_000_000).unwrap();
        let mut ended = false;
        {
            let mut call = pin!(bus.read_blocks(read_multiple_blocks(0, &mut data), true));
            for _ in 0..polls {
                ended = call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
                if ended {
                    break;
                }
                stack.turn();
            }
        }
        for _ in 0..100 {
            stack.turn();
        }
        let again = stack.block_on(bus.read_blocks(read_multiple_blocks(0, &mut data), true), |_| {});
        assert!(again.is_ok(), "dropped after {polls} polls: {:?}", again.err());
        if ended {
            return;
        }
    }
    panic!("never ended");
}
