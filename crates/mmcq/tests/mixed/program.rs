//! Programs: requests with steps between them, a controller, a card, and what goes wrong. A program
//! depends on a seed only.

use super::card::{BLOCKS, Trouble};
use super::run::Run;
use crate::erased::Scheduled;
use mmcq::engine::{CardParams, Erase, FlushBy, StaysOpen};
use mmcq::host::{BusyDetect, Caps, Cause, Timing, Width};
use mmcq::sched::{
    Chained, Choice, Deadline, Fair, Fifo, Packed, Policy, Prompt, Queued, Waiting, deadline::DeadlineConfig,
    fair::FairConfig,
};

/// Number of handles, each of a client of its own.
pub const HANDLES: usize = 3;
/// Most blocks of a request.
pub const MOST: u32 = 12;

/// A source of numbers that depend on a seed only.
#[derive(Clone)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Read,
    Write,
    Zero,
    Erase(Erase),
    Flush,
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Submit {
        what: What,
        lba: u32,
        blocks: u32,
        handle: u8,
        durable: bool,
    },
    /// Cancels the nth request that is under way.
    Cancel(u8),
    TakeBack(u8),
    Halt,
    Suspend,
    Resume,
    Remove,
    /// The same card, or another one.
    Insert(bool),
    Supervisor(bool),
    Abort,
    Streams(StaysOpen),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    Fifo,
    Prompt,
    Deadline,
    Fair,
    Drawn,
    Latest,
}

/// The lanes beside the single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    None,
    Queue,
    Packs,
    Chains,
    All,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub lane: Lane,
    /// Whether the card names the failed entry of a pack.
    pub names: bool,
    pub sched: Sched,
    pub busy: BusyDetect,
    pub max_blocks: u32,
    pub stop: bool,
    pub count: bool,
    pub no_count: bool,
    pub continues: bool,
    pub cached: bool,
    pub reliable: u32,
    pub polls: u32,
    pub slow: bool,
    pub transferred: bool,
    pub stays: StaysOpen,
    pub settle: u32,
    pub prepared: u8,
    pub supervised: bool,
    /// How many steps the supervisor takes.
    pub helps_after: u32,
    /// How many times the supervisor fails first, and whether it then finds another card.
    pub fails: (u32, bool),
    pub zeros: bool,
    /// Each with the steps before it.
    pub ops: Vec<(u32, Op)>,
    pub plan: Vec<(usize, Trouble)>,
}

const CAUSES: [Cause; 3] = [Cause::Timeout, Cause::Crc, Cause::Dma];

fn trouble(d: &mut Draw) -> Trouble {
    match d.below(17) {
        0 | 1 => Trouble::Unheard(d.of(&CAUSES[..2])),
        2 => Trouble::Unanswered(d.of(&CAUSES[..2])),
        3 | 4 => Trouble::AnswerLost(d.of(&CAUSES[..2])),
        5 | 6 => Trouble::Data(d.below(6), d.of(&CAUSES), d.one_in(2)),
        7 => Trouble::Busy,
        8 => Trouble::Stop(d.one_in(2)),
        9 => Trouble::Silent(d.one_in(2)),
        10 => Trouble::Late,
        11 => Trouble::Program(d.below(8)),
        12 => Trouble::Refused,
        13 => Trouble::NoStart,
        14 => Trouble::Brownout(d.one_in(2)),
        15 => Trouble::Dropped(d.below(16) as u8),
        _ => d.of(&[Trouble::Evicted(0), Trouble::Evicted(1), Trouble::Retune]),
    }
}

