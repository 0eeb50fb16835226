//! What the [`Card`] does in a phase.

use super::card::{Card, ERASED, Note, Open, Task, Trouble};
use mmcq::host::{Auto, BusyDetect, Cause, Direction, Done, Fault, Phase, Segment, Stage};
use mmcq::spec::response::{R1, Response};

const BYTES: usize = 512;

impl Card {
    /// Transfers blocks between the card and the memory, to these places. `spoilt`: this one is not
    /// programmed.
    fn transfer(
        &mut self,
        direction: Direction,
        places: &[(usize, bool)],
        segments: &[Segment],
        spoilt: Option<usize>,
    ) {
        let words = segments.iter().flat_map(|segment| {
            // SAFETY: inside of the segment.
            let word = |at| unsafe { segment.ptr().add(at).cast::<u32>() };
            (0..segment.len_bytes() as usize).step_by(BYTES).map(word)
        });
        for (nth, (&(block, reliable), word)) in places.iter().zip(words).enumerate() {
            match direction {
                // SAFETY: the engine lends the memory until the transfer ends, and it is aligned.
                Direction::Read => unsafe { word.write(self.seen[block]) },
                Direction::Write if spoilt == Some(nth) => {
                    self.errors |= R1::ERROR;
                    self.notes.push(Note::Spoilt(block));
                }
                Direction::Write => {
                    // SAFETY: as above.
                    self.seen[block] = unsafe { word.read() };
                    self.volatile[block] = !reliable;
                    if reliable {
                        self.medium[block] = self.seen[block];
                    }
                }
            }
        }
    }

