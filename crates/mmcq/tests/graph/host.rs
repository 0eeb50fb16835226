//! The abstract controller of the graph tests: each of its results is a choice. Also its state,
//! which it shares with the code that drives the run.

use crate::card::{Card, Line, State};
use crate::choice::{Bad, Chooser};
use crate::judge::Judge;
use mmcq::host::{
    Auto, BusOp, BusyDetect, Caps, Direction, DmaError, Events, Host, Phase, Segment, StartError, Step,
    Timing, Width,
};
use mmcq::spec::command::Resp;
use std::cell::RefCell;
use std::rc::Rc;

/// Time of a late reset, in nanoseconds.
const LATE_NS: u64 = 50_000_000;
/// Time until a removed card comes back, in nanoseconds.
const AWAY_NS: u64 = 100_000_000;

/// The properties of a workload's controller.
#[derive(Clone, Copy)]
pub struct Board {
    pub caps: Caps,
    /// Whether a reset of the whole controller switches the card's supply off for a moment.
    pub reset_unpowers: bool,
    /// Largest number of mappings at a time.
    pub maps: usize,
    /// Whether fewer faults are tried: a command of the supervisor fails only in ways with
    /// different consequences, and only the first poll of a wait fails.
    pub thrifty: bool,
    /// Whether a card may stay busy for ever.
    pub sticks: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// The end of the phase is not chosen yet.
    Open,
    /// The phase has ended, and the next read of the events returns this end.
    Ready(Option<Bad>),
    /// The phase never ends.
    Never,
}

pub struct World {
    pub now: u64,
    pub board: Board,
    pub chooser: Chooser,
    pub card: Card,
    pub judge: Judge,
    running: Option<Phase>,
    answer: Answer,
    resetting: bool,
    late_until: u64,
    /// Number of polls of a busy card in a row, or number of blocks of a tuning.
    questions: u32,
    /// Whether the last phase was a tuning block. If it failed, the reset of the lines belongs to
    /// the tuning too.
    tunes: bool,
    /// Number of phases that have ended.
    pub ended: u64,
    pub timing: Timing,
    pub tuned: bool,
    pub clocked: bool,
    maps: Vec<(u64, u32)>,
    presence: bool,
    pub inserts_at: u64,
    /// Lines of a trace; `None`: no trace is wanted.
    pub log: Option<Vec<String>>,
}

impl World {
    pub fn new(board: Board, card: Card) -> World {
        World {
            now: 1_000_000,
            board,
            chooser: Chooser::default(),
            card,
            judge: Judge::default(),
            running: None,
            answer: Answer::Never,
            resetting: false,
            late_until: 0,
            questions: 0,
            tunes: false,
            ended: 0,
            timing: Timing::Legacy,
            tuned: false,
            clocked: false,
            maps: Vec::new(),
            presence: false,
            inserts_at: u64::MAX,
            log: None,
        }
    }

    pub fn say(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>12} us  {}", self.now / 1_000, text()));
        }
    }

    /// Returns which of these faults happens now, if any. Polls of a busy card after the second one
    /// (with [`Board::thrifty`] after the first) get no fault, because a fault there has no new
    /// consequences.
    pub fn choose(&mut self, alternatives: &[Bad]) -> Option<Bad> {
        if self.questions > if self.board.thrifty { 1 } else { 2 } {
            return None;
        }
        let bad = self.chooser.choose(alternatives)?;
        self.judge.bad.push((self.now, bad));
        self.judge.bad_in_help += usize::from(self.judge.helping);
        self.say(|| format!("---- {bad:?}"));
        Some(bad)
    }

    pub fn mapped(&self) -> usize {
        self.maps.len()
    }

    /// Returns whether the engine is in the middle of polling a busy card.
    pub fn only_asks(&self) -> bool {
        self.questions > 3
    }

    pub fn running(&self) -> Option<u8> {
        self.running.map(|phase| phase.command.index)
    }

    /// Decides how the phase in progress ends. Returns true if there is an interrupt.
    pub fn decide(&mut self) -> bool {
        let Some(phase) = self.running else { return self.presence };
        if self.answer != Answer::Open {
            return self.presence;
        }
        let (alternatives, count) = alternatives(&phase, &self.card, self.judge.helping, &self.board);
        let bad = self.choose(&alternatives[..count]);
        self.answer = Answer::Ready(bad);
        match bad {
            Some(Bad::Silence) => self.answer = Answer::Never,
            Some(Bad::LostInterrupt) => return self.presence,
            Some(Bad::BrownOut) => {
                let World { card, judge, .. } = self;
                card.lose_state(judge);
            }
            Some(Bad::Mute) => self.card.mute = true,
            Some(Bad::Noise) => self.card.noise = true,
            Some(Bad::Swapped) => {
                let World { card, judge, .. } = self;
                card.swap(judge);
                self.judge.card_changed();
            }
            Some(Bad::Removed | Bad::Returned | Bad::Replaced) => {
                let World { card, judge, .. } = self;
                card.lose_state(judge);
                card.present = false;
                judge.card_changed();
                (self.presence, self.answer) = (true, Answer::Never);
                if bad == Some(Bad::Replaced) {
                    self.card.swap(&mut self.judge);
                }
                if bad != Some(Bad::Removed) {
                    self.inserts_at = self.now + AWAY_NS;
                }
            }
            _ => {}
        }
        true
    }

    /// Inserts the card that was removed.
    pub fn insert(&mut self) {
        self.questions = 0;
        self.inserts_at = u64::MAX;
        self.card.present = true;
        self.presence = true;
    }
}

