//! A controller with an eMMC that has a cache, for programs of requests with faults.
//!
//! Each block holds one word. The card keeps what a read returns apart from what is on the medium,
//! and reports each error in one response only. A plan of faults says what goes wrong in which
//! phase. A list of notes tells the test what the card has lost.

use mmcq::host::{Caps, Cause, Direction, Phase};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;

pub const BLOCKS: usize = 48;
/// The word of a block that was never written.
pub const NEVER: u32 = u32::MAX;
/// The word of an erased block.
pub const ERASED: u32 = 0;

/// What goes wrong in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The command does not reach the card.
    Unheard(Cause),
    /// The card has accepted the command, but its response is lost; no data are transferred.
    Unanswered(Cause),
    /// The response is lost, and all data are transferred.
    AnswerLost(Cause),
    /// So many blocks are transferred, then the data fail. The controller has the response or not.
    Data(u32, Cause, bool),
    /// All was executed, and the end of the busy was not seen.
    Busy,
    /// The automatic CMD12 has no response; it was executed or not.
    Stop(bool),
    /// The controller never reports an end; the phase was executed or not.
    Silent(bool),
    /// The interrupt is lost.
    Late,
    /// The block with this number of the transfer is not programmed.
    Program(u32),
    /// The card refuses the command.
    Refused,
    /// The start is refused.
    NoStart,
    /// The card loses its supply for a moment, before the phase or after it.
    Brownout(bool),
    /// The card gives up a block of its cache.
    Dropped(u8),
    /// The card writes half of its cache to the medium.
    Evicted(u8),
    /// The controller wants a tuning.
    Retune,
}

/// What the card has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// All that was in the cache.
    Cache,
    /// This block of the cache, with an error in the next response.
    Block(usize),
    /// This block was not programmed, with an error in the next response.
    Spoilt(usize),
    /// A response with such an error was lost. This block was concerned.
    Untold(usize),
}

/// A transfer of a chain: its phase, and its memory.
pub type Link = (Phase, Vec<(NonNull<u8>, u32)>);

/// A task of the card's queue.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub read: bool,
    pub reliable: bool,
    pub blocks: u32,
    pub lba: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub direction: Direction,
    pub next: u64,
    /// Blocks that CMD23 has announced and that are still to come; 0: no CMD23 was sent.
    pub counted: u32,
}

pub struct Card {
    pub caps: Caps,
    /// What reads return, and what is on the medium.
    pub seen: [u32; BLOCKS],
    pub medium: [u32; BLOCKS],
    /// Blocks whose content is not surely on the medium.
    pub volatile: [bool; BLOCKS],
    /// Whether the cache is on.
    pub cached: bool,
    /// Blocks of a reliable write.
    pub reliable: u32,
    /// Polls after a write that find the card busy.
    pub polls: u32,
    pub open: Option<Open>,
    pub count: u32,
    pub reliable_next: bool,
    pub busy: u32,
    /// Whether the card has lost its state, and answers nothing.
    pub lost: bool,
    pub errors: u32,
    /// Blocks of which `errors` tells, and those of which the last response tells.
    pub untold: Vec<usize>,
    pub telling: Vec<usize>,
    pub erase: (usize, usize),
    /// Whether the command queue is on; the argument of the last CMD44; the tasks.
    pub queue: bool,
    pub params: Option<u32>,
    pub tasks: [Option<Task>; 32],
    /// Whether the next transfer is packed, and the entries of its header: address, blocks, and
    /// whether they are reliable.
    pub packed: bool,
    pub entries: Vec<(u32, u32, bool)>,
    /// The entry of the last pack that failed, counted from 1.
    pub failed_entry: u8,
    /// Whether a failed entry is named by an exception.
    pub names: bool,
    /// The transfers of a chain that are left, and the number of those that have ended.
    pub chain: Vec<Link>,
    pub passed: Option<u8>,
    pub notes: Vec<Note>,
    /// The same, after the last response.
    pub later: Vec<Note>,
    pub plan: BTreeMap<usize, Trouble>,
    /// Number of phases that were started.
    pub phases: usize,
    pub log: Vec<String>,
    pub logs: bool,
    pub mapped: Vec<(usize, u32)>,
    pub running: Option<Phase>,
    pub silent: bool,
    pub late: bool,
    /// Whether data end with the second look at the controller, and the first has the response.
    pub slow: bool,
    pub looked: bool,
    pub told: u32,
    pub resetting: bool,
    pub present: bool,
    pub presence: bool,
    pub salt: u32,
}

