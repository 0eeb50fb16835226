//! Tests of the driver of the queue engine (CQHCI) on its model, task by task, without the stack's
//! engine above.

use crate::queue;
use mmcq::host::sdhci::{Cqhci, CqhciQuirks};
use mmcq::host::{
    BusOp, Coalescing, CommandQueueHost, Direction, Host, Phase, QueueError, QueueSettings, StartError, Step,
    TaskFlags,
};
use mmcq::spec::command::{Command, Resp};
use mmcq_sim::sdhci::CqhciConfig as Engine;
use mmcq_sim::world::Device;
use queue::{FORMS, Form, Parts, Rig, sector};

#[test]
fn tasks_of_all_slots_end_out_of_order_with_their_own_data() {
    for form in FORMS {
        let mut rig = Rig::new(form);
        for slot in 0..31 {
            if slot % 4 == 1 { rig.write(slot, sector(slot)) } else { rig.read(slot, sector(slot)) }
        }
        rig.ring(0x7fff_ffff);
        let order = rig.complete(0x7fff_ffff);
        assert_ne!(order, (0..31).collect::<Vec<u8>>(), "{form:?}");
        for slot in 0..31 {
            rig.same(slot, sector(slot));
        }
        rig.checked();
    }
}

#[test]
fn a_task_as_large_as_they_may_be() {
    for form in FORMS {
        let mut rig = Rig::new(form);
        let caps = *rig.host.queue_caps().unwrap();
        assert!(caps.max_segments >= 2 && caps.max_bytes >= 65_536, "{caps:?}");
        let blocks = u16::try_from(caps.max_bytes / 512).unwrap();
        // The memory is in two segments, each of several descriptors.
        rig.prepare(5, Direction::Write, 4096, blocks);
        rig.prepare(6, Direction::Read, 65_536, blocks);
        rig.ring(3 << 5);
        rig.complete(3 << 5);
        rig.same(5, 4096);
        rig.same(6, 65_536);
        rig.checked();
    }
}

#[test]
fn without_direct_commands_slot_31_is_a_task() {
    let quirks = CqhciQuirks::INTEL_GLK;
    let mut rig = Rig::on(Parts { quirks, ..Parts::new(Form::Short) }, &QueueSettings::new(1));
    let caps = *rig.host.queue_caps().unwrap();
    assert_eq!((caps.depth, caps.direct, caps.wide, caps.timer_hz), (32, None, true, 192_000_000));
    for slot in 0..32 {
        rig.read(slot, sector(slot));
    }
    assert_eq!(
        rig.host.prepare_command(&Command::new(6, 0, Resp::R1b), true),
        Err(QueueError::Slot(31)),
        "no slot of commands"
    );
    rig.ring(u32::MAX);
    rig.complete(u32::MAX);
    for slot in 0..32 {
        rig.same(slot, sector(slot));
    }
    rig.checked();
}

#[test]
fn a_flush_by_direct_command_is_a_barrier() {
    for form in FORMS {
        let mut rig = Rig::new(form);
        for slot in 0..4 {
            rig.write(slot, 8 * u32::from(slot));
        }
        rig.said();
        // CMD6 that sets FLUSH_CACHE.
        rig.host.prepare_command(&Command::new(6, 0x0320_0100, Resp::R1b), true).unwrap();
        rig.ring(0b1111);
        rig.ring(1 << 31);
        rig.write(4, 80);
        rig.ring(1 << 4);
        let mut order = Vec::new();
        while order.len() < 6 {
            let events = rig.events();
            assert_eq!(events.fault, None);
            order.extend((0..32u8).filter(|slot| events.done >> slot & 1 == 1));
            if events.done >> 31 == 1 {
                assert_eq!(events.response.map(|r1| r1 & !0x1f00), Some(0), "the R1 of CMD6");
            }
        }
        assert_eq!(order[4..], [31, 4], "{form:?}: {order:?}");
        let said: Vec<u8> = rig.said().into_iter().filter(|index| matches!(index, 6 | 47)).collect();
        assert_eq!(said, [47, 47, 47, 47, 6, 47], "{form:?}");
        rig.quiet();
        rig.checked();
    }
}

