//! Chances of merging: counts for each request that arrives whether it could be merged, and if not,
//! why.
//!
//! The counts do not look into the stack. They use only the requests under way (submitted and not
//! complete), their places on the card and their directions.

use crate::system::{How, Io, System};
use mmcq::host::Direction;
use std::cell::RefCell;
use std::rc::Rc;

/// Numbers of requests with data, by the requests that were under way when they arrived. Each
/// request counts in exactly one of the first five fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chances {
    /// Number of requests that arrived when no other request was under way (submitted and not
    /// complete).
    pub alone: u64,
    /// Number of requests that arrived when others were under way, but none of them was adjacent on
    /// the card.
    pub elsewhere: u64,
    /// Number of requests that arrived when an adjacent request was under way, but with the other
    /// direction (read or write).
    pub other_way: u64,
    /// Number of requests that were adjacent to one under way, but both together would be too long
    /// for a transfer.
    pub too_long: u64,
    /// Number of requests that were adjacent to one under way and could have been merged with it.
    pub touches: u64,
    /// Number of requests that begin where the previous request ends, in the same direction.
    pub goes_on: u64,
    /// Number of requests that continue the previous request and arrived when no other was under
    /// way.
    pub pauses: u64,
    /// Sum in ns of the pauses before the requests in `pauses`. A pause begins when the last
    /// request under way has ended.
    pub pause_ns: u64,
}

impl Chances {
    /// Returns the number of all requests with data that arrived in the run.
    pub fn all(&self) -> u64 {
        self.alone + self.elsewhere + self.other_way + self.too_long + self.touches
    }

    /// Returns the reasons why requests were not merged, each with the number of such requests.
    /// `merged`: number of requests that were merged.
    pub fn reasons(&self, merged: u64) -> [(&'static str, u64); 5] {
        // A request between two others can be merged even if it was adjacent to neither when it
        // arrived.
        let gone = self.touches.saturating_sub(merged);
        let too_long = self.too_long.saturating_sub(merged.saturating_sub(self.touches));
        [
            ("nothing else was under way", self.alone),
            ("what was under way is elsewhere", self.elsewhere),
            ("its neighbour goes the other way", self.other_way),
            ("both are longer than a transfer may be", too_long),
            ("its neighbour had left already", gone),
        ]
    }
}

struct UnderWay {
    io: Io,
    /// Number of blocks of this I/O, together with all I/Os under way with which it could have
    /// shared a transfer when it arrived.
    run_blocks: u32,
}

#[derive(Default)]
struct State {
    most_blocks: u32,
    under_way: Vec<UnderWay>,
    newest: Option<(Direction, u64)>,
    done_ns: u64,
    seen: Chances,
}

fn end(io: &Io) -> u64 {
    io.lba.saturating_add(u64::from(io.blocks))
}

impl State {
    fn came(&mut self, io: Io, now_ns: u64) {
        let mut run_blocks = io.blocks;
        if io.blocks > 0 && io.how != How::Discard {
            let seen = &mut self.seen;
            let goes_on = self.newest.replace((io.direction, end(&io))) == Some((io.direction, io.lba));
            seen.goes_on += u64::from(goes_on);
            let touches = |other: &&UnderWay| end(&other.io) == io.lba || end(&io) == other.io.lba;
            let same = |other: &&UnderWay| touches(other) && other.io.direction == io.direction;
            if self.under_way.is_empty() {
                seen.alone += 1;
                if goes_on {
                    seen.pauses += 1;
                    seen.pause_ns += now_ns.saturating_sub(self.done_ns);
                }
            } else if let Some(other) = self.under_way.iter().rfind(same) {
                let together = other.run_blocks.saturating_add(io.blocks);
                if together <= self.most_blocks {
                    seen.touches += 1;
                    run_blocks = together;
                } else {
                    seen.too_long += 1;
                }
            } else if self.under_way.iter().any(|other| touches(&other)) {
                seen.other_way += 1;
            } else {
                seen.elsewhere += 1;
            }
        }
        self.under_way.push(UnderWay { io, run_blocks });
    }

    fn done(&mut self, io: &Io, now_ns: u64) {
        self.done_ns = now_ns;
        let same = |other: &UnderWay| other.io.job == io.job && other.io.buffer == io.buffer;
        if let Some(at) = self.under_way.iter().position(same) {
            self.under_way.remove(at);
        }
    }
}

/// Counts the requests of a simulated stack that could have been merged with a request under way.
pub struct Watch(Rc<RefCell<State>>);

impl Watch {
    /// Returns a copy of the counts so far: how many requests could have been merged, and why the
    /// others could not. The counting goes on.
    pub fn take(&self) -> Chances {
        self.0.borrow().seen
    }
}

/// Starts counting, for all I/Os of a machine, whether each could be merged with another
/// ([`Chances`]). `most_blocks`: largest number of blocks of a transfer.
pub(crate) fn watch(sys: &mut System, most_blocks: u32) -> Watch {
    let state = Rc::new(RefCell::new(State { most_blocks, ..State::default() }));
    let seen = state.clone();
    sys.also_tell(Box::new(move |io, result, now_ns| match result {
        None => seen.borrow_mut().came(*io, now_ns),
        Some(_) => seen.borrow_mut().done(io, now_ns),
    }));
    Watch(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(lba: u64, direction: Direction) -> Io {
        let (core, how, sync, blocks, skip) = (0, How::Plain, true, 8, 0);
        Io { job: 0, core, direction, how, lba, sync, blocks, buffer: lba as u32, skip }
    }

    #[test]
    fn each_request_has_one_reason() {
        let mut state = State { most_blocks: 16, ..State::default() };
        let read = |lba| io(lba, Direction::Read);
        state.came(read(0), 0);
        state.came(read(8), 1);
        state.came(read(16), 2);
        state.came(io(24, Direction::Write), 3);
        state.came(read(100), 4);
        for lba in [0, 8, 16, 24, 100] {
            state.done(&read(lba), 50);
        }
        state.came(read(108), 70);
        let seen = state.seen;
        assert_eq!((seen.alone, seen.touches, seen.too_long), (2, 1, 1));
        assert_eq!((seen.other_way, seen.elsewhere, seen.all()), (1, 1, 6));
        assert_eq!((seen.goes_on, seen.pauses, seen.pause_ns), (3, 1, 20));
        // Three requests were adjacent to another one; one was merged, so none came too late.
        assert_eq!(seen.reasons(1).map(|(_, count)| count), [2, 1, 1, 1, 0]);
        assert_eq!(seen.reasons(0).iter().map(|(_, count)| count).sum::<u64>(), 6);
    }

    #[test]
    fn a_flush_is_neither_merged_nor_in_the_way_of_a_word() {
        let mut state = State { most_blocks: 16, ..State::default() };
        state.came(Io { blocks: 0, lba: u64::MAX, ..io(0, Direction::Write) }, 0);
        assert_eq!(state.seen.all(), 0);
    }
}