impl Card {
    pub fn new(caps: Caps) -> Rc<RefCell<Card>> {
        Rc::new(RefCell::new(Card {
            caps,
            seen: [NEVER; BLOCKS],
            medium: [NEVER; BLOCKS],
            volatile: [false; BLOCKS],
            cached: false,
            reliable: 0,
            polls: 0,
            open: None,
            count: 0,
            reliable_next: false,
            busy: 0,
            lost: false,
            errors: 0,
            untold: Vec::new(),
            telling: Vec::new(),
            erase: (0, 0),
            queue: false,
            params: None,
            tasks: [None; 32],
            packed: false,
            entries: Vec::new(),
            failed_entry: 0,
            names: false,
            chain: Vec::new(),
            passed: None,
            notes: Vec::new(),
            later: Vec::new(),
            plan: BTreeMap::new(),
            phases: 0,
            log: Vec::new(),
            logs: false,
            mapped: Vec::new(),
            running: None,
            silent: false,
            late: false,
            slow: false,
            looked: false,
            told: 0,
            resetting: false,
            present: true,
            presence: false,
            salt: 0,
        }))
    }

    pub fn mapped(&self) -> usize {
        self.mapped.len()
    }

    /// Returns whether the next call of the driver brings something.
    pub fn answers(&self) -> bool {
        ((self.running.is_some() || self.passed.is_some()) && self.present && !self.silent && !self.resetting
            || self.presence)
            && !self.late
    }

    pub fn say(&mut self, what: impl FnOnce() -> String) {
        if self.logs {
            self.log.push(what());
        }
    }

    /// Returns a number that differs from call to call.
    pub fn draw(&mut self) -> u32 {
        self.salt = self.salt.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.salt >> 16
    }

    /// The supply fails, or the card is initialised: what is only in the cache is lost.
    pub fn lose(&mut self) {
        self.say(|| "the cache is lost".into());
        for at in 0..BLOCKS {
            if self.volatile[at] {
                self.seen[at] = self.medium[at];
            }
        }
        self.volatile = [false; BLOCKS];
        (self.open, self.count, self.reliable_next, self.busy, self.errors) = (None, 0, false, 0, 0);
        self.untold.clear();
        (self.queue, self.params, self.tasks, self.packed) = (false, None, [None; 32], false);
        self.notes.push(Note::Cache);
    }

    /// Initialises the card.
    pub fn initialise(&mut self) {
        self.lose();
        self.lost = false;
    }

    pub fn remove(&mut self) {
        self.lose();
        (self.present, self.presence) = (false, true);
    }

    pub fn insert(&mut self) {
        (self.present, self.presence, self.lost) = (true, true, true);
    }

    pub fn flush(&mut self) {
        for at in 0..BLOCKS {
            self.medium[at] = self.seen[at];
        }
        self.volatile = [false; BLOCKS];
    }

    /// Without a cache the blocks are on the medium when the transfer and its busy are over.
    pub fn rest(&mut self) {
        if !self.cached && self.open.is_none() && self.busy == 0 {
            self.flush();
        }
    }

    pub fn drop_one(&mut self, nth: u8) {
        let dirty: Vec<usize> = (0..BLOCKS).filter(|&at| self.volatile[at]).collect();
        if dirty.is_empty() || !self.cached {
            return;
        }
        let at = dirty[usize::from(nth) % dirty.len()];
        self.say(|| format!("block {at} falls out of the cache"));
        self.seen[at] = self.medium[at];
        self.volatile[at] = false;
        self.errors |= R1::ERROR;
        self.untold.push(at);
        self.notes.push(Note::Block(at));
    }

    /// Makes the R1 of a command, which has the errors before it.
    pub fn r1(&mut self, is_status: bool) -> u32 {
        let state = match self.open {
            Some(Open { direction: Direction::Read, .. }) => 5,
            Some(Open { direction: Direction::Write, .. }) => 6,
            None if self.busy > 0 => 7,
            None => 4,
        };
        let ready = if self.busy > 0 { 0 } else { R1::READY_FOR_DATA };
        if is_status {
            self.busy = self.busy.saturating_sub(1);
            self.rest();
        }
        self.telling.append(&mut self.untold);
        let exception = if self.failed_entry > 0 { R1::EXCEPTION_EVENT } else { 0 };
        std::mem::take(&mut self.errors) | state << 9 | ready | exception
    }

    /// Notes whether the controller got the last response.
    pub fn heard(&mut self, heard: bool) {
        for at in std::mem::take(&mut self.telling) {
            if !heard {
                self.notes.push(Note::Untold(at));
            }
        }
    }
}