#[test]
fn a_task_with_a_barrier_waits_for_those_before_it() {
    let mut rig = Rig::new(Form::Wide);
    for slot in 0..8 {
        rig.read(slot, sector(slot));
    }
    rig.prepare_with(3, Direction::Read, sector(3), 8, TaskFlags::BARRIER);
    rig.ring(0xff);
    let order = rig.complete(0xff);
    let at = order.iter().position(|&slot| slot == 3).unwrap();
    assert_eq!(at, 3, "{order:?}");
    assert!(order[..3].iter().all(|&slot| slot < 3), "{order:?}");
    for slot in 0..8 {
        rig.same(slot, sector(slot));
    }
    rig.checked();
}

#[test]
fn a_halt_in_the_middle_loses_nothing() {
    for form in FORMS {
        let mut rig = Rig::new(form);
        for slot in 0..16 {
            rig.read(slot, sector(slot));
        }
        rig.ring(0xffff);
        let first = rig.events().done;
        let refused = rig.host.start(&Phase::of(Command::new(13, 1 << 16, Resp::R1)), &[], 1_000_000);
        assert_eq!(refused, Err(StartError::CommandLine), "the lines are the engine's");
        assert_eq!(rig.host.set_bus(BusOp::Clock(26_000_000), true, rig.now()), Step::Failed);
        let halted = rig.halt();
        assert!(halted.halted && halted.fault.is_none());
        let done = first | halted.done;
        assert_ne!(done, 0xffff, "in the middle");
        // The driver can send commands again: here CMD13 for the status, and CMD13 for the queue
        // status.
        assert_eq!(rig.status(), 0x900);
        assert_eq!(rig.host.ring(1), 0, "nothing is rung in a halt");
        assert_eq!(rig.host.enable_queue(&QueueSettings::new(1)), Err(QueueError::State));
        assert_eq!(rig.host.disable_queue(), Err(QueueError::Occupied(0xffff & !done)));
        rig.run(10_000_000);
        assert_eq!(rig.host.queue_state().done, 0, "nothing ends in a halt");
        rig.host.resume_queue().unwrap();
        rig.complete(0xffff & !done);
        for slot in 0..16 {
            rig.same(slot, sector(slot));
        }
        assert!(rig.halt().halted, "also of an empty queue");
        assert_eq!(rig.host.disable_queue(), Ok(()));
        rig.card_queue(false);
        rig.checked();
    }
}

#[test]
fn one_task_is_cleared_and_the_others_go_on() {
    let mut rig = Rig::new(Form::Wide);
    for slot in 0..6 {
        rig.read(slot, sector(slot));
    }
    rig.ring(0b11_1111);
    let first = rig.events().done;
    let done = first | rig.halt().done;
    let left = 0b11_1111 & !done;
    let victim = 31 - left.leading_zeros() as u8;
    assert_eq!(rig.host.clear_task(10), Err(QueueError::Slot(10)));
    if rig.host.queue_state().known >> victim & 1 == 1 {
        // The caller has to discard the task in the card, too.
        let discard = Command::new(48, u32::from(victim) << 16 | 2, Resp::R1b);
        assert!(rig.try_command(discard).is_some());
    }
    rig.host.clear_task(victim).unwrap();
    assert_eq!(rig.host.resume_queue(), Err(QueueError::State), "not before its end");
    let events = rig.events();
    assert_eq!((events.cleared, events.emptied), (1 << victim, false));
    rig.release(victim);
    rig.host.resume_queue().unwrap();
    rig.complete(left & !(1 << victim));
    // The slot can take another task.
    rig.read(victim, 99);
    rig.ring(1 << victim);
    rig.complete(1 << victim);
    rig.same(victim, 99);
    rig.checked();
}

#[test]
fn clocks_of_24_and_192_mhz_ask_at_the_same_times() {
    for (timer_hz, board) in [
        (24_000_000, None),
        (192_000_000, None),
        (1_000_000, Some(1_000_000)),
        (192_000_000, Some(96_000_000)),
    ] {
        let mut parts = Parts { timer_hz: board, card: "emmc-queue-one", ..Parts::new(Form::Short) };
        parts.engine = Engine { timer_hz, ..parts.engine };
        let settings = QueueSettings::new(1).poll_ns(20_000);
        let mut rig = Rig::on(parts, &settings);
        rig.read(0, 0);
        rig.said();
        let begin = rig.now();
        rig.ring(1);
        rig.complete(1);
        rig.same(0, 0);
        let asked = rig.said().iter().filter(|&&index| index == 13).count() as u64;
        // CMD44, CMD45 and the data take about 90 us of the time; each question for ready tasks
        // takes 2 us more.
        let waited = (rig.now() - begin).saturating_sub(90_000);
        let period = if board == Some(96_000_000) { 10_000 } else { 20_000 };
        let expected = waited / (period + 2_000);
        assert!(asked.abs_diff(expected) <= 4, "{timer_hz} Hz: asked {asked} times, not {expected}");
        assert!(asked >= 3, "{timer_hz} Hz: {asked}");
    }
}