/// Returns the faults that may happen in this phase, and their number. For a command of the
/// supervisor only faults with different consequences are listed.
fn alternatives(phase: &Phase, card: &Card, helping: bool, board: &Board) -> ([Bad; 24], usize) {
    let mut list = [Bad::Gone; 24];
    let mut count = 0;
    let mut add = |bad| {
        list[count] = bad;
        count += 1;
    };
    let command = &phase.command;
    let transfer = matches!(command.index, 17 | 18 | 24 | 25);
    let continued = phase.auto == Auto::Continue;
    let answered = command.resp != Resp::None;
    if answered && !continued {
        add(Bad::CommandLost);
        add(Bad::ResponseDamaged);
    }
    add(Bad::Silence);
    // A supervisor's command that fails by these faults has the same effect as a lost command.
    let few = helping && board.thrifty;
    if phase.data.is_some() && !few {
        add(Bad::DataDamaged);
    }
    add(Bad::BrownOut);
    if !card.mute {
        add(Bad::Mute);
    }
    if matches!(command.resp, Resp::R1 | Resp::R1b) && !continued && !few {
        add(Bad::StatusError);
    }
    add(Bad::Removed);
    if helping {
        return (list, count);
    }
    add(Bad::LostInterrupt);
    add(Bad::RetuneAsked);
    add(Bad::Returned);
    add(Bad::Replaced);
    if card.identity == 0 {
        add(Bad::Swapped);
    }
    add(Bad::Gone);
    if transfer {
        add(Bad::DataMissing);
        add(Bad::DmaFault);
        if !card.noise {
            add(Bad::Noise);
        }
        if !continued {
            add(Bad::Refused);
        }
    }
    if matches!(command.index, 24 | 25) {
        add(Bad::ProgramFails);
    }
    let shown = board.caps.busy == BusyDetect::Interrupt || matches!(command.index, 12 | 6 | 38);
    if matches!(command.index, 24 | 25 | 12 | 6 | 38) && shown && !continued && board.sticks {
        add(Bad::Stuck);
    }
    (list, count)
}

pub struct Puppet {
    pub world: Rc<RefCell<World>>,
    caps: Caps,
}

impl Puppet {
    pub fn new(world: &Rc<RefCell<World>>) -> Puppet {
        let caps = world.borrow().board.caps;
        Puppet { world: world.clone(), caps }
    }
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.
unsafe impl Host for Puppet {
    const CONTINUES: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        let mut world = self.world.borrow_mut();
        if world.maps.len() >= world.board.maps || world.choose(&[Bad::MapExhausted]).is_some() {
            return Err(DmaError::Exhausted);
        }
        segment.set_bus(segment.ptr().as_ptr() as u64);
        let map = (segment.bus(), segment.len_bytes());
        world.maps.push(map);
        Ok(())
    }

