//! Thirteen small workloads that cover the paths through the stack. The sweeps make faults strike
//! at each of their events.

use super::case::{BusyBy, Case, Defer, Luck, Operation, Place, Setup};
use super::run::CARDS;
use mmcq::host::sdhci::TransferMode;
use mmcq_sim::checker::Asked;

/// Names of the small workloads that the sweeps of faults run.
pub const NAMES: [&str; 13] = [
    "bring-up and one block each way",
    "long reads by CMD18 with automatic CMD12",
    "long writes by CMD25 with automatic CMD12",
    "transfers counted by CMD23",
    "transfers stopped by hand",
    "a queue that is joined",
    "overlapping requests",
    "a cache and flushes",
    "durable writes",
    "PIO, busy by status",
    "SDMA, busy by level",
    "completions deferred, reads up to the end of the card",
    "accesses to a boot area and a general purpose partition",
];
/// Number of the workload whose requests use other partitions of the eMMC. Faults that other
/// requests survive may fail these, since the engine does not repeat an access to another
/// partition.
pub const VISITS: usize = 12;
/// Partition that each request of workload [`VISITS`] uses, in order.
const VISITED: [u8; 9] = [1, 1, 0, 4, 0, 0, 4, 1, 0];

const READ: Asked = Asked::Read;
const WRITE: Asked = Asked::Write { durable: false };
const DURABLE: Asked = Asked::Write { durable: true };

fn operations(list: &[(Asked, u32, u32)]) -> Vec<Operation> {
    let one = |&(asked, at, blocks): &(Asked, u32, u32)| Operation::plain(asked, at, blocks);
    list.iter().map(one).collect()
}

fn card(name: &str) -> usize {
    CARDS.iter().position(|card| *card == name).unwrap_or(0)
}

/// Returns workload number `index`, without faults.
#[must_use]
pub fn workload(index: usize) -> Case {
    let sd = Setup { card: card("sdhc-16g-hs"), ..Setup::PLAIN };
    let emmc = Setup { card: card("emmc-hs200"), ..Setup::PLAIN };
    let flush = (Asked::Flush, 0, 0);
    let (setup, list): (Setup, &[(Asked, u32, u32)]) = match index {
        0 => (Setup { armed_early: true, depth: 1, ..emmc }, &[(WRITE, 0, 1), (READ, 0, 1)]),
        1 => (Setup { depth: 2, ..sd }, &[(READ, 0, 8), (WRITE, 3, 1), (READ, 2, 6), (READ, 0, 16)]),
        2 => (Setup { depth: 2, ..sd }, &[(WRITE, 0, 8), (WRITE, 8, 8), (READ, 4, 8)]),
        3 => (
            Setup { auto_stop: false, auto_count: false, ..emmc },
            &[(WRITE, 0, 8), (READ, 0, 8), (WRITE, 4, 2), (READ, 3, 4), flush],
        ),
        4 => (
            Setup { auto_stop: false, auto_count: false, count: false, ..sd },
            &[(WRITE, 0, 8), (READ, 0, 8), (WRITE, 4, 2), (READ, 3, 4)],
        ),
        5 => (
            Setup { depth: 8, ..sd },
            &[
                (WRITE, 0, 1),
                (WRITE, 1, 2),
                (WRITE, 3, 1),
                (WRITE, 8, 1),
                (READ, 12, 1),
                (READ, 13, 2),
                (READ, 0, 4),
                (WRITE, 9, 1),
            ],
        ),
        6 => (
            Setup { depth: 8, scheduler: 1, ..emmc },
            &[
                (WRITE, 2, 4),
                (READ, 3, 2),
                (WRITE, 4, 4),
                (WRITE, 2, 2),
                (READ, 2, 6),
                (WRITE, 5, 1),
                (READ, 5, 1),
            ],
        ),
        7 => {
            (emmc, &[(WRITE, 0, 2), (WRITE, 5, 1), flush, (WRITE, 0, 1), (READ, 0, 2), flush, (WRITE, 1, 1)])
        }
        8 => (emmc, &[(DURABLE, 0, 2), (WRITE, 1, 1), (DURABLE, 4, 1), (READ, 0, 5), flush]),
        9 => (
            Setup { transfer: TransferMode::Pio, busy: BusyBy::Status, ..sd },
            &[(WRITE, 0, 3), (READ, 0, 4), (WRITE, 2, 1), (READ, 2, 1)],
        ),
        10 => (
            Setup {
                transfer: TransferMode::Sdma,
                busy: BusyBy::Level,
                near_boundary: true,
                merge: false,
                ..emmc
            },
            &[(WRITE, 0, 12), (READ, 0, 12), (WRITE, 2, 1), flush, (READ, 2, 1)],
        ),
        VISITS => (
            Setup { depth: 2, ..emmc },
            &[
                (WRITE, 0, 2),
                (READ, 0, 2),
                (WRITE, 0, 2),
                (WRITE, 0, 2),
                (READ, 0, 2),
                flush,
                (READ, 0, 2),
                (WRITE, 1, 1),
                (READ, 1, 2),
            ],
        ),
        _ => (
            Setup {
                defer: Defer::Everything,
                place: Place::End,
                auto_stop: false,
                auto_count: false,
                count: false,
                ..sd
            },
            &[(READ, 8, 8), (WRITE, 12, 4), (READ, 10, 6), (READ, 15, 1)],
        ),
    };
    let mut operations = operations(list);
    if index == VISITS {
        operations.iter_mut().zip(VISITED).for_each(|(operation, area)| operation.area = area);
    }
    Case {
        seed: 1,
        setup,
        operations,
        cuts: Vec::new(),
        luck: Luck::Good,
        one_life: true,
        dry: false,
        visit: None,
        acts: Vec::new(),
    }
}