#[test]
fn a_question_beside_data_is_asked_only_where_it_may_be() {
    let lasts = |quirks, poll_blocks| {
        let parts = Parts { quirks, ..Parts::new(Form::Wide) };
        let settings = QueueSettings::new(1).poll_blocks(poll_blocks).poll_ns(300_000);
        let mut rig = Rig::on(parts, &settings);
        for slot in 0..8 {
            rig.read(slot, sector(slot));
        }
        let begin = rig.now();
        rig.ring(0xff);
        rig.complete(0xff);
        rig.checked();
        rig.now() - begin
    };
    let without = lasts(CqhciQuirks::NONE, 0);
    // When the engine asks at the end of each task, it knows the next task as soon as the data are
    // over.
    assert!(lasts(CqhciQuirks::NONE, 1) < without);
    assert_eq!(lasts(CqhciQuirks::NO_POLL_BESIDE, 1), without);
}

#[test]
fn coalescing_makes_one_interrupt_of_several() {
    let mut rig = Rig::off(Parts::new(Form::Wide));
    let coalescing = Some(Coalescing { tasks: 4, wait_ns: 500_000 });
    rig.host.enable_queue(&QueueSettings::new(1).coalescing(coalescing)).unwrap();
    for slot in 0..8 {
        rig.read(slot, sector(slot));
    }
    rig.ring(0xff);
    let (first, second) = (rig.events().done, rig.events().done);
    assert_eq!((first.count_ones(), second.count_ones(), first | second), (4, 4, 0xff));
    // A task alone waits for the coalescing timer; a task that is marked not to wait interrupts at
    // once.
    let mut lasts = |flags| {
        rig.prepare_with(0, Direction::Read, 0, 8, flags);
        let begin = rig.now();
        rig.ring(1);
        rig.complete(1);
        rig.same(0, 0);
        rig.now() - begin
    };
    let (waits, at_once) = (lasts(TaskFlags::NONE), lasts(TaskFlags::AT_ONCE));
    assert!(waits >= 500_000 && at_once < 300_000, "{waits} {at_once}");
}

#[test]
fn a_task_costs_five_accesses() {
    let mut rig = Rig::new(Form::Wide);
    // Each slot is used twice.
    for _ in 0..2 {
        rig.read(0, 0);
        let before = rig.port.counters();
        rig.ring(1);
        assert!(rig.interrupt(1_000_000_000));
        assert_eq!(rig.host.ack_queue().done, 1);
        let after = rig.port.counters();
        let cost = (after.writes - before.writes, after.reads - before.reads);
        assert!(cost.0 + cost.1 <= 9, "{cost:?}");
        rig.same(0, 0);
    }
    rig.read(0, 0);
    let before = rig.port.counters();
    rig.ring(1);
    rig.interrupt(1_000_000_000);
    rig.host.ack_queue();
    let after = rig.port.counters();
    assert_eq!((after.writes - before.writes, after.reads - before.reads), (3, 2));
    assert!(!rig.model.borrow().irq());
    rig.checked();
}

/// Tests a controller whose bit of the engine stays set until it is cleared: each event interrupts
/// once if the driver knows the quirk, at most twice otherwise, and never for ever.
#[test]
fn a_latched_status_bit_is_cleared_with_each_event() {
    for quirks in [CqhciQuirks::LATCHED_STATUS, CqhciQuirks::NONE] {
        let engine = Engine { latched_status: true, ..Parts::new(Form::Wide).engine };
        let mut rig = Rig::on(Parts { quirks, engine, ..Parts::new(Form::Wide) }, &QueueSettings::new(1));
        for _ in 0..3 {
            rig.read(0, 0);
            rig.ring(1);
            assert!(rig.interrupt(1_000_000_000));
            assert_eq!(rig.host.ack_queue().done, 1);
            if quirks == CqhciQuirks::NONE && rig.model.borrow().irq() {
                assert_eq!(rig.host.ack_queue().done, 0);
            }
            assert!(!rig.model.borrow().irq(), "{quirks:?}");
            rig.same(0, 0);
        }
        rig.read(0, 0);
        rig.write(1, 4096);
        rig.ring(0b11);
        rig.halt();
        assert!(!rig.model.borrow().irq(), "{quirks:?}");
        rig.clear_all();
        assert!(!rig.model.borrow().irq(), "{quirks:?}");
        rig.checked();
    }
}

