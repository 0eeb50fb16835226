//! Tests that the parts of a board around its controller are switched in the order that a card
//! needs, and that the driver waits for them.

use crate::support;
use mmcq::host::faulty::Faulty;
use mmcq::host::surroundings::{Surrounded, Surroundings};
use mmcq::host::{
    BusOp, Caps, CommandQueueHost, Direction, DmaError, Done, Events, Host, Phase, QueueCaps, QueueError,
    QueueEvents, QueueSettings, QueueState, Segment, StartError, Step, Task, Timing,
};
use mmcq::spec::command::Command;
use std::cell::RefCell;
use std::rc::Rc;

type Log = Rc<RefCell<Vec<String>>>;

/// A driver that only records its calls.
struct Driver {
    log: Log,
    caps: Caps,
    tuned: bool,
}

// SAFETY: it touches no memory.
unsafe impl Host for Driver {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn map(&mut self, _: &mut Segment, _: Direction) -> Result<(), DmaError> {
        Ok(())
    }
    fn unmap(&mut self, _: &Segment, _: Direction) {}
    fn start(&mut self, _: &Phase, _: &[Segment], _: u64) -> Result<(), StartError> {
        Ok(())
    }
    fn ack(&mut self, _: &[Segment]) -> Events {
        let done = Done { tuned: self.tuned, ..Done::default() };
        Events { phase: Some(Ok(done)), ..Events::default() }
    }
    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.log.borrow_mut().push(format!("driver {op:?}"));
            return Step::Wait(now_ns + 1_000);
        }
        Step::Done
    }
    fn dat0_busy(&self) -> bool {
        false
    }
    fn dat_levels(&self) -> u8 {
        0b0101
    }
    fn supply_ma(&self) -> u16 {
        150
    }
    fn retune_ns(&self) -> u64 {
        7
    }
    fn interrupt_lost(&mut self) {
        self.log.borrow_mut().push("interrupt lost".to_owned());
    }
    fn isolate(&mut self) -> bool {
        self.log.borrow_mut().push("isolate".to_owned());
        true
    }
    fn card_irq(&mut self, on: bool) {
        self.log.borrow_mut().push(format!("card interrupt {on}"));
    }
    fn present(&self) -> bool {
        true
    }
}

impl Driver {
    fn told(&self, call: &str) -> Result<(), QueueError> {
        self.log.borrow_mut().push(call.to_owned());
        Ok(())
    }
}

// SAFETY: it touches no memory.
unsafe impl CommandQueueHost for Driver {
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError> {
        self.told("caps")?;
        Err(QueueError::Unsupported)
    }
    fn enable_queue(&mut self, _: &QueueSettings) -> Result<(), QueueError> {
        self.told("enable")
    }
    fn disable_queue(&mut self) -> Result<(), QueueError> {
        self.told("disable")
    }
    fn prepare_task(&mut self, _: u8, _: &Task, _: &[Segment]) -> Result<(), QueueError> {
        self.told("task")
    }
    fn prepare_command(&mut self, _: &Command, _: bool) -> Result<(), QueueError> {
        self.told("command")
    }
    fn withdraw(&mut self, slots: u32) {
        self.log.borrow_mut().push(format!("withdraw {slots}"));
    }
    fn ring(&mut self, slots: u32) -> u32 {
        slots
    }
    fn ack_queue(&mut self) -> QueueEvents {
        QueueEvents { done: 9, ..QueueEvents::default() }
    }
    fn ack_ends(&mut self) -> u32 {
        5
    }
    fn halt_queue(&mut self) -> Result<(), QueueError> {
        self.told("halt")
    }
    fn resume_queue(&mut self) -> Result<(), QueueError> {
        self.told("resume")
    }
    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError> {
        self.told(&format!("clear {slot}"))
    }
    fn clear_tasks(&mut self) -> Result<(), QueueError> {
        self.told("clear all")
    }
    fn queue_state(&self) -> QueueState {
        QueueState { rung: 3, ..QueueState::default() }
    }
}

/// A board that implements all methods, with a slow supply.
struct Board {
    log: Log,
    supply_fails: bool,
    present: Option<bool>,
}

