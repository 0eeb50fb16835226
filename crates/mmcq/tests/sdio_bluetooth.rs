//! Tests of the card interrupt and of the Bluetooth Type-A driver: no packet is lost, whichever
//! future is dropped and whenever packets come.

use crate::{fuzz, io_card, io_drive, one_thread};
use io_card::World;
use io_drive::{Here, Stack, irq_waker, memory, packet, poll_once, run, settle, stack, step};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::{self, DmaBuf};
use mmcq::host::Cause;
use mmcq::sdio::bluetooth::{PACKET_BYTES_MAX, Packet, RETRIES, TypeA};
use mmcq::sdio::{CardInterrupt, Chain, Function, IoError};
use mmcq::task::IrqTask;
use one_thread::{NOW_NS, OneThread};
use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;

fn brought_up(functions: u8) -> (Rc<RefCell<World>>, &'static Stack<4>, IoCard) {
    let world = World::new(functions);
    // Leaked, so that boxed futures may borrow it.
    let stack: &'static Stack<4> = Box::leak(Box::new(stack::<4>(&world)));
    let (card, _) = run(stack, bring_up_io(stack, memory(512), Options::DEFAULT));
    (world, stack, card.unwrap())
}

type Irq = CardInterrupt<'static, (OneThread, io_card::IoHost), 4>;
type Bluetooth = TypeA<'static, (OneThread, io_card::IoHost), 4>;

fn opened(functions: u8) -> (Rc<RefCell<World>>, &'static Stack<4>, Irq, Bluetooth) {
    let (world, stack, card) = brought_up(functions);
    let mut irq = CardInterrupt::new(stack, &card);
    let bluetooth = run(stack, TypeA::open(Function::new(stack, &card, 1).unwrap(), &mut irq, 512)).unwrap();
    (world, stack, irq, bluetooth)
}

fn arrives(world: &Rc<RefCell<World>>, kind: u8, payload: &[u8]) {
    world.borrow_mut().type_a.incoming.push_back(packet(kind, payload));
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 253) as u8).collect()
}

#[test]
fn a_packet_takes_its_steps_and_no_more() {
    let (world, stack, mut irq, bluetooth) = opened(2);
    let payload = bytes(2044);
    for both in [false, true] {
        if both {
            run(stack, irq.enable(2)).unwrap();
            assert_eq!((irq.enabled(), world.borrow().f0[4]), (6, 7));
        }
        arrives(&world, 2, &payload);
        let from = world.borrow().log.len();
        let listened = world.borrow().listened;
        let (result, buf) = run(stack, bluetooth.receive(&mut irq, memory(4096)));
        assert_eq!(result, Ok(Packet { kind: 2, bytes: 2044 }));
        assert_eq!(buf[..2044], payload);
        let mut steps = vec![
            (52, 1, 0x13, false),
            (52, 1, 0x13, true),
            (53, 1, 0, false),
            // 2044 bytes are three blocks and a remainder.
            (53, 1, 0, false),
            (53, 1, 0, false),
            (52, 1, 0x10, true),
        ];
        // If only one function may interrupt, INTx is not read.
        if both {
            steps.insert(0, (52, 0, 5, false));
        }
        assert_eq!(world.borrow().accesses(from), steps);
        assert_eq!(world.borrow().listened, listened + 1, "unmasked once, at the end");
    }
    run(stack, irq.disable(1)).unwrap();
    run(stack, irq.disable(2)).unwrap();
    assert_eq!((world.borrow().f0[4], irq.enabled()), (0, 0));
    assert!(matches!(run(stack, irq.enable(8)), Err(IoError::NoFunction { .. })));
    assert!(matches!(run(stack, irq.enable(0)), Err(IoError::NoFunction { .. })));
}

