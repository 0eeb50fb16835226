//! Tests of faults of the queue engine or its card: what the engine's driver reports and does.

use crate::queue;
use mmcq::host::{BusOp, Cause, CommandQueueHost, QueueError, QueueSettings, Stage};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use queue::{FORMS, Form, Parts, Rig, sector};

#[test]
fn ends_of_tasks_that_were_cleared_are_not_believed() {
    for form in FORMS {
        let mut parts = Parts::new(form);
        parts.engine.stale_completions = true;
        let mut rig = Rig::on(parts, &QueueSettings::new(1));
        for round in 0..3 {
            for slot in 0..8 {
                rig.read(slot, sector(slot) + 8 * round);
            }
            rig.ring(0xff);
            let first = rig.events().done;
            let done = first | rig.halt().done;
            let cleared = rig.clear_all();
            assert_eq!(cleared, 0xff & !done, "what is done is kept");
            for slot in 0..8 {
                if cleared >> slot & 1 == 1 {
                    rig.release(slot);
                } else {
                    rig.same(slot, sector(slot) + 8 * round);
                }
            }
            assert_eq!(rig.host.queue_state().done, 0);
            rig.recover();
        }
        for slot in 0..8 {
            rig.read(slot, sector(slot));
        }
        rig.ring(0xff);
        rig.complete(0xff);
        for slot in 0..8 {
            rig.same(slot, sector(slot));
        }
        rig.checked();
    }
}

/// Returns a rig that executes four tasks with these faults.
fn struck(form: Form, plan: Plan) -> Rig {
    let mut rig = Rig::new(form);
    for slot in 0..4 {
        rig.read(slot, sector(slot));
    }
    rig.faults(plan);
    rig.ring(0b1111);
    rig
}

#[test]
fn the_error_of_one_task_costs_the_others_nothing() {
    for form in FORMS {
        // The fault damages the second block of the second task that is executed.
        let mut rig = struck(form, Plan::none().shot(Point::ReadBlock, 10, Strike::Crc));
        let first = rig.events();
        assert_eq!((first.done.count_ones(), first.fault), (1, None));
        let fault = rig.fault();
        assert_eq!((fault.cause, fault.stage, fault.index), (Cause::Crc, Stage::Data, Some(46)));
        let victim = fault.slot.unwrap();
        let done = first.done | rig.halt().done;
        assert_eq!(done >> victim & 1, 0);
        let cleared = rig.clear_all();
        assert_eq!(cleared, 0b1111 & !done);
        rig.recover();
        // The driver has released the memory, and the tasks are submitted again.
        for slot in 0..4 {
            if done >> slot & 1 == 1 {
                rig.same(slot, sector(slot));
            } else {
                rig.read(slot, sector(slot));
            }
        }
        rig.ring(cleared);
        rig.complete(cleared);
        for slot in (0..4).filter(|slot| cleared >> slot & 1 == 1) {
            rig.same(slot, sector(slot));
        }
        rig.checked();
    }
}

#[test]
fn a_task_that_is_not_announced_is_named() {
    // The fault strikes CMD44 of the third task: each task before it took two commands.
    let mut rig = struck(Form::Short, Plan::none().shot(Point::Response, 5, Strike::Lost));
    let fault = rig.fault();
    assert_eq!((fault.cause, fault.stage), (Cause::Timeout, Stage::Command));
    assert_eq!((fault.index, fault.slot, fault.response), (Some(44), Some(2), None));
    assert_eq!(fault.to_string(), "the card's answer did not come in time: CMD44 of task 2");
    rig.halt();
    rig.clear_all();
    rig.recover();
    rig.checked();
}

#[test]
fn a_late_error_of_a_write_stops_the_queue_and_blames_another() {
    let mut rig = Rig::new(Form::Wide);
    let faults = mmcq_sim::faults::Faults::new(Plan::none().shot(Point::Medium, 1, Strike::Fail));
    rig.model.borrow_mut().card_mut().unwrap().set_faults(faults);
    rig.write(1, 4096);
    rig.ring(0b0010);
    assert_eq!(rig.complete(0b0010), [1], "the write itself is done");
    rig.read(0, 0);
    rig.ring(0b0001);
    let fault = rig.fault();
    assert_eq!((fault.cause, fault.index, fault.slot), (Cause::Response, Some(44), Some(0)));
    assert_eq!(fault.response.map(|r1| r1 >> 19 & 1), Some(1), "ERROR, in the R1 of CMD44");
    assert_eq!(rig.halt().done, 0);
    assert_eq!(rig.clear_all(), 0b0001);
    rig.recover();
    rig.checked();
}