    /// Carries out a phase, with what goes wrong in it.
    pub fn execute(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        trouble: Option<Trouble>,
        detect: BusyDetect,
    ) -> Result<Done, Fault> {
        let fault = |cause, stage, response| Err(Fault { cause, stage, response });
        let (index, arg) = (phase.command.index, phase.command.arg);
        let continued = phase.auto == Auto::Continue;
        if let Some(Trouble::Unheard(cause)) = trouble
            && !continued
        {
            return fault(cause, Stage::Command, None);
        }
        if self.lost && !continued {
            return fault(Cause::Timeout, Stage::Command, None);
        }
        if index == 12 && self.open.is_none() {
            return fault(Cause::Timeout, Stage::Command, None);
        }
        if self.lost && continued {
            return fault(Cause::Timeout, Stage::Data, None);
        }
        if let Auto::Count(count) = phase.auto {
            (self.count, self.reliable_next) = (count & 0xffff, count >> 31 != 0);
        }
        assert!(
            self.open.is_none() || continued || matches!(index, 12 | 13),
            "CMD{index} in an open transfer"
        );
        let mut done = Done::default();
        if self.queue {
            assert!(matches!(index, 6 | 12 | 13 | 44..=48), "CMD{index} while the queue is on");
        } else {
            assert!(!matches!(index, 44..=47), "CMD{index} while the queue is off");
        }
        if index == 13 && arg >> 15 & 1 != 0 {
            let ready = (0..32).filter(|&n| self.tasks[n].is_some()).fold(0, |set, n| set | 1u32 << n);
            if let Some(Trouble::Unanswered(cause) | Trouble::AnswerLost(cause)) = trouble {
                return fault(cause, Stage::Command, None);
            }
            done.response = Response::short(ready);
            return Ok(done);
        }
        let status = if continued { 0 } else { self.r1(index == 13) } | self.told;
        if trouble == Some(Trouble::Refused) && !continued && !matches!(index, 12 | 13) {
            (self.count, self.reliable_next) = (0, false);
            done.response = Response::short(status | R1::ADDRESS_ERROR);
            return match phase.data {
                // No data follow.
                Some(_) => fault(Cause::Timeout, Stage::Data, Some(done.response)),
                None => Ok(done),
            };
        }
        let mut task = None;
        let polls = if detect == BusyDetect::Interrupt { 0 } else { self.polls };
        match index {
            12 => {
                let open = self.open.take();
                let wrote = open.is_some_and(|open| open.direction == Direction::Write);
                if wrote && detect != BusyDetect::Response {
                    self.busy = polls;
                }
                self.rest();
            }
            23 => {
                (self.count, self.reliable_next) = (arg & 0xffff, arg >> 31 != 0);
                self.packed = arg >> 30 & 1 != 0;
            }
            6 if arg >> 16 & 0xff == 32 => {
                if let Some(Trouble::Program(nth)) = trouble {
                    self.drop_one(nth as u8);
                }
                self.flush();
                self.busy = polls;
            }
            6 if arg >> 16 & 0xff == 15 => {
                // A card whose queue is switched off forgets its tasks.
                (self.queue, self.tasks) = (arg >> 8 & 1 != 0, [None; 32]);
                self.busy = polls;
            }
            44 => self.params = Some(arg),
            45 => {
                let params = self.params.take().expect("CMD45 without CMD44");
                let id = (params >> 16 & 31) as usize;
                assert!(self.tasks[id].is_none(), "task {id} is on the card");
                self.tasks[id] = Some(Task {
                    read: params >> 30 & 1 != 0,
                    reliable: params >> 31 != 0,
                    blocks: params & 0xffff,
                    lba: arg,
                });
            }
            46 | 47 => {
                task = self.tasks[(arg >> 16 & 31) as usize].take();
                let task = task.expect("no such task");
                let data = phase.data.expect("a task has data");
                assert_eq!((task.read, task.blocks), (index == 46, data.blocks));
                assert_eq!(task.read, data.direction == Direction::Read);
            }
            48 => {
                (self.tasks, self.params) = ([None; 32], None);
                self.busy = polls;
            }
            35 => self.erase.0 = arg as usize,
            36 => self.erase.1 = arg as usize,
            38 => {
                let (first, last) = self.erase;
                for at in first..=last {
                    if arg == 3 && self.draw().is_multiple_of(2) {
                        continue;
                    }
                    self.seen[at] = ERASED;
                    self.volatile[at] = true;
                }
                self.busy = polls;
                self.rest();
            }
            _ => {}
        }
        if index != 23 && phase.data.is_none() {
            // CMD23 is for the next command alone.
            (self.count, self.reliable_next, self.packed) = (0, false, false);
        }
        if index == 8 {
            // SAFETY: as in `transfer`.
            let page = unsafe { std::slice::from_raw_parts_mut(segments[0].ptr().as_ptr(), BYTES) };
            page.fill(0);
            (page[54], page[36], page[35]) =
                if self.failed_entry > 0 { (8, 3, self.failed_entry) } else { (0, 0, 0) };
            if let Some(Trouble::Unanswered(cause) | Trouble::AnswerLost(cause)) = trouble {
                return fault(cause, Stage::Command, None);
            }
            if let Some(Trouble::Data(_, cause, _)) = trouble {
                self.open = Some(Open { direction: Direction::Read, next: 0, counted: 0 });
                return fault(cause, Stage::Data, None);
            }
            self.failed_entry = 0;
            done.response = Response::short(status);
            return Ok(done);
        }
        if let Some(data) = phase.data.filter(|_| matches!(index, 17 | 18 | 24 | 25 | 46 | 47)) {
            let cached = self.cached;
            let lba = task.map_or(arg, |task| task.lba);
            assert!(!self.reliable_next || cached, "a reliable write without a cache");
            if self.reliable_next && self.reliable != u32::MAX {
                let (blocks, unit) = (data.blocks, self.reliable);
                assert!(
                    blocks == 1 || blocks == unit && arg.is_multiple_of(unit),
                    "a reliable write of {blocks} blocks at {arg}"
                );
            }
            if continued {
                let open = self.open.expect("nothing is open that could be continued");
                assert_eq!((open.direction, open.next), (data.direction, lba.into()));
            }
            let counted = self.open.filter(|_| continued).map_or(self.count, |open| open.counted);
            let most = match trouble {
                Some(Trouble::Unanswered(_)) => 0,
                Some(Trouble::Data(most, ..)) => most.min(data.blocks),
                _ => data.blocks,
            };
            let spoilt = match trouble {
                Some(Trouble::Program(nth)) if data.direction == Direction::Write => Some(nth % data.blocks),
                _ => None,
            };
            let reliable = self.reliable_next || task.is_some_and(|task| task.reliable);
            let mut places: Vec<(usize, bool)> =
                (lba..lba + data.blocks).map(|at| (at as usize, reliable)).collect();
            let mut segments = segments;
            let mut header = false;
            if self.packed {
                if data.direction == Direction::Write {
                    // SAFETY: the header is the first block of the first segment.
                    let words = unsafe {
                        std::slice::from_raw_parts(segments[0].ptr().as_ptr().cast::<u32>(), BYTES / 4)
                    };
                    let count = (words[0] >> 16) as usize;
                    self.entries = (1..=count)
                        .map(|n| (words[2 * n + 1], words[2 * n] & 0xffff, words[2 * n] >> 31 != 0))
                        .collect();
                    header = words[0] >> 8 & 0xff == 1;
                    assert_eq!(segments[0].len_bytes() as usize, BYTES);
                    segments = &segments[1..];
                }
                let entries = self.entries.iter();
                places = entries
                    .flat_map(|&(lba, blocks, reliable)| {
                        (lba..lba + blocks).map(move |at| (at as usize, reliable))
                    })
                    .collect();
                if header {
                    places.clear();
                }
            }
            let mut moved = most as usize;
            if self.packed && data.direction == Direction::Write {
                moved = moved.saturating_sub(1);
            }
            let mut spoilt = spoilt.map(|nth| nth as usize % places.len().max(1));
            if let Some(nth) = spoilt.filter(|_| self.packed && self.names && !places.is_empty()) {
                // The entries behind the failed one are not begun.
                let (mut end, mut entry) = (0, 0);
                while end <= nth {
                    end += self.entries[entry].1 as usize;
                    entry += 1;
                }
                self.failed_entry = entry as u8;
                for &(at, _) in &places[nth.min(moved)..] {
                    self.notes.push(Note::Spoilt(at));
                }
                moved = moved.min(nth);
                spoilt = None;
            }
            places.truncate(moved);
            self.transfer(data.direction, &places, segments, spoilt);
            let whole = most == data.blocks && !matches!(trouble, Some(Trouble::Data(..)));
            let by_itself = matches!(index, 17 | 24 | 46 | 47) || counted != 0 && counted == data.blocks;
            let next = u64::from(lba) + u64::from(most);
            if (by_itself && whole) || matches!(index, 17 | 24) {
                self.open = None;
            } else {
                let counted = counted.saturating_sub(most);
                self.open = Some(Open { direction: data.direction, next, counted });
            }
            (self.count, self.reliable_next, self.packed) = (0, false, false);
            let response = Some(Response::short(status)).filter(|_| !continued);
            let stops = phase.auto == Auto::Stop;
            let write = data.direction == Direction::Write;
            let stopped = stops && whole && trouble != Some(Trouble::Stop(false));
            if stopped {
                self.open = None;
            }
            if write && self.open.is_none() {
                self.busy = polls;
            }
            let shown = detect == BusyDetect::Interrupt;
            if shown {
                self.busy = 0;
            }
            self.rest();
            match trouble {
                Some(Trouble::Unanswered(cause) | Trouble::AnswerLost(cause)) if !continued => {
                    return fault(cause, Stage::Command, None);
                }
                Some(Trouble::Unanswered(cause) | Trouble::AnswerLost(cause)) => {
                    return fault(cause, Stage::Data, None);
                }
                Some(Trouble::Data(_, cause, told)) => {
                    return fault(cause, Stage::Data, response.filter(|_| told));
                }
                Some(Trouble::Stop(_)) if stops => {
                    return fault(Cause::Timeout, Stage::Stop, response);
                }
                Some(Trouble::Busy) if write => {
                    self.busy = if self.open.is_none() { 2 } else { 0 };
                    return fault(Cause::Timeout, Stage::Data, response);
                }
                _ => {}
            }
            if stopped {
                done.stop = Some(self.r1(false));
            }
        } else {
            match trouble {
                Some(Trouble::Unanswered(cause) | Trouble::AnswerLost(cause)) => {
                    return fault(cause, Stage::Command, None);
                }
                Some(Trouble::Busy) if matches!(index, 6 | 12 | 38 | 48) => {
                    self.busy = 2;
                    return fault(Cause::Timeout, Stage::Busy, Some(Response::short(status)));
                }
                _ => {}
            }
        }
        done.response = Response::short(status);
        Ok(done)
    }
}