impl Program {
    /// Returns a program without requests, on a controller and a card that can do all.
    pub const PLAIN: Program = Program {
        lane: Lane::None,
        names: false,
        sched: Sched::Fifo,
        busy: BusyDetect::Interrupt,
        max_blocks: 64,
        stop: true,
        count: true,
        no_count: false,
        continues: false,
        cached: true,
        reliable: 0,
        polls: 0,
        slow: false,
        transferred: false,
        stays: StaysOpen::WherePays,
        settle: 128,
        prepared: u8::MAX,
        supervised: true,
        helps_after: 0,
        fails: (0, false),
        zeros: false,
        ops: Vec::new(),
        plan: Vec::new(),
    };

    /// Returns the program of this seed.
    pub fn drawn(seed: u64) -> Program {
        let d = &mut Draw::new(seed);
        let transferred = d.one_in(5);
        let mut ops = Vec::new();
        let calm = d.one_in(3);
        let narrow = 4 + d.below(20);
        for _ in 0..2 + d.below(16) {
            let wait = if d.one_in(2) { 0 } else { d.below(6) };
            let handle = d.below(HANDLES as u32) as u8;
            let lba = d.below(narrow);
            let blocks = 1 + if d.one_in(2) { d.below(3) } else { d.below(MOST) };
            let sub = |what, durable| Op::Submit { what, lba, blocks, handle, durable };
            let op = match d.below(if calm { 19 } else { 25 }) {
                0..=6 => sub(What::Write, false),
                7..=10 => sub(What::Write, true),
                11 => sub(What::Zero, d.one_in(2)),
                12 => sub(What::Erase(d.of(&[Erase::Trim, Erase::Discard])), d.one_in(3)),
                13 | 14 => sub(What::Read, false),
                15..=18 => sub(What::Flush, false),
                19 => Op::Cancel(d.below(8) as u8),
                20 => Op::TakeBack(d.below(8) as u8),
                21 => d.of(&[Op::Halt, Op::Suspend, Op::Halt]),
                22 => Op::Resume,
                23 => d.of(&[
                    Op::Streams(StaysOpen::Always),
                    Op::Streams(StaysOpen::Never),
                    Op::Abort,
                    Op::Supervisor(false),
                    Op::Supervisor(true),
                ]),
                _ => {
                    if d.one_in(2) {
                        Op::Remove
                    } else {
                        Op::Insert(d.one_in(3))
                    }
                }
            };
            ops.push((wait, op));
        }
        let faults = d.of(&[0, 1, 1, 1, 2, 2, 3, 4]);
        let mut plan: Vec<(usize, Trouble)> = Vec::new();
        let mut at = 0;
        for n in 0..faults {
            at = if n > 0 && d.one_in(2) { at + 1 + d.below(3) as usize } else { 1 + d.below(40) as usize };
            let trouble = trouble(d);
            if plan.iter().all(|&(nth, _)| nth != at) {
                plan.push((at, trouble));
            }
        }
        Program {
            lane: d.of(&[Lane::None, Lane::None, Lane::Queue, Lane::Packs, Lane::Chains, Lane::All]),
            names: d.one_in(2),
            sched: d.of(&[
                Sched::Fifo,
                Sched::Fifo,
                Sched::Prompt,
                Sched::Deadline,
                Sched::Fair,
                Sched::Drawn,
                Sched::Drawn,
                Sched::Latest,
            ]),
            busy: d.of(&[
                BusyDetect::Interrupt,
                BusyDetect::Interrupt,
                BusyDetect::Status,
                BusyDetect::Level,
                BusyDetect::Response,
            ]),
            max_blocks: d.of(&[64, 64, 1, 2, 3, 4]),
            stop: !d.one_in(3),
            count: !d.one_in(3),
            no_count: d.one_in(5),
            continues: d.one_in(3),
            cached: d.one_in(2),
            reliable: d.of(&[0, 0, 1, 2, 4, u32::MAX]),
            polls: d.below(3),
            slow: d.one_in(3),
            transferred,
            stays: d.of(&[StaysOpen::WherePays, StaysOpen::Always, StaysOpen::Never]),
            settle: d.of(&[128, 128, 0, 2]),
            prepared: d.of(&[u8::MAX, 0, 2]),
            supervised: !d.one_in(5),
            helps_after: d.below(4),
            fails: (d.of(&[0, 0, 0, 1, 2]), d.one_in(12)),
            zeros: d.one_in(2),
            ops,
            plan,
        }
    }

