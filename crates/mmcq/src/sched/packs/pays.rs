//! Decides whether packed commands (packs) are faster on this card than ordinary transfers,
//! separately for reads and writes. It compares the mean time of a request in packs with that of a
//! request alone, both measured while other requests wait.
//!
//! The cheaper way (in packs, or alone) is used. Two in [`PROBE`] transfers use the other way, so
//! that a change of the card is noticed. *Guarantee: of 64 transfers two use the slower way.*

use crate::host::Direction;

/// Number of transfers from one trial to the next. In a trial, two transfers in a row are sent in
/// the way (packed or alone) that was slower so far.
const PROBE: u8 = 64;
/// Weight of a new time in the mean: one in `1 << SHARE_SHIFT`.
const SHARE_SHIFT: u32 = 3;

#[derive(Debug)]
pub(super) struct Pays {
    /// Mean time of a request in nanoseconds, first by direction (reads, writes), then by way
    /// (alone, in a packed command); 0: not known.
    times_ns: [[u32; 2]; 2],
    /// The transfer that was begun last, if it is still alone. Its values: the direction (0: read,
    /// 1: write) and the way (0: alone, 1: in a pack), as in `times_ns`; its number of requests;
    /// and the time in ns of its begin. `None`: another transfer has begun since.
    began: Option<(usize, usize, u32, u64)>,
    /// Number of transfers, for reads and for writes, since the slower of two ways was last tried
    /// again: to send requests in packs (packed commands), or one by one.
    turns: [u8; 2],
}

fn place(direction: Direction) -> usize {
    usize::from(direction == Direction::Write)
}

impl Pays {
    pub(super) const NEW: Pays = Pays { times_ns: [[0; 2]; 2], began: None, turns: [0; 2] };

    /// Decides whether the next transfer is sent as a packed command (true) or alone (false), while
    /// other requests wait. `ended_ns`: time at which the transfer before ended, which gives the
    /// measured time of the way in which it was sent.
    pub(super) fn choose_pack(&mut self, direction: Direction, ended_ns: u64) -> bool {
        if let Some((way, packed, requests, then_ns)) = self.began.take() {
            self.learn(way, packed, ended_ns.saturating_sub(then_ns) / u64::from(requests.max(1)));
        }
        let at = place(direction);
        let (Some([alone, packed]), Some(turn)) = (self.times_ns.get(at).copied(), self.turns.get_mut(at))
        else {
            return true;
        };
        *turn = if *turn >= PROBE { 1 } else { *turn + 1 };
        // The value 0 stands for an unknown time and counts as the cheaper one: so both ways are
        // tried.
        let best = if alone == 0 && packed == 0 { true } else { packed <= alone };
        best != (*turn <= 2 && alone != 0 && packed != 0)
    }

    fn learn(&mut self, way: usize, packed: usize, ns: u64) {
        let Some(time) = self.times_ns.get_mut(way).and_then(|ways| ways.get_mut(packed)) else { return };
        let new = u32::try_from(ns).unwrap_or(u32::MAX).max(1);
        *time = match *time {
            0 => new,
            // One outlier (the card collects garbage) counts four times the old mean at most.
            old => old.saturating_add(new.min(old.saturating_mul(4)) >> SHARE_SHIFT) - (old >> SHARE_SHIFT),
        };
    }

    pub(super) fn begin(&mut self, direction: Direction, packed: bool, requests: usize, now_ns: u64) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        self.began = Some((place(direction), usize::from(packed), requests, now_ns));
    }

    /// Forgets the start of the last transfer, so that no time is measured from it. Called when
    /// something other than a transfer begins.
    pub(super) fn reset_timing(&mut self) {
        self.began = None;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Runs two thousand transfers of four requests, and returns how many were packs (packed
    /// commands). On this card a request alone takes `alone_ns`, and a request in a pack
    /// `packed_ns`.
    fn count_packs(pays: &mut Pays, alone_ns: u64, packed_ns: u64) -> usize {
        let mut now_ns = 1;
        let ways: Vec<bool> = (0..2_000)
            .map(|_| {
                let packed = pays.choose_pack(Direction::Write, now_ns);
                pays.begin(Direction::Write, packed, if packed { 4 } else { 1 }, now_ns);
                now_ns += if packed { 4 * packed_ns } else { alone_ns };
                packed
            })
            .collect();
        ways.iter().filter(|packed| **packed).count()
    }

    #[test]
    fn the_cheaper_way_is_taken_also_when_that_changes() {
        let mut new = Pays::NEW;
        let pays = &mut new;
        assert!((1_900..2_000).contains(&count_packs(pays, 100_000, 60_000)));
        assert!((1..250).contains(&count_packs(pays, 100_000, 160_000)));
        assert!((1_700..2_000).contains(&count_packs(pays, 100_000, 60_000)));
    }
}