impl Board {
    fn say(&self, what: String) -> Step {
        self.log.borrow_mut().push(what);
        Step::Done
    }
}

impl Surroundings for Board {
    fn supply(&mut self, on: bool, first: bool, now_ns: u64) -> Step {
        if first {
            self.say(format!("supply {on}"));
            return Step::Wait(now_ns + 5_000_000);
        }
        if self.supply_fails { Step::Failed } else { Step::Done }
    }
    fn signalling(&mut self, low: bool, _: bool, _: u64) -> Step {
        self.say(format!("signalling {low}"))
    }
    fn reset_card(&mut self, active: bool) -> bool {
        self.say(format!("reset {active}"));
        true
    }
    fn present(&self) -> Option<bool> {
        self.present
    }
    fn write_protected(&self) -> Option<bool> {
        Some(true)
    }
    fn pins(&mut self, timing: Timing, _: bool, _: u64) -> Step {
        self.say(format!("pins {timing:?}"))
    }
    fn clock(&mut self, hz: u32, _: bool, _: u64) -> Step {
        self.say(format!("clock {hz}"))
    }
    fn before_tuning(&mut self, timing: Timing, _: bool, _: u64) -> Step {
        self.say(format!("before tuning {timing:?}"))
    }
    fn after_tuning(&mut self, found: bool) {
        self.say(format!("after tuning {found}"));
    }
    fn after_reset(&mut self, timing: Timing, _: bool, _: u64) -> Step {
        self.say(format!("after reset {timing:?}"))
    }
}

fn surrounded() -> (Surrounded<Driver, Board>, Log) {
    let log = Log::default();
    let driver = Driver { log: log.clone(), caps: support::caps(), tuned: false };
    let board = Board { log: log.clone(), supply_fails: false, present: None };
    (Surrounded::new(driver, board), log)
}

/// Executes a change of the bus to its end. Returns the result, and the time in nanoseconds that
/// the change took.
fn change(host: &mut impl Host, op: BusOp) -> (Step, u64) {
    let mut now_ns = 0;
    let mut step = host.set_bus(op, true, now_ns);
    for _ in 0..16 {
        let Step::Wait(at_ns) = step else { return (step, now_ns) };
        assert!(at_ns > now_ns, "{op:?} waits for a time that has passed");
        now_ns = at_ns;
        step = host.set_bus(op, false, now_ns);
    }
    panic!("{op:?} never ends");
}

#[test]
fn every_change_of_the_bus_moves_the_board_in_the_cards_order() {
    for (op, order) in [
        (BusOp::PowerOn, vec!["supply true", "driver PowerOn", "reset true", "reset false"]),
        (BusOp::PowerOff, vec!["driver PowerOff", "supply false"]),
        (BusOp::Signal18(true), vec!["signalling true", "driver Signal18(true)"]),
        (BusOp::Signal18(false), vec!["signalling false", "driver Signal18(false)"]),
        (BusOp::Timing(Timing::Hs200), vec!["pins Hs200", "driver Timing(Hs200)"]),
        (BusOp::Clock(400_000), vec!["clock 400000", "driver Clock(400000)"]),
        (BusOp::Clock(0), vec!["driver Clock(0)", "clock 0"]),
        (BusOp::TuneStart, vec!["before tuning Legacy", "driver TuneStart"]),
        (BusOp::ResetAll, vec!["driver ResetAll", "after reset Legacy"]),
        (BusOp::ResetLines, vec!["driver ResetLines"]),
    ] {
        let (mut host, log) = surrounded();
        assert_eq!(change(&mut host, op).0, Step::Done, "{op:?}");
        assert_eq!(*log.borrow(), order, "{op:?}");
    }
}

#[test]
fn supply_and_reset_line_get_their_time() {
    let (mut host, _) = surrounded();
    let (_, took_ns) = change(&mut host, BusOp::PowerOn);
    // The ramp, the driver's own time, RST_n low for 1 us and 200 us after it at least.
    assert!((5_000_000 + 1_000 + 201_000..6_000_000).contains(&took_ns), "{took_ns}");
}