#[test]
fn a_reset_at_any_moment_forgets_tasks_and_lets_their_memory_go() {
    let mut rig = Rig::new(Form::Wide);
    for at in 0..80 {
        for slot in 0..4 {
            rig.read(slot, sector(slot) + 8 * at);
        }
        rig.ring(0b1111);
        rig.run(u64::from(at) * 7_000);
        // A halt was requested and has not been confirmed yet.
        rig.host.halt_queue().unwrap();
        rig.recover();
        let state = rig.host.queue_state();
        assert_eq!((state.rung, state.done, state.known), (0, 0, 0), "{at}");
        for slot in 0..4 {
            rig.release(slot);
        }
        rig.run(1_000_000);
        assert_eq!(rig.memory.violations(), Vec::<String>::new(), "{at}");
    }
    rig.read(0, 5);
    rig.ring(1);
    rig.complete(1);
    rig.same(0, 5);
    rig.read(0, 5);
    rig.ring(1);
    rig.bus(BusOp::ResetAll);
    assert!(rig.release(0).is_some());
    rig.run(10_000_000);
    assert_eq!(rig.memory.violations(), Vec::<String>::new());
    assert_eq!(rig.host.ack_queue().done, 0);
}

#[test]
fn a_halt_that_never_comes_ends_with_a_reset() {
    let mut rig = Rig::new(Form::Wide);
    for slot in 0..4 {
        rig.read(slot, sector(slot));
    }
    rig.faults(Plan::none().shot(Point::Halt, 1, Strike::Never));
    rig.ring(0b1111);
    rig.host.halt_queue().unwrap();
    rig.run(500_000_000);
    let events = rig.host.ack_queue();
    assert!(!events.halted && events.fault.is_none());
    assert_eq!(rig.host.clear_tasks(), Err(QueueError::State), "not without a halt");
    rig.recover();
    for slot in 0..4 {
        rig.read(slot, sector(slot));
    }
    rig.ring(0b1111);
    rig.complete(0b1111);
    for slot in 0..4 {
        rig.same(slot, sector(slot));
    }
}

#[test]
fn a_halt_that_comes_late_is_waited_for() {
    let mut rig = Rig::new(Form::Wide);
    rig.faults(Plan::none().shot(Point::Halt, 1, Strike::Late(400_000_000)));
    rig.read(0, 0);
    rig.ring(1);
    let begin = rig.now();
    let halted = rig.halt();
    assert!(halted.halted && rig.now() - begin >= 400_000_000);
    rig.host.resume_queue().unwrap();
    if halted.done == 0 {
        rig.complete(1);
    }
    rig.same(0, 0);
    rig.checked();
}

#[test]
fn a_doorbell_that_is_lost_is_seen_and_rung_again() {
    let mut rig = Rig::new(Form::Wide);
    rig.faults(Plan::none().shot(Point::Doorbell, 2, Strike::Lost));
    rig.read(0, sector(0));
    rig.read(1, sector(1));
    rig.ring(0b01);
    rig.ring(0b10);
    rig.complete(0b01);
    rig.run(100_000_000);
    assert_eq!(rig.host.ack_queue().done, 0);
    assert_eq!(rig.host.queue_state().rung, 0, "the engine knows nothing of it");
    rig.halt();
    rig.host.clear_task(1).unwrap();
    assert_eq!(rig.events().cleared, 0b10);
    rig.host.resume_queue().unwrap();
    rig.read(1, sector(1));
    rig.ring(0b10);
    rig.complete(0b10);
    rig.same(0, sector(0));
    rig.same(1, sector(1));
    rig.checked();
}

#[test]
fn an_error_that_names_no_task_blames_none() {
    let plan = Plan::none().shot(Point::ReadBlock, 10, Strike::Crc).shot(Point::Blame, 1, Strike::Lost);
    let mut rig = struck(Form::Wide, plan);
    let fault = rig.fault();
    assert_eq!((fault.cause, fault.index, fault.slot), (Cause::Crc, None, None));
    assert_eq!(
        fault.to_string(),
        "the card's data, or the busy after them, had a bad CRC, at a task that the queue engine does not name"
    );
    rig.halt();
    rig.clear_all();
    rig.recover();
    rig.checked();
}

#[test]
fn a_response_error_of_a_task_that_is_done_blames_none() {
    let mut rig = struck(Form::Wide, Plan::none().shot(Point::TaskEnd, 2, Strike::Spurious(1)));
    let (mut done, mut fault) = (0u32, None);
    while fault.is_none() {
        let events = rig.events();
        done |= events.done;
        fault = events.fault;
    }
    let fault = fault.unwrap();
    assert_eq!((fault.cause, fault.slot), (Cause::Response, None), "{fault}");
    done |= rig.halt().done;
    assert!(done.count_ones() >= 2, "what is done stays so: {done:#b}");
    assert_eq!(rig.clear_all(), 0b1111 & !done);
    for slot in (0..4).filter(|slot| done >> slot & 1 == 1) {
        rig.same(slot, sector(slot));
    }
    rig.recover();
    rig.checked();
}

#[test]
fn a_pause_that_falls_back_when_the_engine_goes_on_is_written_again() {
    let asked = |falls: bool| {
        let mut rig = Rig::off(Parts { card: "emmc-queue-one", ..Parts::new(Form::Wide) });
        if falls {
            rig.faults(Plan::none().from(Point::Enable, 1, Strike::Status(8)));
        }
        rig.host.enable_queue(&QueueSettings::new(1)).unwrap();
        rig.read(0, 0);
        rig.said();
        rig.ring(1);
        rig.complete(1);
        rig.said().iter().filter(|&&index| index == 13).count()
    };
    assert_eq!(asked(true), asked(false));
    assert!(asked(true) < 30);
}
