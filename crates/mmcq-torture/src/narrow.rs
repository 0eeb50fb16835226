//! Random cases on controllers that take few blocks at a time, so that the engine moves a request
//! in pieces. Some cases have an eMMC whose reliable writes have a fixed length, or an SD card that
//! does not know CMD25. Requests overlap in a small window, and many writes are durable.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::case::{Case, Host, Operation, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use super::{hosts, queues, streams, usage};
use mmcq::host::sdhci::OpenWrites;
use mmcq::host::{BusOp, Caps, Events, FastEnd, Host as Driver, Phase, Segment, StartError, Step};
use mmcq_sim::checker::Asked;
use mmcq_sim::world::Stream;

/// Pairs of probabilities from which each case draws one: of a fault ([`Wishes::faults`]) and of a
/// power cut ([`Wishes::cuts`]).
const OFTEN: [(f64, f64); 3] = [(0.000_5, 0.5), (0.002, 1.0), (0.01, 1.0)];
/// Largest numbers of blocks of a transfer; each case draws one value.
const MOST: [u16; 5] = [1, 2, 3, 8, 24];
/// Share of a case's writes that become durable; each case draws one value.
const DURABLE: [f64; 3] = [0.0, 0.3, 0.9];
/// Number of sectors of a reliable write of an old eMMC, which apart from this accepts only single
/// sectors.
const UNIT: u8 = 8;
/// Possible numbers of sectors that the requests of a case use; each case draws one of them.
const WINDOWS: [u32; 2] = [24, 64];

/// A driver that takes at most a given number of blocks at a time.
#[derive(Debug)]
pub struct Narrow<H> {
    host: H,
    caps: Caps,
}

impl<H: Driver> Narrow<H> {
    /// Wraps a driver, which takes at most this many blocks at a time; 0: as many as it can.
    pub fn new(host: H, most_blocks: u16) -> Self {
        let mut caps = *host.caps();
        if most_blocks > 0 {
            caps.max_blocks = caps.max_blocks.min(most_blocks.into());
        }
        Narrow { host, caps }
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged. Of its
// capabilities only the number of blocks is lower.
unsafe impl<H: Driver> Driver for Narrow<H> {
    mmcq::forward_host!(const H);
    mmcq::forward_host!(self.host => goes_on_with is_prompt map unmap start_concurrent ack_concurrent
        abort_concurrent early_r1 interrupt_lost command_hangs isolate dat0_busy dat_levels retune_ns
        supply_ma take_waker card_irq queue chain present write_protected);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.host.start(phase, segments, timeout_ns)
    }

    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.host.start_fast(phase, segments, timeout_ns)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.host.ack(segments)
    }

    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        self.host.ack_fast(segments)
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.host.set_bus(op, first, now_ns)
    }
}

/// Executes random cases until they have had the number of requests that `share` asks for, or until
/// the stack has broken too many guarantees about data. Calls `progress` with the number of
/// requests of each case. Returns the score of all cases.
pub fn narrow(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the random case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    usage::with(draw_plain(seed))
}

/// Draws the case of this seed. Leaves out what [`usage::with`] may add: several clients, other
/// settings of the engine, and calls that concern the whole stack.
#[must_use]
pub fn draw_plain(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "narrow");
    let (faults, cuts) = OFTEN[random.below(OFTEN.len() as u64) as usize];
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: None };
    let mut case = match random.below(10) {
        0..=3 => Case::draw(seed, &wishes),
        4 | 5 => queues::draw_plain(seed),
        6 => hosts::draw_on(Host::DesignWare, seed, &wishes),
        7 => streams::draw_on(Host::Open(OpenWrites::Carrier), seed),
        8 => streams::draw_on(Host::OpenDesignWare, seed),
        _ => streams::draw_on(Host::Reader, seed),
    };
    case.setup.most_blocks = MOST[random.below(MOST.len() as u64) as usize];
    if case.setup.is_removable() {
        // Only SD cards have been seen without CMD25. The stack learns it by a command that fails, so
        // the status of writes that were complete before may count as lost.
        case.setup.singly = random.chance(0.2) && !case.setup.early && !case.setup.leaves_open();
    } else {
        case.setup.reliable_unit = if random.chance(0.5) { UNIT } else { 0 };
    }
    case.setup.window = WINDOWS[random.below(WINDOWS.len() as u64) as usize];
    let durable = DURABLE[random.below(DURABLE.len() as u64) as usize];
    for operation in &mut case.operations {
        crowd(operation, case.setup.window, durable, random);
    }
    case
}

/// Moves a request to a random place within the first `window` sectors of the case's range. Makes a
/// write durable with the probability `durable`.
fn crowd(operation: &mut Operation, window: u32, durable: f64, random: &mut Stream) {
    if operation.asked == Asked::Flush {
        return;
    }
    operation.blocks = operation.blocks.min(window);
    operation.at = random.below(u64::from(window - operation.blocks + 1)) as u32;
    if operation.area == 0 && matches!(operation.asked, Asked::Write { .. }) && random.chance(durable) {
        operation.asked = Asked::Write { durable: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_meet_durable_writes_on_every_kind_of_controller() {
        let cases: Vec<Case> = (0..1_000).map(draw).collect();
        let in_pieces = |case: &&Case| {
            let most = u32::from(case.setup.most_blocks);
            case.operations.iter().any(|o| o.asked == Asked::Write { durable: true } && o.blocks > most)
        };
        let count =
            |of: &dyn Fn(&Case) -> bool| cases.iter().filter(in_pieces).filter(|case| of(case)).count();
        assert!(count(&|case| case.setup.host == Host::Sdhci && !case.setup.queue) > 30);
        assert!(count(&|case| case.setup.queue) > 15);
        assert!(count(&|case| case.setup.chains) > 3);
        assert!(count(&|case| case.setup.leaves_open()) > 20);
        assert!(count(&|case| case.setup.reliable_unit > 0) > 30);
        assert!(cases.iter().filter(|case| case.setup.singly).count() > 10);
        let inside = |case: &Case, o: &Operation| o.at + o.blocks <= case.setup.window || o.blocks == 0;
        assert!(cases.iter().all(|case| case.operations.iter().all(|o| inside(case, o))));
    }
}