#[test]
fn sending_and_sending_again() {
    let (world, stack, _, bluetooth) = opened(1);
    let payload = bytes(1000);
    for failures in [0, 2] {
        let nth = world.borrow().data_phases;
        // A packet of 1004 bytes goes in two pieces; a failed first piece is followed by no second.
        for failure in 0..failures {
            world.borrow_mut().faults.insert(nth + failure, Cause::Crc);
        }
        let mut buf = memory(1008);
        buf[4..1004].copy_from_slice(&payload);
        let (result, buf) = run(stack, bluetooth.transmit(1, 1000, buf));
        assert_eq!((result, buf.len_bytes()), (Ok(()), 1008));
        assert_eq!(world.borrow_mut().type_a.sent.pop(), Some(packet(1, &payload)));
        assert_eq!(world.borrow().type_a.write_retries, failures);
    }
    let nth = world.borrow().data_phases;
    for failure in 0..=u32::from(RETRIES) {
        world.borrow_mut().faults.insert(nth + failure, Cause::Timeout);
    }
    let (result, _) = run(stack, bluetooth.transmit(1, 1000, memory(1004)));
    assert!(matches!(result, Err(IoError::Engine(engine::Error::Host(_)))), "{result:?}");
    for (payload, given) in [(1000, 1003), (PACKET_BYTES_MAX, 70_000), (u32::MAX, 64), (1, 3)] {
        let (result, _) = run(stack, bluetooth.transmit(1, payload, memory(given)));
        assert!(matches!(result, Err(IoError::Packet { .. })), "{payload}: {result:?}");
    }
    assert_eq!(world.borrow().type_a.sent.len(), 0);
}

#[test]
fn a_broken_packet_is_asked_for_again() {
    let (world, stack, mut irq, bluetooth) = opened(1);
    arrives(&world, 4, &bytes(100));
    let nth = world.borrow().data_phases;
    // The header is damaged first, then the payload.
    world.borrow_mut().faults.extend([(nth, Cause::Crc), (nth + 2, Cause::Crc)]);
    let (result, buf) = run(stack, bluetooth.receive(&mut irq, memory(256)));
    assert_eq!((result, &buf[..100]), (Ok(Packet { kind: 4, bytes: 100 }), &bytes(100)[..]));
    assert_eq!((world.borrow().type_a.retries, world.borrow().type_a.given_up), (2, 0));
}

#[test]
fn a_packet_that_never_gets_better_is_given_up() {
    for (header, payload) in
        [(packet(9, &[1; 8]), 8), (packet(2, &[]), 0), (vec![3, 0, 0, 2], 0), (vec![0xff, 0xff, 0xff, 2], 0)]
    {
        let (world, stack, mut irq, bluetooth) = opened(1);
        let garbled = [header, vec![0; payload]].concat();
        world.borrow_mut().type_a.incoming.push_back(garbled);
        arrives(&world, 2, b"good");
        let (result, buf) = run(stack, bluetooth.receive(&mut irq, memory(64)));
        assert!(matches!(result, Err(IoError::Packet { max_bytes: 68, .. })), "{result:?}");
        assert_eq!(world.borrow().type_a.retries, u32::from(RETRIES));
        let (result, buf) = run(stack, bluetooth.receive(&mut irq, buf));
        assert_eq!((result, &buf[..4]), (Ok(Packet { kind: 2, bytes: 4 }), &b"good"[..]));
    }
    // A packet that is larger than the buffer.
    let (world, stack, mut irq, bluetooth) = opened(1);
    arrives(&world, 2, &[5; 65]);
    let (result, _) = run(stack, bluetooth.receive(&mut irq, memory(64)));
    let error = result.unwrap_err();
    assert_eq!(error, IoError::Packet { bytes: 69, max_bytes: 68, kind: 2 });
    assert_eq!(error.to_string(), "a packet of type 2 with 69 bytes, expected at most 68");
}

#[test]
fn receiving_may_be_dropped_at_every_poll() {
    for polls in 0.. {
        let (world, stack, mut irq, bluetooth) = opened(1);
        arrives(&world, 2, b"first");
        let mut finished = false;
        {
            let mut receive = pin!(bluetooth.receive(&mut irq, memory(64)));
            for _ in 0..polls {
                if let Some((result, _)) = poll_once(receive.as_mut()) {
                    assert_eq!(result, Ok(Packet { kind: 2, bytes: 5 }));
                    finished = true;
                    break;
                }
                step(stack);
            }
        }
        settle(stack);
        // If the packet was not acknowledged before the future was dropped, the card still has it
        // and reports it again.
        let first_left = world.borrow().type_a.incoming.len();
        arrives(&world, 2, b"second");
        let mut buf = memory(64);
        for expected in [&b"first"[..], b"second"].into_iter().skip(1 - first_left) {
            let result;
            (result, buf) = run(stack, bluetooth.receive(&mut irq, buf));
            assert_eq!(result.map(|p| p.bytes), Ok(expected.len() as u32), "after {polls} polls");
            assert_eq!(&buf[..expected.len()], expected);
        }
        assert_eq!((world.borrow().type_a.incoming.len(), world.borrow().type_a.given_up), (0, 0));
        if finished {
            assert!(polls > 5);
            return;
        }
    }
}

