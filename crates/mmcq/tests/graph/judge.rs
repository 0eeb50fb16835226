//! The rules that must hold in every run of the graph tests, and the violations of a run.

use crate::card::{BLOCKS, Blocks, Card, Tag};
use crate::choice::Bad;
use mmcq::engine::Error;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Write,
    Durable,
    Read,
    Flush,
    Erase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The request has no result yet.
    Pending,
    /// The client has cancelled the request while it was under way: the request may be done, or
    /// not.
    Orphan,
    /// The request was taken back before it began.
    Withdrawn,
    Answered(Result<(), Error>),
}

pub struct Asked {
    pub work: Work,
    pub area: u8,
    pub lba: u32,
    pub blocks: u32,
    pub fate: Fate,
    /// Number of the card that the request is for.
    identity: u8,
    /// Whether the loss of its data was reported.
    forgiven: bool,
    /// Requests that had their results before this request was submitted; bit n stands for request
    /// number n + 1.
    answered_before: u64,
}

impl Asked {
    fn covers(&self, area: u8, lba: u32) -> bool {
        self.area == area && (self.lba..self.lba + self.blocks).contains(&lba)
    }

    /// Returns whether the request transfers data on the bus.
    pub fn moves(&self) -> bool {
        matches!(self.work, Work::Write | Work::Durable | Work::Read)
    }

    fn changes(&self) -> bool {
        matches!(self.work, Work::Write | Work::Durable | Work::Erase)
    }
}

#[derive(Default)]
pub struct Judge {
    /// All submitted requests, by number; the first has the number 1.
    pub asked: Vec<Asked>,
    /// The faults of the run, with their times.
    pub bad: Vec<(u64, Bad)>,
    pub violations: Vec<&'static str>,
    /// Whether the supervisor sends commands to the card now.
    pub helping: bool,
    /// Number of faults during the commands of the supervisor.
    pub bad_in_help: usize,
    /// Whether no reset could stop the controller.
    pub wedged: bool,
    /// Time since which every request has its result and nothing is under way.
    pub rest_ns: Option<u64>,
    /// Time of the supervisor's first event, which is the end of the bring-up in a cold run.
    pub up_ns: Option<u64>,
    /// Whether a cache has lost its content.
    cache_lost: bool,
    changed: bool,
}

impl Judge {
    pub fn violation(&mut self, what: &'static str) {
        if !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }

    fn get(&self, serial: u8) -> Option<&Asked> {
        self.asked.get(usize::from(serial).checked_sub(1)?)
    }

    pub fn has(&self, bad: impl Fn(Bad) -> bool) -> bool {
        self.bad.iter().any(|&(_, b)| bad(b))
    }

    pub fn cache_was_lost(&mut self) {
        self.cache_lost = true;
    }

    pub fn card_changed(&mut self) {
        self.changed = true;
    }

    pub fn ask(&mut self, work: Work, area: u8, lba: u32, blocks: u32, identity: u8) -> u8 {
        let answered_before = self.answered_mask();
        let fate = Fate::Pending;
        let forgiven = false;
        self.asked.push(Asked { work, area, lba, blocks, fate, identity, forgiven, answered_before });
        self.asked.len() as u8
    }

    fn answered_mask(&self) -> u64 {
        let mut mask = 0;
        for (nth, asked) in self.asked.iter().enumerate() {
            if matches!(asked.fate, Fate::Answered(_)) {
                mask |= 1 << nth;
            }
        }
        mask
    }

    /// Finds a submitted erase that may erase this block now. Returns its tag, which the block has
    /// afterwards. Without such an erase, records a violation and returns `before`.
    pub fn erases(&mut self, area: u8, lba: u32, before: Tag) -> Tag {
        let found = self.asked.iter().position(|asked| {
            asked.work == Work::Erase && asked.covers(area, lba) && asked.fate == Fate::Pending
                || asked.work == Work::Erase && asked.covers(area, lba) && asked.fate == Fate::Orphan
        });
        match found {
            Some(nth) => Tag::new(nth as u8 + 1, area, lba),
            None => {
                self.violation("blocks were erased that no request names");
                before
            }
        }
    }

