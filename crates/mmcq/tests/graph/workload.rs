//! A handful of loads, each on its own controller.

use crate::card::Card;
use crate::host::{Board, CAPS};
use mmcq::host::{BusyDetect, Caps};

#[derive(Clone, Copy, Debug)]
pub enum Do {
    /// Write, read: first block, blocks.
    W(u32, u32),
    R(u32, u32),
    /// A durable write.
    D(u32, u32),
    /// Write and read in the boot area.
    BootW(u32, u32),
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
    /// Fast enough to be tuned.
    pub fast: bool,
    pub keeper: bool,
    /// What is asked at once; the next comes when all of it is answered.
    pub groups: &'static [&'static [Do]],
}

use Do::*;

const PLAIN: Workload = Workload {
    name: "reads and writes",
    caps: CAPS,
    reset_unpowers: false,
    maps: 64,
    cache: false,
    fast: false,
    keeper: true,
    groups: &[&[W(0, 2), W(2, 2), R(1, 2)], &[W(1, 1), R(0, 4)]],
};

/// All of them.
pub const ALL: [Workload; 10] = [
    PLAIN,
    Workload {
        name: "no keeper",
        keeper: false,
        groups: &[&[W(0, 2), R(8, 2), W(1, 1)], &[R(0, 2)]],
        ..PLAIN
    },
    Workload {
        name: "by hand, in pieces, busy asked for",
        caps: Caps {
            auto_stop: false,
            auto_count: false,
            max_blocks: 2,
            max_bytes: 1024,
            busy: BusyDetect::Status,
            ..CAPS
        },
        groups: &[&[W(0, 4), R(8, 2)], &[W(2, 1), R(0, 3)]],
        ..PLAIN
    },
    Workload {
        name: "visits to a boot area",
        fast: true,
        groups: &[&[BootW(0, 2), BootR(0, 2), W(0, 2)], &[BootR(1, 1)], &[R(0, 2)]],
        ..PLAIN
    },
    Workload { name: "erase", groups: &[&[W(0, 4), Erase(1, 3), R(0, 4), W(2, 1)], &[R(0, 4)]], ..PLAIN },
    Workload {
        name: "flush with a cache",
        cache: true,
        groups: &[&[W(0, 2), Flush, W(2, 2)], &[D(4, 1), R(0, 4)], &[Flush]],
        ..PLAIN
    },
    Workload {
        name: "streams",
        caps: Caps { auto_stop: false, auto_count: false, continue_data: true, ..CAPS },
        groups: &[&[W(0, 1), W(8, 1)], &[W(9, 1)], &[W(10, 1)], &[R(8, 1), R(9, 2)], &[Flush]],
        ..PLAIN
    },
    Workload {
        name: "room for three mappings",
        maps: 3,
        groups: &[&[R(0, 1), R(4, 1), W(8, 1), R(12, 1), R(16, 1)]],
        ..PLAIN
    },
    Workload {
        name: "tuned",
        fast: true,
        cache: true,
        groups: &[&[W(0, 2), R(4, 2)], &[R(0, 2)], &[Flush]],
        ..PLAIN
    },
    Workload {
        name: "tuned, a reset takes the supply",
        fast: true,
        reset_unpowers: true,
        groups: &[&[W(0, 2), R(4, 2)], &[R(0, 2)]],
        ..PLAIN
    },
];

impl Workload {
    pub fn board(&self) -> Board {
        Board { caps: self.caps, reset_unpowers: self.reset_unpowers, maps: self.maps }
    }

    pub fn card(&self) -> Card {
        let mut card = Card::new(self.cache);
        card.busy_polls = u8::from(self.caps.busy == BusyDetect::Status);
        card
    }
}