#[test]
fn the_level_stays_until_it_is_acknowledged() {
    let (world, stack, card) = brought_up(2);
    let mut irq = CardInterrupt::new(stack, &card);
    world.borrow_mut().asserts = 4;
    assert!(poll_once(pin!(irq.wait())).is_none(), "no function may interrupt yet");
    run(stack, irq.enable(2)).unwrap();
    run(stack, irq.wait()).unwrap();
    // The interrupt stays pending until it is acknowledged, so the next wait finds it at once.
    assert!(poll_once(pin!(irq.wait())).is_some());
    assert!(!step(stack), "masked");
    assert_eq!(run(stack, irq.pending()), Ok(4));
    irq.ack();
    run(stack, irq.wait()).unwrap();
    world.borrow_mut().asserts = 0;
    irq.ack();
    assert!(poll_once(pin!(irq.wait())).is_none());
    // An acknowledgement without an interrupt does nothing.
    let listened = world.borrow().listened;
    irq.ack();
    assert_eq!(world.borrow().listened, listened);
}

#[test]
fn no_interrupt_is_lost_in_any_interleaving() {
    fuzz::fuzz("no_interrupt_is_lost_in_any_interleaving", 600, |u| {
        let (world, stack, card) = brought_up(3);
        let mut irq = CardInterrupt::new(stack, &card);
        let two = Function::new(stack, &card, 2).unwrap();
        let may: u8 = *u.choose(&[4, 12])?;
        for function in 2..=3 {
            if may & 1 << function != 0 {
                run(stack, irq.enable(function)).unwrap();
            }
        }
        let mut served = [0u32; 2];
        let mut raised = [0u32; 2];
        let mut turns = 0;
        while turns < 40 || world.borrow().asserts & may != 0 {
            turns += 1;
            assert!(turns < 2000, "an interrupt is lost: {:#x} is asserted", world.borrow().asserts);
            // Serves one interrupt, or is dropped after some events.
            let patience = if turns < 40 { u.int_in_range(0..=8)? } else { 100 };
            let mut serve: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async {
                irq.wait().await.unwrap();
                let pending = irq.pending().await.unwrap();
                for function in 2..=3u8 {
                    if pending & world.borrow().asserts & 1 << function != 0 {
                        two.write_u8(8, 1, Chain::More).await.unwrap();
                        world.borrow_mut().asserts &= !(1 << function);
                        served[usize::from(function) - 2] += 1;
                    }
                }
                irq.ack();
            });
            for _ in 0..patience {
                if poll_once(serve.as_mut()).is_some() {
                    break;
                }
                if turns < 40 && u.ratio(1, 3)? {
                    let function = u.int_in_range(2..=3u8)?;
                    let mut world = world.borrow_mut();
                    raised[usize::from(function) - 2] += u32::from(world.asserts & 1 << function == 0);
                    world.asserts |= 1 << function;
                }
                step(stack);
            }
        }
        let left = world.borrow().asserts;
        for place in 0..2 {
            assert_eq!(served[place] + u32::from(left >> (place + 2) & 1), raised[place]);
        }
        Ok(())
    });
}

#[test]
fn the_driver_runs_in_the_interrupt() {
    let (world, stack, mut irq, bluetooth) = opened(1);
    let task = IrqTask::new(OneThread);
    let waker = irq_waker(&task);
    let received = RefCell::new(Vec::new());
    let driver = Here(async {
        let mut buf: DmaBuf = memory(4096);
        loop {
            let result;
            (result, buf) = bluetooth.receive(&mut irq, buf).await;
            received.borrow_mut().push((NOW_NS.get(), result.unwrap().bytes));
        }
    });
    task.scope(driver, &waker, || {
        for n in 1..=20 {
            arrives(&world, 2, &bytes(100 * n));
            let phases = stack.with(|engine| engine.stats().phases);
            let began_ns = NOW_NS.get();
            // Only the interrupt polls: every step is started in the call that ended the one
            // before.
            while received.borrow().len() < n {
                assert!(step(stack));
            }
            let (_, came) = received.borrow()[n - 1];
            assert_eq!(came, 100 * n as u32);
            let steps = stack.with(|engine| engine.stats().phases) - phases;
            assert!((5..=9).contains(&steps), "{steps} phases");
            let wire_ns = steps * (112 * 20 + 1_000) + (200 * n as u64 + 200) * 20;
            assert!(NOW_NS.get() - began_ns <= wire_ns, "no time between the phases");
        }
    });
    settle(stack);
    assert_eq!(stack.with(|engine| engine.stats().spurious), 0);
}