    /// Checks whether the card `identity` was allowed to write this tag to this block, which had
    /// the tag `before`.
    pub fn landed(&mut self, identity: u8, area: u8, lba: u32, tag: Tag, before: Tag) {
        if tag.place() != (area, lba) {
            return self.violation("data of one place were written to another");
        }
        let Some(asked) = self.get(tag.serial()) else {
            return self.violation("data were written that no request asked for");
        };
        let (fate, meant) = (asked.fate, asked.identity);
        if matches!(fate, Fate::Answered(_) | Fate::Withdrawn) {
            self.violation("data were written after the answer");
        }
        if meant != identity {
            self.violation("data were written to another card");
        }
        if before.serial() > tag.serial() {
            self.violation("older data were written over newer");
        }
    }

    pub fn answered(&mut self, serial: u8, result: Result<(), Error>, read: &[Tag], card: &Card) {
        let Some(asked) = self.asked.get_mut(usize::from(serial) - 1) else { return };
        if !matches!(asked.fate, Fate::Pending) {
            return self.violation("a request was answered twice");
        }
        asked.fate = Fate::Answered(result);
        let (work, area, lba, identity) = (asked.work, asked.area, asked.lba, asked.identity);
        let before = asked.answered_before;
        match (work, result) {
            (Work::Read, Ok(())) => {
                for (place, &tag) in (lba..).zip(read) {
                    self.read(serial, area, place, tag);
                }
            }
            (Work::Flush, Ok(())) => {
                for nth in 0..usize::from(serial) - 1 {
                    let asked = &self.asked[nth];
                    let done = asked.fate == Fate::Answered(Ok(())) && before >> nth & 1 != 0;
                    if done && asked.changes() && !asked.forgiven && !is_on(&card.media, asked, nth as u8 + 1)
                    {
                        self.violation("a flush was well, and what was written before is not on the medium");
                        break;
                    }
                }
            }
            (Work::Flush, Err(_)) | (Work::Durable, Err(Error::CacheLost)) => {
                for asked in &mut self.asked {
                    asked.forgiven = true;
                }
            }
            (Work::Durable, Ok(())) if !is_on(&card.media, &self.asked[usize::from(serial) - 1], serial) => {
                self.violation("a durable write was well, and is not on the medium");
            }
            (Work::Write | Work::Erase, Ok(())) => {
                let asked = &self.asked[usize::from(serial) - 1];
                let there = (lba..lba + asked.blocks)
                    .all(|place| card.newest(identity, area, place).serial() >= serial);
                if !there && !self.cache_lost {
                    self.violation("a write was well, and the card does not have it");
                }
            }
            _ => {}
        }
    }

    /// Checks whether a read may return this block.
    fn read(&mut self, serial: u8, area: u8, lba: u32, tag: Tag) {
        if tag.place() != (area, lba) {
            return self.violation("a read brought the data of another place");
        }
        if tag.serial() >= serial {
            return self.violation("a read brought what was written after it");
        }
        let certain = self.asked[..usize::from(serial) - 1].iter().rposition(|asked| {
            asked.changes() && asked.covers(area, lba) && asked.fate == Fate::Answered(Ok(()))
        });
        let newest = certain.map_or(0, |nth| nth as u8 + 1);
        if tag.serial() < newest && !self.cache_lost && !self.changed {
            self.violation("a read brought what had been overwritten");
        }
    }

    /// Checks, when every request has its result, that the card has all data that it must have.
    pub fn at_rest(&mut self, card: &Card) {
        if self.asked.iter().any(|asked| asked.fate == Fate::Pending) {
            self.violation("a request was never answered");
        }
        for nth in 0..self.asked.len() {
            let asked = &self.asked[nth];
            if asked.changes()
                && asked.fate == Fate::Answered(Ok(()))
                && !asked.forgiven
                && !(asked.lba..asked.lba + asked.blocks)
                    .all(|lba| card.newest(asked.identity, asked.area, lba).serial() > nth as u8)
            {
                self.violation("a write is lost, and no flush has told");
            }
        }
    }
}

fn is_on(media: &[Blocks; 2], asked: &Asked, serial: u8) -> bool {
    (asked.lba..asked.lba + asked.blocks).all(|lba| {
        let tag = media[asked.identity as usize][asked.area as usize][lba as usize % BLOCKS];
        tag.serial() >= serial
    })
}