    fn unmap(&mut self, segment: &Segment, _: Direction) {
        let mut world = self.world.borrow_mut();
        let at = world.maps.iter().position(|&map| map == (segment.bus(), segment.len_bytes()));
        match at {
            Some(at) => drop(world.maps.swap_remove(at)),
            None => world.judge.violation("unmapped what was never mapped"),
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _: u64) -> Result<(), StartError> {
        let mut world = self.world.borrow_mut();
        if world.running.is_some() {
            world.judge.violation("a phase was started while another ran");
        }
        if world.resetting {
            return Err(StartError::CommandLine);
        }
        for segment in segments {
            let end = segment.bus() + u64::from(segment.len_bytes());
            let inside = |&(at, len): &(u64, u32)| segment.bus() >= at && end <= at + u64::from(len);
            if !phase.tuning && !world.maps.iter().any(inside) {
                world.judge.violation("a segment is not mapped");
            }
        }
        if phase.command.index != 13 && !phase.tuning {
            world.questions = 0;
        }
        if world.choose(&[Bad::StartRefused]).is_some() {
            return Err(StartError::CommandLine);
        }
        world.say(|| {
            let blocks = phase.data.map_or(0, |data| data.blocks);
            format!("CMD{} {:#x} x{blocks} {:?}", phase.command.index, phase.command.arg, phase.auto)
        });
        world.running = Some(*phase);
        world.answer = Answer::Open;
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut world = self.world.borrow_mut();
        let mut events = Events { presence: std::mem::take(&mut world.presence), ..Events::default() };
        let (Some(phase), Answer::Ready(bad)) = (world.running, world.answer) else { return events };
        world.running = None;
        world.answer = Answer::Never;
        events.retune = bad == Some(Bad::RetuneAsked);
        let untuned = world.timing == Timing::Hs200 && !world.tuned && !phase.tuning;
        let garbled = world.timing != world.card.timing || untuned;
        let line = Line { garbled, timing: world.timing };
        world.ended += 1;
        let busy = phase.command.index == 13 && world.card.state == State::Prg;
        world.tunes = phase.tuning;
        world.questions = if busy || phase.tuning { world.questions + 1 } else { 0 };
        let World { card, judge, .. } = &mut *world;
        let mut result = card.execute(&phase, segments, bad, line, judge);
        if !world.clocked && result.is_ok() {
            world.judge.violation("a command without a clock was answered");
        }
        if phase.tuning {
            match &mut result {
                Ok(done) if done.tuned => world.tuned = true,
                _ => {}
            }
        }
        world.say(|| match &result {
            Ok(done) => format!("  ok {:#x}", done.response.words[0]),
            Err(fault) => format!("  {:?} in {:?}", fault.cause, fault.stage),
        });
        events.phase = Some(result);
        events
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        let mut world = self.world.borrow_mut();
        let reset = matches!(op, BusOp::ResetLines | BusOp::ResetAll);
        if first {
            if op != BusOp::ResetLines || !world.tunes {
                world.questions = 0;
            }
            world.say(|| format!("{op:?}"));
            world.late_until = 0;
            let bad = match (reset, op) {
                (true, _) => world.choose(&[Bad::ResetHangs, Bad::ResetLate]),
                (_, BusOp::Clock(1..) | BusOp::Signal18(true)) => world.choose(&[Bad::BusFails]),
                _ => None,
            };
            match bad {
                Some(Bad::ResetHangs) if op == BusOp::ResetAll => world.judge.wedged = true,
                Some(Bad::ResetLate) => {
                    world.resetting = true;
                    world.late_until = now_ns + LATE_NS;
                }
                _ => {}
            }
            if matches!(bad, Some(Bad::ResetHangs | Bad::BusFails)) {
                return Step::Failed;
            }
        }
        if now_ns < world.late_until {
            return Step::Wait(world.late_until);
        }
        world.resetting = false;
        let World { card, judge, board, .. } = &mut *world;
        match op {
            BusOp::PowerOff => card.power(false, judge),
            BusOp::PowerOn => card.power(true, judge),
            BusOp::ResetAll if board.reset_unpowers => {
                card.power(false, judge);
                card.power(true, judge);
            }
            _ => {}
        }
        match op {
            BusOp::ResetLines | BusOp::ResetAll | BusOp::PowerOff => {
                world.running = None;
                world.answer = Answer::Never;
                if op == BusOp::ResetAll {
                    world.tuned = false;
                }
            }
            BusOp::Timing(timing) => (world.timing, world.tuned) = (timing, false),
            BusOp::Clock(hz) => world.clocked = hz != 0,
            BusOp::TuneStart | BusOp::TuneAbort => world.tuned = false,
            _ => {}
        }
        Step::Done
    }

    fn dat0_busy(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        self.world.borrow().card.present
    }
}

/// Capabilities of a controller that sends automatic commands and detects the end of busy itself.
pub const CAPS: Caps = Caps::NONE
    .auto_stop(true)
    .auto_count(true)
    .no_count(false)
    .busy(BusyDetect::Interrupt)
    .max_busy_ns(1_000_000_000)
    .max_segments(8)
    .max_segment_bytes(65_536)
    .max_blocks(65_535)
    .max_block_bytes(512)
    .max_bytes(524_288)
    .align(4)
    .dma_bits(64)
    .clock_hz((400_000, 200_000_000))
    .width(Width::W8)
    .timings(
        Caps::timing_bit(Timing::Legacy)
            | Caps::timing_bit(Timing::HighSpeed)
            | Caps::timing_bit(Timing::Hs200),
    )
    .signal18(true);
