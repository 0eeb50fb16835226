//! Tests of an I/O card, with embassy's driver on a host of mmcq, and with mmcq's driver on any
//! bus. The card interrupt signals packets.

use crate::{tasks, world};
use aligned::{A4, Aligned};
use embassy_time::Delay;
use mmcq::card::{Options, bring_up_io};
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::Width;
use mmcq::sdio::bluetooth::{self, TypeA};
use mmcq::sdio::{CardInterrupt, Chain, Function, IoError};
use mmcq::task::Stack;
use mmcq_embassy::{Bus, Clock, CriticalSection, Mailbox};
use mmcq_sim::card::io::{IoProfile, type_a};
use mmcq_sim::slot::Controller;
use sdio::sdio::SdioCard;
use std::cell::Cell;
use tasks::{Hanging, MockTime, drive, exclusive, join};
use world::World;

const PACKETS: u64 = 10;
const HEADER: usize = bluetooth::HEADER_BYTES as usize;

fn memory(bytes: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; bytes.div_ceil(8)].into_boxed_slice());
    // SAFETY: the bytes are the memory of the words, and no more.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) })
}

fn world() -> (World, type_a::Handle) {
    let profile = IoProfile::from_toml(mmcq_sim::cards::named("bt-type-a").unwrap(), "bt-type-a").unwrap();
    let (card, mut handles) = profile.build();
    (World::with(Box::new(card)), handles.remove(0).1)
}

fn checked(world: &World, handle: &type_a::Handle) {
    let counts = handle.borrow();
    assert!(counts.delivered >= PACKETS, "{} delivered", counts.delivered);
    assert_eq!((counts.overrun, counts.retried, counts.stray), (0, 0, 0));
    assert!(world.memory.violations().is_empty());
    assert_eq!(world.model.borrow().protocol_violations(), 0);
}

#[test]
fn embassy_s_own_io_driver_runs_over_our_host() {
    /// FIFO register of a Bluetooth Type-A function.
    const DATA: u32 = 0x00;
    const READ_RETRY: u32 = 0x10;
    /// Interrupt register of the function.
    const INTERRUPT: u32 = 0x13;
    const INTERRUPT_ENABLE: u32 = 0x14;
    let _alone = exclusive();
    let (world, handle) = world();
    let stack = world.stack_with(Clock::<0>::TIMER);
    let bus = Bus::new(stack, memory(4096)).at_most(Width::W4);
    drive(&world, stack, [Box::pin(async { Clock::<0>::run(stack).await })], async {
        let mut card = SdioCard::new(bus, Delay, 50_000_000).await.expect("an I/O card");
        assert_eq!(card.freq(), 50_000_000);
        card.enable_functions(1 << 1).await.unwrap();
        card.set_block_size(1, 512).await.unwrap();
        card.enable_interrupts(1 << 1).await.unwrap();
        card.cmd52_write(1, INTERRUPT_ENABLE, 1).await.unwrap();
        for number in 0..PACKETS {
            card.wait_for_event().await.unwrap();
            assert_eq!(card.cmd52_read(1, INTERRUPT).await.unwrap() & 1, 1, "an interrupt for nothing");
            card.cmd52_write(1, INTERRUPT, 1).await.unwrap();
            let mut header = Aligned::<A4, _>([0u8; HEADER]);
            card.cmd53_read_bytes(1, false, DATA, &mut header).await.unwrap();
            let sent = type_a::packet(number, 2048);
            assert_eq!(header[..], sent[..HEADER], "packet {number}");
            let mut payload = vec![Aligned::<A4, _>([0u8; 512]); 4];
            card.cmd53_read_blocks::<512>(1, false, DATA, &mut payload).await.unwrap();
            let got: Vec<u8> = payload.iter().flat_map(|block| block.iter().copied()).collect();
            assert!(got == sent[HEADER..], "packet {number}: other data than sent");
            card.cmd52_write(1, READ_RETRY, 0).await.unwrap();
        }
    });
    checked(&world, &handle);
}