    pub fn caps(&self) -> Caps {
        Caps::NONE
            .auto_stop(self.stop)
            .auto_count(self.count && !self.no_count)
            .no_count(self.no_count)
            .continue_data(self.continues)
            .busy(self.busy)
            .max_busy_ns(1_000_000_000)
            .max_segments(16)
            .max_segment_bytes(65_536)
            .max_block_bytes(512)
            .max_blocks(self.max_blocks)
            .max_bytes(524_288)
            .align(4)
            .dma_bits(32)
            .clock_hz((400_000, 200_000_000))
            .width(Width::W8)
            .timings(Caps::timing_bit(Timing::Legacy))
            .fixed(true)
    }

    pub fn target(&self) -> CardParams {
        let flush =
            if self.cached { FlushBy::EmmcCache { timeout_ns: 500_000_000 } } else { FlushBy::Status };
        CardParams::sd(1, BLOCKS as u64).emmc(true).write_timeout_ns(250_000_000).flush(flush)
    }

    /// Runs the program with a scheduler that may pick any request.
    fn scheduled(
        &self,
        policy: impl Policy + 'static,
        logs: bool,
    ) -> Result<Vec<String>, (String, Vec<String>)> {
        Run::new(self, Scheduled::new(policy), logs).all()
    }

    pub fn run(&self, logs: bool) -> Result<Vec<String>, (String, Vec<String>)> {
        match (self.lane, self.sched) {
            (Lane::Queue, Sched::Drawn | Sched::Latest) => {
                return Run::new(self, Queued(Scheduled::new(Drawn::new(self))), logs).all();
            }
            (Lane::Queue, _) => return Run::new(self, Queued(Fifo), logs).all(),
            (Lane::Packs, Sched::Drawn | Sched::Latest) => {
                return Run::new(self, Packed(Scheduled::new(Drawn::new(self))), logs).all();
            }
            (Lane::Packs, _) => return Run::new(self, Packed(Fifo), logs).all(),
            (Lane::Chains, Sched::Drawn | Sched::Latest) => {
                return Run::new(self, Chained(Scheduled::new(Drawn::new(self))), logs).all();
            }
            (Lane::Chains, _) => return Run::new(self, Chained(Fifo), logs).all(),
            (Lane::All, _) => return Run::new(self, Packed(Chained(Queued(Fifo))), logs).all(),
            (Lane::None, _) => {}
        }
        match self.sched {
            Sched::Fifo => Run::new(self, Fifo, logs).all(),
            Sched::Prompt => Run::new(self, Prompt(Fifo), logs).all(),
            Sched::Deadline => self.scheduled(Deadline::new(DeadlineConfig::DEFAULT), logs),
            Sched::Fair => self.scheduled(Fair::<4>::new(FairConfig::DEFAULT), logs),
            Sched::Drawn => self.scheduled(Drawn::new(self), logs),
            Sched::Latest => self.scheduled(Latest, logs),
        }
    }
}

/// A scheduler that picks any waiting request.
struct Drawn(Draw);

impl Drawn {
    fn new(program: &Program) -> Drawn {
        Drawn(Draw::new(program.ops.len() as u64 + 7))
    }
}

impl Policy for Drawn {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, _: u64) -> Choice {
        let count = waiting.clone().count() as u32;
        let nth = self.0.below(count) as usize;
        Choice::Go(waiting.clone().nth(nth).map_or(0, |request| request.index))
    }
}

/// A scheduler that picks the request that came last.
struct Latest;

impl Policy for Latest {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, _: u64) -> Choice {
        Choice::Go(waiting.last().map_or(0, |request| request.index))
    }
}