#[test]
fn what_is_no_task_is_refused_and_nothing_is_rung() {
    let mut rig = Rig::off(Parts::new(Form::Wide));
    let command = Command::new(6, 0, Resp::R1b);
    assert_eq!(rig.host.halt_queue(), Err(QueueError::State));
    assert_eq!(rig.host.resume_queue(), Err(QueueError::State));
    assert_eq!(rig.host.clear_tasks(), Err(QueueError::State));
    rig.read(0, 0);
    assert_eq!(rig.host.ring(1), 0, "off");
    rig.host.start(&Phase::of(Command::new(13, 1 << 16, Resp::R1)), &[], 1_000_000).unwrap();
    assert_eq!(rig.host.enable_queue(&QueueSettings::new(1)), Err(QueueError::Busy));
    rig.interrupt(1_000_000);
    assert!(rig.host.ack(&[]).phase.is_some());
    rig.host.enable_queue(&QueueSettings::new(1)).unwrap();
    let task = |blocks, context| mmcq::host::Task {
        direction: Direction::Read,
        address: 0,
        blocks,
        flags: TaskFlags::NONE,
        context,
    };
    assert_eq!(rig.host.prepare_task(31, &task(1, 0), &[]), Err(QueueError::Slot(31)));
    assert_eq!(rig.host.prepare_task(32, &task(1, 0), &[]), Err(QueueError::Slot(32)));
    assert_eq!(rig.host.prepare_task(255, &task(1, 0), &[]), Err(QueueError::Slot(255)));
    assert_eq!(rig.host.prepare_task(1, &task(0, 0), &[]), Err(QueueError::Unsupported));
    assert_eq!(rig.host.prepare_task(1, &task(1, 16), &[]), Err(QueueError::Unsupported));
    assert_eq!(rig.host.prepare_task(1, &task(1, 0), &[]), Err(QueueError::Memory));
    assert_eq!(rig.host.prepare_command(&Command::new(2, 0, Resp::R2), false), Err(QueueError::Unsupported));
    rig.read(0, 0);
    rig.ring(1);
    assert_eq!(rig.host.prepare_task(0, &task(1, 0), &[]), Err(QueueError::Occupied(1)));
    assert_eq!(rig.host.ring(u32::MAX), 0, "once");
    rig.complete(1);
    rig.same(0, 0);
    rig.host.prepare_command(&command, false).unwrap();
    rig.host.withdraw(1 << 31);
    assert_eq!(rig.host.ring(u32::MAX), 0);
    rig.checked();
}

#[test]
fn where_there_is_no_engine_the_controller_goes_on_alone() {
    let mut parts = Parts::new(Form::Wide);
    // The engine's registers are at another offset.
    parts.engine.offset = 0x400;
    let rig = Rig::off(parts.clone());
    drop(rig);
    let memory = mmcq_sim::memory::ShadowMemory::default();
    let config = mmcq_sim::sdhci::SdhciConfig { register_bytes: 0x1000, ..Default::default() };
    let model =
        std::rc::Rc::new(std::cell::RefCell::new(mmcq_sim::sdhci::Sdhci::new(config, memory.clone(), None)));
    let port = mmcq_sim::sdhci::Port::new(model, mmcq_sim::time::Time::new(), 0, 0);
    let table = Box::leak(Box::new(mmcq::host::sdhci::Table::<8>::new()));
    let host =
        mmcq::host::sdhci::Sdhci::new(port, memory, table, mmcq::host::sdhci::SdhciConfig::new()).unwrap();
    // SAFETY: the model has no registers at this offset; it reads as nothing and ignores writes.
    let queue = unsafe { mmcq::host::sdhci::CqhciConfig::at(0x200) };
    let list = Box::leak(Box::new(mmcq::host::sdhci::TaskList::<4>::new()));
    let mut host = Cqhci::new(host, list, queue);
    let error = host.queue_caps().unwrap_err();
    assert_eq!(error, QueueError::Version(0));
    assert_eq!(error.to_string(), "command queue: version register is 0x00000000, expected 5.x (0x00000510)");
    assert_eq!(host.enable_queue(&QueueSettings::new(1)), Err(error));
    assert_eq!(host.set_bus(BusOp::PowerOff, true, 0), Step::Done);
}
