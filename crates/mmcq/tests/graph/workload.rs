//! The workloads of the graph tests, each with a controller of its own.

use crate::card::Card;
use crate::host::{Board, CAPS};
use mmcq::host::{BusyDetect, Caps};

#[derive(Clone, Copy, Debug)]
pub enum Do {
    /// A write: first block, number of blocks.
    W(u32, u32),
    /// A read: first block, number of blocks.
    R(u32, u32),
    /// A durable write: first block, number of blocks.
    D(u32, u32),
    /// A write in the boot area: first block, number of blocks.
    BootW(u32, u32),
    /// A read in the boot area: first block, number of blocks.
    BootR(u32, u32),
    Erase(u32, u32),
    Flush,
}

#[derive(Clone, Copy)]
pub struct Workload {
    pub name: &'static str,
    pub caps: Caps,
    pub reset_unpowers: bool,
    pub maps: usize,
    pub cache: bool,
    /// Whether the bus is fast enough to need tuning.
    pub fast: bool,
    pub supervisor: bool,
    /// Whether each run begins with a card without power, which is brought up.
    pub cold: bool,
    /// Groups of requests: those of a group are submitted at the same time, and the next group is
    /// submitted when all of them have their results.
    pub groups: &'static [&'static [Do]],
    /// Shorter groups, for the longest sequences of faults.
    pub small: &'static [&'static [Do]],
    /// Whether only one kind of failure is tried for a command of the supervisor, where each kind
    /// makes the supervisor begin again.
    pub thrifty: bool,
    /// Whether a card may stay busy for ever; polling such a card takes nine tenths of the tests'
    /// time.
    pub sticks: bool,
}

use Do::*;

const PLAIN: Workload = Workload {
    name: "reads and writes",
    caps: CAPS,
    reset_unpowers: false,
    maps: 64,
    cache: false,
    fast: false,
    supervisor: true,
    cold: false,
    groups: &[&[W(0, 2), W(2, 2), R(1, 2)], &[W(1, 1), R(0, 4)]],
    small: &[&[W(0, 2), R(1, 1)]],
    thrifty: false,
    sticks: true,
};

/// All workloads of the graph tests.
pub const ALL: [Workload; 13] = [
    PLAIN,
    Workload {
        name: "no supervisor",
        supervisor: false,
        groups: &[&[W(0, 2), R(8, 2), W(1, 1)], &[R(0, 2)]],
        small: &[&[W(0, 2), R(8, 1)]],
        ..PLAIN
    },
    Workload {
        name: "by hand, in pieces, busy asked for",
        caps: CAPS.auto_stop(false).auto_count(false).max_blocks(2).max_bytes(1024).busy(BusyDetect::Status),
        groups: &[&[W(0, 4), R(8, 2)], &[W(2, 1), R(0, 3)]],
        small: &[&[W(0, 3)]],
        ..PLAIN
    },
    Workload {
        name: "accesses to a boot area",
        fast: true,
        groups: &[&[BootW(0, 2), BootR(0, 2), W(0, 2)], &[BootR(1, 1)], &[R(0, 2)]],
        small: &[&[BootW(0, 1), R(0, 1)]],
        ..PLAIN
    },
    Workload {
        name: "erase",
        groups: &[&[W(0, 4), Erase(1, 3), R(0, 4), W(2, 1)], &[R(0, 4)]],
        small: &[&[Erase(1, 2), R(0, 3)]],
        ..PLAIN
    },
    Workload {
        name: "flush with a cache",
        cache: true,
        groups: &[&[W(0, 2), Flush, W(2, 2)], &[D(4, 1), R(0, 4)], &[Flush]],
        small: &[&[W(0, 1), Flush]],
        ..PLAIN
    },
    Workload {
        name: "streams",
        caps: CAPS.auto_stop(false).auto_count(false).continue_data(true),
        groups: &[&[W(0, 1), W(8, 1)], &[W(9, 1)], &[W(10, 1)], &[R(8, 1), R(9, 2)], &[Flush]],
        small: &[&[W(8, 1)], &[W(9, 1)], &[W(10, 1)]],
        ..PLAIN
    },
    Workload {
        name: "room for three mappings",
        maps: 3,
        groups: &[&[R(0, 1), R(4, 1), W(8, 1), R(12, 1), R(16, 1)]],
        small: &[&[R(0, 1), R(1, 1), R(2, 1), R(3, 1)]],
        ..PLAIN
    },
    Workload {
        name: "tuned",
        fast: true,
        cache: true,
        groups: &[&[W(0, 2), R(4, 2)], &[R(0, 2)], &[Flush]],
        small: &[&[W(0, 1)], &[R(0, 1)]],
        ..PLAIN
    },
    Workload {
        name: "tuned, a reset takes the supply",
        fast: true,
        reset_unpowers: true,
        groups: &[&[W(0, 2), R(4, 2)], &[R(0, 2)]],
        small: &[&[W(0, 1), R(4, 1)]],
        ..PLAIN
    },
    Workload { name: "bring-up", cold: true, groups: SHORT, small: SHORT, ..PLAIN },
    Workload {
        name: "bring-up, tuned, with a cache",
        cold: true,
        fast: true,
        cache: true,
        groups: SHORT,
        small: SHORT,
        ..PLAIN
    },
    Workload {
        name: "bring-up, no supervisor",
        cold: true,
        supervisor: false,
        sticks: false,
        groups: SHORT,
        small: SHORT,
        ..PLAIN
    },
];

/// After a bring-up: that the card is there.
const SHORT: &[&[Do]] = &[&[W(0, 1)], &[R(0, 1)]];

impl Workload {
    /// Returns the workload for sequences of `depth` faults: for three and more its shorter form.
    pub fn for_depth(self, depth: usize) -> Workload {
        if depth < 3 { self } else { Workload { groups: self.small, thrifty: true, ..self } }
    }

    pub fn board(&self) -> Board {
        Board {
            caps: self.caps,
            reset_unpowers: self.reset_unpowers,
            maps: self.maps,
            thrifty: self.thrifty,
            sticks: self.sticks,
        }
    }

    pub fn card(&self) -> Card {
        let mut card = Card::new(self.cache);
        card.busy_polls = u8::from(self.caps.busy == BusyDetect::Status);
        card
    }
}
