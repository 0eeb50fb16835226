//! Tests of I/O cards: bring-up, invalid tuples, functions, splitting of transfers, sharing of the
//! bus.

use crate::{fuzz, io_card, io_drive, one_thread, sdio_split};
use io_card::{World, caps, function_tuple};
use io_drive::{Stack, memory, poll_once, reclaimed, run, settle, stack, step};
use mmcq::block::BlockDevice;
use mmcq::card::quirk::Quirks;
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::{self, Config};
use mmcq::host::{BlockSizes, Caps, Cause, Timing, Width};
use mmcq::sdio::cccr::Cccr;
use mmcq::sdio::cis::{CisFault, Walker};
use mmcq::sdio::fbr::Fbr;
use mmcq::sdio::{At, Chain, Function, IoError, Refusal, Split};
use one_thread::NOW_NS;
use sdio_split::oracle;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

fn brought_up<const N: usize>(world: &Rc<RefCell<World>>) -> (Stack<N>, IoCard) {
    let stack = stack::<N>(world);
    let (card, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    (stack, card.unwrap())
}

#[test]
fn a_card_with_three_functions() {
    let world = World::new(3);
    let (_, card) = brought_up::<4>(&world);
    assert_eq!((card.count(), card.rca, card.memory), (3, 0xb368, None));
    assert_eq!(card.manufacturer().map(|m| (m.vendor, m.product)), Some((0x0292, 0x4321)));
    assert_eq!((card.timing, card.width, card.clock_hz), (Timing::HighSpeed, Width::W4, 50_000_000));
    let second = card.function(2).unwrap();
    assert_eq!((second.fbr.class, second.extension.max_block_bytes), (7, 512));
    assert_eq!(second.manufacturer, card.manufacturer());
    assert!(card.function(0).is_none() && card.function(4).is_none() && card.function(8).is_none());
    let world = world.borrow();
    // Four lines, the pull-up at DAT3 disconnected; high speed; asynchronous interrupt.
    assert_eq!((world.f0[7], world.f0[0x13], world.f0[0x16]), (0x82, 3, 3));
    assert_eq!(world.bus, (Timing::HighSpeed, Width::W4, 50_000_000, false));
    assert!(world.log.iter().all(|(_, command)| command.index != 13), "I/O cards do not know CMD13");
}

#[test]
fn uhs_with_tuning_and_what_is_left_without() {
    let world = World::new(1);
    {
        let mut world = world.borrow_mut();
        (world.caps.signal18, world.s18a) = (true, true);
    }
    let (_, card) = brought_up::<4>(&world);
    assert_eq!((card.timing, card.clock_hz), (Timing::Sdr104, 208_000_000));
    assert_eq!(world.borrow().f0[0x13] & 0x0e, 3 << 1);
    assert_eq!(world.borrow().bus, (Timing::Sdr104, Width::W4, 208_000_000, true));

    // No sampling point is found, so SDR104 is left out. SDR50 is used without tuning, because the
    // host does not require tuning for it.
    world.borrow_mut().tuning_blocks = None;
    let (_, card) = brought_up::<4>(&world);
    assert_eq!((card.timing, world.borrow().f0[0x13] & 0x0e), (Timing::Sdr50, 2 << 1));

    // If the host requires tuning for SDR50, this mode is left out too. DDR50 needs no tuning.
    world.borrow_mut().caps.timings |= Caps::SDR50_TUNED;
    let (_, card) = brought_up::<4>(&world);
    assert_eq!((card.timing, world.borrow().f0[0x13] & 0x0e), (Timing::Ddr50, 4 << 1));
}

#[test]
fn a_low_speed_card_stays_slow_and_narrow() {
    let world = World::new(1);
    world.borrow_mut().f0[8] |= 0x40;
    let (_, card) = brought_up::<4>(&world);
    assert_eq!((card.timing, card.width, card.clock_hz), (Timing::Legacy, Width::W1, 400_000));
    // The resistor by which a card on one line is detected stays; on four lines it goes.
    assert!(!card.async_interrupt && world.borrow().f0[7] == 0);
    world.borrow_mut().f0[8] |= 0x80;
    assert_eq!(brought_up::<4>(&world).1.width, Width::W4);
}

#[test]
fn a_combo_card_has_both() {
    let world = World::new(2);
    world.borrow_mut().medium = Some(vec![0; 64 * 512]);
    let (stack, card) = brought_up::<4>(&world);
    let card_memory = card.memory.unwrap();
    assert_eq!((card_memory.timing, card_memory.width), (Timing::HighSpeed, Width::W4));
    assert_eq!((card.timing, card.count()), (Timing::HighSpeed, 2));
    let device = BlockDevice::new(&stack);
    let mut buf = memory(1024);
    buf.fill(7);
    let (written, buf) = run(&stack, device.write(5, buf));
    assert_eq!(written, Ok(2));
    assert_eq!(run(&stack, device.read(5, buf)).0, Ok(2));
    let function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    assert_eq!(run(&stack, function.write_read_u8(9, 0x42, Chain::Last)), Ok(0x42));
}

/// Tests a combo card whose memory stays on one data line: the I/O part then also uses one line.
#[test]
fn a_combo_card_is_as_narrow_as_its_memory() {
    for answers in [true, false] {
        let world = World::new(2);
        world.borrow_mut().medium = Some(vec![0; 64 * 512]);
        world.borrow_mut().refuses_width = Some(answers);
        let (stack, card) = brought_up::<4>(&world);
        assert_eq!((card.width, card.memory.unwrap().width), (Width::W1, Width::W1), "{answers}");
        assert_eq!((world.borrow().bus.1, world.borrow().f0[7] & 3), (Width::W1, 0), "{answers}");
        assert_eq!(run(&stack, BlockDevice::new(&stack).read(5, memory(1024))).0, Ok(2));
    }
}

#[test]
fn no_card_and_cards_of_other_kinds() {
    let world = World::new(1);
    world.borrow_mut().absent = true;
    let stack = stack::<4>(&world);
    let before_ns = NOW_NS.get();
    let (none, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    assert_eq!(none.unwrap_err(), IoError::Engine(engine::Error::NoCard));
    assert!(NOW_NS.get() - before_ns < 250_000_000);
    {
        let mut world = world.borrow_mut();
        (world.absent, world.powering) = (false, u32::MAX);
    }
    let before_ns = NOW_NS.get();
    let (never, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    assert!(matches!(never.unwrap_err(), IoError::Engine(engine::Error::Protocol(_))));
    assert!(NOW_NS.get() - before_ns < 1_500_000_000);
    world.borrow_mut().functions = 0;
    let (none, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    assert!(matches!(none.unwrap_err(), IoError::Engine(engine::Error::Protocol(_))));
}

/// Brings up a card whose registers `tamper` has changed. Returns the error, and the virtual time
/// that bring-up took.
fn hostile(low_speed: bool, tamper: impl FnOnce(&mut World)) -> (IoError, u64) {
    let world = World::new(2);
    if low_speed {
        world.borrow_mut().f0[8] |= 0x40;
    }
    tamper(&mut world.borrow_mut());
    let stack = stack::<4>(&world);
    let before_ns = NOW_NS.get();
    let (result, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    assert_eq!(stack.with(|engine| engine.slots_in_use()), 0);
    (result.unwrap_err(), NOW_NS.get() - before_ns)
}

#[test]
fn hostile_tuples_end_soon_and_clearly() {
    type Tamper = fn(&mut World);
    let cases: [(&str, Tamper, &str); 10] = [
        ("link ff", |w| w.put(0x2100, &[0x22, 0xff]), "CIS of function 1, tuple 0x22 at 0x02100"),
        ("block size 0", |w| w.put(0x2100, &function_tuple(0, 1)), "tuple 0x22 at 0x02100"),
        ("padding without end", |w| w.f0[0x1000..].fill(0), "tuple 0x00 at 0x013ff"),
        ("empty tuples", |w| w.put(0x1000, &[0x81, 0].repeat(1000)), "tuple 0x81 at 0x01080"),
        ("long texts", |w| w.put(0x1000, &[0x15, 254].repeat(9000)), "tuple 0x15 at"),
        ("link to itself", |w| w.put(0x1000, &[0x12, 4, 0, 0x10, 0, 0]), "tuple 0x12 at 0x01000"),
        ("pointer to the CCCR", |w| w.put(9, &[0, 0, 0]), "tuple 0x00 at 0x00000"),
        ("pointer to the FBR", |w| w.put(0x109, &[0, 1, 0]), "CIS of function 1, tuple 0x00 at 0x00100"),
        ("pointer to nowhere", |w| w.put(0x209, &[0xff; 3]), "CIS of function 2, tuple 0x00 at 0xffffff"),
        (
            "wraps",
            |w| {
                w.put(0x109, &[0xf0, 0x7f, 1]);
                w.put(0x1_7ff0, &[0x80, 0x20]);
            },
            "CIS of function 1, tuple 0x80 at 0x17ff0: leaves 0x01000 to 0x17fff",
        ),
    ];
    for low_speed in [false, true] {
        for (name, tamper, says) in cases {
            let (error, took_ns) = hostile(low_speed, tamper);
            assert!(matches!(error, IoError::Cis(_)), "{name}: {error:?}");
            assert!(error.to_string().contains(says), "{name}: {error}");
            // A chain has 1024 bytes at most.
            assert!(took_ns < 500_000_000, "{name}: {took_ns} ns");
        }
    }
}

/// Gives the card seven functions whose chains of tuples are just below every limit: 61 tuples with
/// texts in each.
fn long_chains(world: &mut World) {
    world.functions = 7;
    for number in 1..=7u32 {
        let chain =
            [[0x15, 12, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9].repeat(61), function_tuple(64, 1), vec![255]];
        world.put(0x100 * number + 9, &(0x4000 + 0x1000 * number).to_le_bytes()[..3]);
        world.put(0x4000 + 0x1000 * number, &chain.concat());
    }
}

#[test]
fn tuples_have_as_much_time_as_linux_gives_each_chain() {
    let world = World::new(7);
    world.borrow_mut().f0[8] |= 0x40;
    long_chains(&mut world.borrow_mut());
    let (_, card) = brought_up::<4>(&world);
    assert_eq!(card.count(), 7);
    // A slow host: 9 ms for a byte are in time for 900 of them, 20 ms are not.
    for (host_ns, well) in [(9_000_000, true), (20_000_000, false)] {
        world.borrow_mut().host_ns = host_ns;
        let stack = stack::<4>(&world);
        let before_ns = NOW_NS.get();
        let (result, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
        let took_ns = NOW_NS.get() - before_ns;
        match result {
            Ok(_) => assert!(well && took_ns < 8 * 10_000_000_000, "{took_ns} ns"),
            Err(error) => {
                assert!(!well && matches!(error, IoError::Cis(e) if e.fault == CisFault::Time), "{error}");
                assert!(took_ns < 12_000_000_000, "{took_ns} ns");
            }
        }
    }
}

#[test]
fn a_card_whose_last_tuple_has_link_ff_comes_up() {
    let world = World::new(1);
    world.borrow_mut().put(0x2100, &[&function_tuple(512, 10)[..], &[0x80, 0xff]].concat());
    assert_eq!(brought_up::<4>(&world).1.count(), 1);
}

#[test]
fn a_block_is_no_longer_than_the_host_can_move() {
    let world = World::new(2);
    world.borrow_mut().put(0x2200, &function_tuple(2048, 10));
    world.borrow_mut().caps.max_block_bytes = 512;
    let (stack, card) = brought_up::<4>(&world);
    let mut function = Function::new(&stack, &card, 2).unwrap();
    let refused = run(&stack, function.set_block_size(1024)).unwrap_err();
    assert_eq!(refused, IoError::BlockSize { function: 2, bytes: 1024, max_bytes: 512 });
    run(&stack, function.set_block_size(512)).unwrap();
    world.borrow_mut().caps.max_block_bytes = 2048;
    let (stack, card) = brought_up::<4>(&world);
    let mut function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.set_block_size(1024)).unwrap();
}

/// Tests the time limit of long blocks on a slow card: on one line at 400 kHz such a block takes 41
/// ms.
#[test]
fn long_blocks_of_a_slow_card_have_the_time_that_they_need() {
    let world = World::new(2);
    {
        let mut world = world.borrow_mut();
        world.f0[8] |= 0x40;
        world.put(0x2200, &function_tuple(2048, 10));
        (world.caps.max_bytes, world.caps.max_segment_bytes) = (1 << 20, 1 << 20);
    }
    let (stack, card) = brought_up::<4>(&world);
    let mut function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    run(&stack, function.set_block_size(2048)).unwrap();
    let bytes = 60 * 2048;
    let before_ns = NOW_NS.get();
    let (result, _) = run(&stack, function.read(At::From(0), bytes, memory(bytes as usize), Chain::Last));
    assert_eq!(result, Ok(()));
    assert!(NOW_NS.get() - before_ns > 2_400_000_000, "{}", NOW_NS.get() - before_ns);
    assert_eq!(world.borrow().data_phases, 1);
}

#[test]
fn refusals_have_names() {
    let world = World::new(2);
    let (stack, card) = brought_up::<4>(&world);
    assert_eq!(
        Function::new(&stack, &card, 3).err().unwrap(),
        IoError::NoFunction { function: 3, functions: 2 }
    );
    let mut function = Function::new(&stack, &card, 2).unwrap();
    world.borrow_mut().flags = 0x0100;
    let refused = run(&stack, function.read_u8(0x77, Chain::Last)).unwrap_err();
    assert_eq!(refused, IoError::Refused { function: 2, addr: 0x77, why: Refusal::OutOfRange });
    assert_eq!(refused.to_string(), "function 2, register 0x00077: the card refuses: argument out of range");
    // A read of a function that is not enabled.
    let (result, buf) = run(&stack, function.read(At::From(0), 10, memory(64), Chain::Last));
    assert_eq!(result, Err(IoError::Refused { function: 2, addr: 0, why: Refusal::General }));
    assert_eq!(buf.len_bytes(), 64);
    assert_eq!(world.borrow().accesses(0).last(), Some(&(52, 0, 6, true)), "aborted");

    world.borrow_mut().never_ready = 1 << 2;
    let before_ns = NOW_NS.get();
    let late = run(&stack, function.enable()).unwrap_err();
    assert_eq!(late, IoError::NotReady { function: 2, limit_ns: 100_000_000 });
    assert!((100_000_000..110_000_000).contains(&(NOW_NS.get() - before_ns)));
    world.borrow_mut().never_ready = 0;
    run(&stack, function.enable()).unwrap();
    run(&stack, function.reset()).unwrap();
    run(&stack, function.disable()).unwrap();
    assert_eq!(world.borrow().f0[2], 0);

    for bytes in [0, 513] {
        let error = run(&stack, function.set_block_size(bytes)).unwrap_err();
        assert_eq!(error, IoError::BlockSize { function: 2, bytes, max_bytes: 512 });
    }
    let sent = world.borrow().log.len();
    for (at, bytes) in
        [(At::From(0x1_fff0), 17), (At::Fifo(0x2_0000), 1), (At::Fifo(0), 0), (At::Fifo(0), 65)]
    {
        let (result, _) = run(&stack, function.write(at, bytes, memory(64), Chain::Last));
        assert!(matches!(result, Err(IoError::Range { .. })), "{at:?} {bytes}: {result:?}");
    }
    assert!(matches!(run(&stack, function.read_u8(1 << 17, Chain::Last)), Err(IoError::Range { .. })));
    assert_eq!(world.borrow().log.len(), sent, "nothing was sent");
}

#[test]
fn a_block_size_that_the_controller_cannot_move_is_refused_and_nothing_is_sent() {
    for sizes in [BlockSizes::PowersOfTwo, BlockSizes::PowersOfTwoOrBytes] {
        let world = World::new(2);
        world.borrow_mut().caps.block_sizes = sizes;
        let (stack, card) = brought_up::<4>(&world);
        let mut function = Function::new(&stack, &card, 2).unwrap();
        run(&stack, function.set_block_size(128)).unwrap();
        let sent = world.borrow().log.len();
        for bytes in [1, 2, 3, 100, 127, 511] {
            let refused = run(&stack, function.set_block_size(bytes)).unwrap_err();
            assert_eq!(refused, IoError::OddBlockSize { function: 2, bytes, max_bytes: 512 });
        }
        let text = run(&stack, function.set_block_size(100)).unwrap_err().to_string();
        assert!(
            text.starts_with("function 2: a block size of 100, expected a power of two from 4 to 512"),
            "{text}"
        );
        assert_eq!((function.block_bytes(), world.borrow().log.len()), (128, sent));
    }
}

/// Tests transfers of each length, in bytes and in blocks, on a controller that transfers only
/// lengths that are powers of two.
#[test]
fn data_arrive_whole_over_a_controller_of_powers_of_two() {
    let world = World::new(2);
    // As PL181, whose data the CPU moves.
    world.borrow_mut().caps.block_sizes = BlockSizes::PowersOfTwo;
    world.borrow_mut().caps.align = 1;
    let (stack, card) = brought_up::<4>(&world);
    let mut function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    for block in [0, 4, 128] {
        if block > 0 {
            run(&stack, function.set_block_size(block)).unwrap();
        }
        for bytes in [1, 3, 7, 511, 513, 1000] {
            let mut buf = memory(bytes);
            buf.iter_mut().zip(0..).for_each(|(byte, i)| *byte = (i % 251) as u8);
            let (result, mut buf) =
                run(&stack, function.write(At::From(0x100), bytes as u32, buf, Chain::Last));
            assert_eq!(result, Ok(()), "{bytes} bytes, blocks of {block}");
            buf.fill(0);
            let (result, buf) = run(&stack, function.read(At::From(0x100), bytes as u32, buf, Chain::Last));
            assert_eq!(result, Ok(()), "{bytes} bytes, blocks of {block}");
            assert!(buf.iter().zip(0..).all(|(&byte, i)| byte == (i % 251) as u8));
        }
    }
}

#[test]
fn data_arrive_whole_whatever_the_split() {
    let world = World::new(2);
    let (stack, card) = brought_up::<4>(&world);
    let mut function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    for block in [0, 1, 4, 100, 128, 511, 512] {
        if block > 0 {
            run(&stack, function.set_block_size(block)).unwrap();
        }
        for bytes in [1, 3, 4, 511, 512, 513, 1000, 1024, 2044, 4095, 30_000] {
            for at in [At::From(0x100), At::Fifo(0x40)] {
                let mut buf = memory(bytes + 8);
                buf.iter_mut().zip(0..).for_each(|(byte, i)| *byte = (i % 251) as u8);
                let before = world.borrow().log.len();
                let (result, mut buf) = run(&stack, function.write(at, bytes as u32, buf, Chain::Last));
                assert_eq!((result, buf.len_bytes()), (Ok(()), bytes as u32 + 8));
                let pieces = world.borrow().log.len() - before;
                assert_eq!(pieces, oracle(&function.split(), bytes as u32).len());
                buf.fill(0);
                let (result, buf) = run(&stack, function.read(at, bytes as u32, buf, Chain::Last));
                assert_eq!(result, Ok(()));
                assert!(buf[..bytes].iter().zip(0..).all(|(&byte, i)| byte == (i % 251) as u8));
                assert!(buf[bytes..].iter().all(|&byte| byte == 0));
            }
        }
    }
}

#[test]
fn a_fault_is_cleaned_up_by_its_owner() {
    let world = World::new(2);
    let (stack, card) = brought_up::<4>(&world);
    let function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    let nth = world.borrow().data_phases + 1;
    world.borrow_mut().faults.insert(nth, Cause::Crc);
    let from = world.borrow().log.len();
    let (result, buf) = run(&stack, function.read(At::From(0), 1200, memory(1200), Chain::Last));
    assert!(matches!(result, Err(IoError::Engine(engine::Error::Host(fault))) if fault.cause == Cause::Crc));
    assert_eq!(buf.len_bytes(), 1200, "the buffer is whole again");
    let expected = [(53, 2, 0, false), (53, 2, 512, false), (52, 0, 0, false), (52, 0, 6, true)];
    assert_eq!(world.borrow().accesses(from), expected);
}

#[test]
fn a_transfer_may_be_dropped_at_every_poll() {
    for polls in 0.. {
        let world = World::new(2);
        let (stack, card) = brought_up::<4>(&world);
        let function = Function::new(&stack, &card, 2).unwrap();
        run(&stack, function.enable()).unwrap();
        let mut finished = false;
        {
            let mut future = pin!(async {
                let (result, buf) = function.write(At::From(0), 1500, memory(1504), Chain::More).await;
                result?;
                function.write_u8(7, 9, Chain::More).await?;
                function.read(At::From(0), 1500, buf, Chain::Last).await.0
            });
            for _ in 0..polls {
                if let Some(result) = poll_once(future.as_mut()) {
                    assert_eq!(result, Ok(()));
                    finished = true;
                    break;
                }
                step(&stack);
            }
        }
        settle(&stack);
        while let Some(buf) = reclaimed(|claim| stack.with(|engine| engine.reclaim(claim))) {
            assert_eq!(buf.len_bytes(), 1504, "after {polls} polls");
        }
        assert_eq!((world.borrow().mapped(), stack.with(|engine| engine.slots_in_use())), (0, 0));
        assert_eq!(run(&stack, function.write_read_u8(3, 5, Chain::Last)), Ok(5));
        if finished {
            assert!(polls > 7);
            return;
        }
    }
}

#[test]
fn functions_and_memory_share_the_bus() {
    let world = World::new(2);
    world.borrow_mut().medium = Some(vec![0; 4096 * 512]);
    let (stack, card) = brought_up::<4>(&world);
    let function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    let device = BlockDevice::new(&stack);
    let from = world.borrow().log.len();
    let mut blocks = pin!(async {
        let mut buf = memory(512);
        for lba in 0..20 {
            let result;
            (result, buf) = device.read(64 * lba, buf).await;
            assert_eq!(result, Ok(1));
        }
    });
    let mut chain = pin!(async {
        for value in 0..100 {
            function.write_u8(1, value, Chain::More).await.unwrap();
        }
        function.read_u8(1, Chain::Last).await.unwrap()
    });
    let (mut read, mut written) = (false, None);
    while !read || written.is_none() {
        written = written.or_else(|| poll_once(chain.as_mut()));
        read = read || poll_once(blocks.as_mut()).is_some();
        assert!(step(&stack) || read && written.is_some());
    }
    assert_eq!(written, Some(99));
    let world = world.borrow();
    let order: Vec<u8> = world.log[from..].iter().map(|(_, command)| command.index).collect();
    // A chain keeps the bus between its steps, up to `io_burst` commands while memory waits.
    let runs = order.split(|&index| index != 52).filter(|run| !run.is_empty());
    let longest = runs.clone().map(<[u8]>::len).next().unwrap();
    assert!(longest <= usize::from(Config::DEFAULT.io_burst) + 1, "{order:?}");
    assert!(runs.count() >= 10, "{order:?}");
    assert_eq!(order.iter().filter(|&&index| index == 17).count(), 20);
}

#[test]
fn fuzz_registers_and_tuples() {
    fuzz::fuzz("fuzz_registers_and_tuples", 500, |u| {
        let registers: [u8; 0x17] = u.arbitrary()?;
        if let Ok(cccr) = Cccr::parse(&registers) {
            let split = Split::new(&caps(), &cccr, Quirks::NONE, u.arbitrary()?, u.arbitrary()?);
            let left = u.int_in_range(1..=u32::MAX)?;
            let count = split.next(left).unwrap();
            assert!((1..=left).contains(&split.bytes(count)));
        }
        let fbr = Fbr::parse(&u.arbitrary()?);
        assert!(fbr.cis < 1 << 24 && fbr.csa_pointer < 1 << 24);
        let number = u.int_in_range(0..=7)?;
        let pointer = if u.arbitrary()? { u.arbitrary()? } else { u.int_in_range(0x1000..=0x1_7fff)? };
        let Ok(mut walker) = Walker::new(number, pointer) else { return Ok(()) };
        let (mut reads, mut last) = (0, None);
        while let Some(at) = walker.wants() {
            assert!((0x1000..0x1_8000).contains(&at) && last < Some(at), "forward, in the area");
            last = Some(at);
            reads += 1;
            assert!(reads <= 1024);
            // Tuples that mean something are rare among random ones.
            let byte = if u.ratio(1, 4)? {
                *u.choose(&[0x15, 0x20, 0x21, 0x22, 1, 0, 14, 42])?
            } else {
                u.arbitrary()?
            };
            if walker.give(byte).is_err() {
                return Ok(());
            }
        }
        if let Ok(cis) = walker.finish() {
            let texts = cis.version.map_or(0, |version| version.texts().map(<[u8]>::len).sum());
            assert!(texts <= 62 && (number == 0 || cis.function.is_some_and(|f| f.max_block_bytes > 0)));
        }
        Ok(())
    });
}