#[test]
fn our_function_driver_runs_over_any_bus() {
    let _alone = exclusive();
    let (world, handle) = world();
    let below = world.stack_with(Clock::<1>::TIMER);
    let mut buffer = Aligned::<A4, _>([0u8; 2048]);
    let mailbox = Mailbox::new(&mut buffer);
    let (host, mut runner) = mailbox.connect(Bus::new(below, memory(2048))).unwrap();
    let stack: Stack<(CriticalSection, _), 4> =
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
            let card = bring_up_io(&stack, memory(512), Options::DEFAULT).await.0.expect("an I/O card");
            let mut irq = CardInterrupt::new(&stack, &card);
            let mut function = Function::new(&stack, &card, 1).unwrap();
            // An `MmcBus` has a type for each block length, so it does not support every length.
            let refused = function.set_block_size(96).await;
            assert!(matches!(refused, Err(IoError::OddBlockSize { bytes: 96, .. })), "{refused:?}");
            let bluetooth = TypeA::open(function, &mut irq, 512).await.unwrap();
            let mut buf = memory(2048);
            for number in 0..PACKETS {
                let result;
                (result, buf) = bluetooth.receive(&mut irq, buf).await;
                let got = result.unwrap_or_else(|error| panic!("packet {number}: {error}"));
                let sent = type_a::packet(number, 2048);
                assert_eq!(got.bytes as usize, sent.len() - HEADER);
                assert!(buf[..] == sent[HEADER..], "packet {number}: other data than sent");
            }
        },
    );
    checked(&world, &handle);
}

/// Tests a bus without card interrupt, whose wait for the interrupt fails at once each time: the
/// card is polled at intervals, also if the bus carries commands with pauses of `pause_ns`. `None`:
/// no commands.
fn ten_looks(pause_ns: Option<u64>) {
    let _alone = exclusive();
    let (world, _handle) = world();
    let below = world.stack_with(Clock::<1>::TIMER);
    let mut buffer = Aligned::<A4, _>([0u8; 2048]);
    let mailbox = Mailbox::new(&mut buffer);
    let bus = Hanging::new(Bus::new(below, memory(2048)));
    bus.deaf.set(true);
    let (host, mut runner) = mailbox.connect(bus).unwrap();
    let stack: Stack<(CriticalSection, _), 4> =
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
            let card = bring_up_io(&stack, memory(512), Options::DEFAULT).await.0.expect("an I/O card");
            let function = Function::new(&stack, &card, 1).unwrap();
            function.enable().await.unwrap();
            let mut irq = CardInterrupt::new(&stack, &card);
            irq.enable(1).await.unwrap();
            let began = MockTime::now();
            let took_ms = || (MockTime::now() - began).as_millis();
            let looks = Cell::new(0);
            let listen = async {
                while looks.get() < 10 {
                    irq.wait().await.unwrap();
                    irq.pending().await.unwrap();
                    irq.ack();
                    looks.set(looks.get() + 1);
                }
            };
            let command = async {
                let Some(pause_ns) = pause_ns else { return };
                while looks.get() < 10 {
                    function.read_u8(0x13, Chain::Last).await.unwrap();
                    if pause_ns > 0 {
                        stack.pause(pause_ns).await.unwrap();
                    }
                    assert!(took_ms() < 500, "{} looks in half a second, {pause_ns:?}", looks.get());
                }
            };
            join(listen, command).await;
            assert!((90..200).contains(&took_ms()), "{} ms for ten looks, {pause_ns:?}", took_ms());
        },
    );
}

#[test]
fn a_bus_that_does_not_tell_of_the_interrupt_is_no_storm() {
    ten_looks(None);
}

#[test]
fn commands_do_not_put_off_the_looks_at_the_interrupt() {
    ten_looks(Some(2_000_000));
    ten_looks(Some(0));
}