#[test]
fn a_supply_that_does_not_come_fails_the_power_up_before_the_controller_is_told() {
    let log = Log::default();
    let driver = Driver { log: log.clone(), caps: support::caps(), tuned: false };
    let board = Board { log: log.clone(), supply_fails: true, present: None };
    let mut host = Surrounded::new(driver, board);
    assert_eq!(change(&mut host, BusOp::PowerOn).0, Step::Failed);
    assert_eq!(*log.borrow(), ["supply true"]);
}

#[test]
fn the_phy_hears_of_the_end_of_every_tuning_once() {
    let (mut host, log) = surrounded();
    let end = |found: bool| format!("after tuning {found}");
    let ends = |log: &Log| -> Vec<String> {
        log.borrow().iter().filter(|line| line.starts_with("after")).cloned().collect()
    };
    change(&mut host, BusOp::Timing(Timing::Sdr104));
    change(&mut host, BusOp::TuneStart);
    assert!(log.borrow().iter().any(|line| line == "before tuning Sdr104"));
    host.ack(&[]);
    assert_eq!(ends(&log), Vec::<String>::new(), "a block of the tuning is not its end");
    change(&mut host, BusOp::TuneAbort);
    assert_eq!(ends(&log), [end(false)]);

    let driver = Driver { log: log.clone(), caps: support::caps(), tuned: true };
    log.borrow_mut().clear();
    let mut host = Surrounded::new(driver, Board { log: log.clone(), supply_fails: false, present: None });
    change(&mut host, BusOp::TuneStart);
    host.ack(&[]);
    host.ack(&[]);
    assert_eq!(ends(&log), [end(true)]);
}

#[test]
fn lines_of_the_board_count_before_those_of_the_controller() {
    let (mut host, log) = surrounded();
    assert!(host.present() && host.write_protected());
    host = Surrounded::new(
        Driver { log: log.clone(), caps: support::caps(), tuned: false },
        Board { log, supply_fails: false, present: Some(false) },
    );
    assert!(!host.present());
}

/// Tests that the wrapper passes on the methods that have a default: if it forgot one, the engine
/// would get the default's value.
#[test]
fn what_the_driver_knows_passes_through() {
    let (mut host, log) = surrounded();
    assert_eq!((host.dat_levels(), host.supply_ma(), host.retune_ns()), (0b0101, 150, 7));
    host.interrupt_lost();
    assert!(host.isolate());
    host.card_irq(true);
    assert_eq!(*log.borrow(), ["interrupt lost", "isolate", "card interrupt true"]);
}

/// Tests that the wrapper that injects faults passes on the methods that have a default, too.
#[test]
fn what_the_driver_knows_passes_through_the_faults() {
    let log = Log::default();
    let mut host = Faulty::<_, 1>::new(Driver { log: log.clone(), caps: support::caps(), tuned: false }, 1);
    assert_eq!((host.dat_levels(), host.supply_ma(), host.retune_ns()), (0b0101, 150, 7));
    host.interrupt_lost();
    assert!(host.isolate());
    host.card_irq(true);
    assert_eq!(*log.borrow(), ["interrupt lost", "isolate", "card interrupt true"]);
}

/// Tests that the wrapper passes on all calls of a command queue engine. `ack_ends` has a default,
/// with which each end takes the longer way.
#[test]
fn the_queue_engine_of_the_driver_passes_through() {
    let (mut host, log) = surrounded();
    let nothing = Command::new(0, 0, mmcq::spec::command::Resp::None);
    assert_eq!(host.queue_caps().err(), Some(QueueError::Unsupported));
    let calls = [
        host.enable_queue(&QueueSettings::new(1)),
        host.prepare_command(&nothing, false),
        host.halt_queue(),
        host.resume_queue(),
        host.clear_task(7),
        host.clear_tasks(),
        host.disable_queue(),
    ];
    assert_eq!(calls, [Ok(()); 7]);
    host.withdraw(2);
    let order =
        ["caps", "enable", "command", "halt", "resume", "clear 7", "clear all", "disable", "withdraw 2"];
    assert_eq!(*log.borrow(), order);
    assert_eq!((host.ring(4), host.ack_ends(), host.ack_queue().done), (4, 5, 9));
    assert_eq!(host.queue_state().rung, 3);
}
