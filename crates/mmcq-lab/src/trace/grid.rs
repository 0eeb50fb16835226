//! Computes the times of the bus clock's edges.
//!
//! The model of the bus counts clocks from the moment at which a token begins, which may be any
//! nanosecond. A waveform has one clock, so each token is moved onto its cycles. While anything is
//! on the lines, the clock keeps its phase. A token that begins on another line in this time is
//! moved by less than half a cycle. A token that begins on idle lines starts a new phase. The
//! clock's low time before this token becomes longer by less than one cycle.
//!
//! A controller that stops the clock within a block does so between two bits. The block is then
//! placed in parts, with a new phase after each stop.
//!
//! The clock is low in the first half of a cycle. Lines change at the start of the cycle, and the
//! rising edge in its middle samples them.

use super::capture::{Capture, Event, What};

/// Distance in ps from a clock edge within which a time counts as on that edge. The model's times
/// are rounded down to nanoseconds.
const NEAR_PS: u64 = 1_500;

/// Point in time at which the bus clock starts, stops, or changes its frequency or phase. Clock
/// cycles are counted from it, up to the next such point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub at_ps: u64,
    /// Clock frequency in Hz; 0: the clock is stopped.
    pub hz: u32,
    /// Number of whole clock cycles from this point until the next [`Anchor`].
    pub cycles: u64,
}

impl Anchor {
    /// Returns the time in ps at which this number of quarter clock cycles has passed since this
    /// anchor (a known edge of the clock).
    pub fn quarter_ps(&self, quarters: u64) -> u64 {
        let ps = u128::from(quarters) * 250_000_000_000 / u128::from(self.hz.max(1));
        self.at_ps.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    pub fn cycle_ps(&self, cycle: u64) -> u64 {
        self.quarter_ps(cycle.saturating_mul(4))
    }

    /// Returns the number, counted from this anchor (a known edge of the clock), of the cycle whose
    /// start is nearest to the time `at_ps`.
    fn nearest(&self, at_ps: u64) -> u64 {
        let half_cycles =
            u128::from(at_ps.saturating_sub(self.at_ps)) * u128::from(self.hz) * 2 / 1_000_000_000_000;
        (half_cycles as u64).div_ceil(2)
    }
}

/// Place of a token or block, or of a part of it, on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index in the capture of the event that is the token or block.
    pub event: usize,
    /// Index in [`Grid::anchors`] of the point in time from which `cycle` is counted.
    pub anchor: usize,
    /// Number of clock cycles from the anchor (a point in time of the bus clock) to the first cycle
    /// of this part.
    pub cycle: u64,
    /// Number of clock cycles that this part of a token or block takes.
    pub cycles: u64,
    /// Number of clock cycles of the token or block before this part. The clock has stopped inside
    /// of it, so it is drawn in several parts.
    pub before: u64,
    /// Whether the clock stops after this part, and another part of the event follows.
    pub goes_on: bool,
}

/// Bus clock of a window of the trace: when its clock cycles start, and which cycles each token and
/// block takes.
pub(super) struct Grid {
    pub anchors: Vec<Anchor>,
    pub places: Vec<Place>,
}

/// Returns the length of a token or block in clocks; 0 for activity without bits.
pub(super) fn clocks(event: &Event) -> u64 {
    match &event.what {
        What::Command { .. } => 48,
        What::Response { answer: mmcq_sim::card::Answer::Short { .. }, .. } => 48,
        What::Response { .. } => 136,
        What::Block { data, width, ddr, .. } => {
            let bits_a_clock = u64::from((*width).max(1)) << u8::from(*ddr);
            2 + (data.len() as u64 * 8).div_ceil(bits_a_clock) + 16
        }
        What::CrcStatus { .. } => 5,
        What::Busy | What::ClockStopped => 0,
    }
}

/// Returns those stops of the clock that lie within an event. `held`: start and end of all stops,
/// sorted by time.
fn stops<'a>(held: &'a [(u64, u64)], event: &Event) -> &'a [(u64, u64)] {
    let first = held.partition_point(|(from_ns, _)| *from_ns <= event.start_ns);
    let last = held.partition_point(|(_, until_ns)| *until_ns <= event.end_ns);
    held.get(first..last).unwrap_or_default()
}

impl Grid {
    pub fn new(capture: &Capture) -> Grid {
        let mut grid = Grid { anchors: Vec::new(), places: Vec::new() };
        let mut bus = capture.bus.iter().peekable();
        let mut free_ps = 0;
        let held = capture.events.iter().filter(|e| e.what == What::ClockStopped);
        let held: Vec<(u64, u64)> = held.map(|e| (e.start_ns, e.end_ns)).collect();
        for (index, event) in capture.events.iter().enumerate() {
            let length = clocks(event);
            if length == 0 {
                continue;
            }
            while let Some((at_ns, state, _)) = bus.next_if(|b| b.0 <= event.start_ns) {
                grid.clock_is(*at_ns.max(&capture.from_ns) * 1_000, state.clock_hz);
            }
            let stops = if matches!(event.what, What::Block { .. }) { stops(&held, event) } else { &[] };
            grid.place(index, event.start_ns * 1_000, length, stops, &mut free_ps);
        }
        for (at_ns, state, _) in bus {
            grid.clock_is(*at_ns.max(&capture.from_ns) * 1_000, state.clock_hz);
        }
        grid.count(capture);
        grid
    }

    fn clock_is(&mut self, at_ps: u64, hz: u32) {
        if self.anchors.last().is_none_or(|last| last.hz != hz) {
            self.anchors.push(Anchor { at_ps, hz, cycles: 0 });
        }
    }

    /// Places an event, by its index, on the clock. `start_ps`: its start in ps; `cycles`: its
    /// length in clock cycles. `stops`: start and end in ns of each stop of the clock within the
    /// event. `free_ps`: time in ps from which on the lines are idle; updated to the end of this
    /// event if that is later.
    fn place(&mut self, event: usize, start_ps: u64, cycles: u64, stops: &[(u64, u64)], free_ps: &mut u64) {
        let Some(last) = self.anchors.len().checked_sub(1) else { return };
        // A block with stops has already added later anchors, but an event on another line may
        // start before them.
        let mut at = self.anchors.iter().rposition(|a| a.at_ps <= start_ps && a.hz > 0).unwrap_or(last);
        let mut anchor = self.anchors[at];
        let mut cycle = anchor.nearest(start_ps);
        if anchor.cycle_ps(cycle).abs_diff(start_ps) > NEAR_PS && *free_ps <= start_ps && at == last {
            anchor = Anchor { at_ps: start_ps, ..anchor };
            cycle = 0;
            self.anchors.push(anchor);
            at += 1;
        }
        let mut before = 0;
        for &(from_ns, until_ns) in stops {
            let part = anchor.nearest(from_ns * 1_000).saturating_sub(cycle).min(cycles - before);
            self.places.push(Place { event, anchor: at, cycle, cycles: part, before, goes_on: true });
            before += part;
            self.anchors.push(Anchor { at_ps: anchor.cycle_ps(cycle + part), hz: 0, cycles: 0 });
            anchor = Anchor { at_ps: until_ns * 1_000, ..anchor };
            self.anchors.push(anchor);
            (at, cycle) = (self.anchors.len() - 1, 0);
        }
        let part = cycles - before;
        *free_ps = (*free_ps).max(anchor.cycle_ps(cycle + part));
        self.places.push(Place { event, anchor: at, cycle, cycles: part, before, goes_on: false });
    }

    /// Counts for each anchor (a time at which a cycle starts) the clock cycles until the next
    /// anchor.
    fn count(&mut self, capture: &Capture) {
        for i in 0..self.anchors.len() {
            let end_ps = self.anchors.get(i + 1).map_or(capture.until_ns * 1_000, |next| next.at_ps);
            let anchor = &mut self.anchors[i];
            if anchor.hz > 0 {
                let length_ps = u128::from(end_ps.saturating_sub(anchor.at_ps) + NEAR_PS);
                anchor.cycles = (length_ps * u128::from(anchor.hz) / 1_000_000_000_000) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(hz: u32) -> Anchor {
        Anchor { at_ps: 1_000, hz, cycles: 0 }
    }

    #[test]
    fn edges_do_not_drift() {
        assert_eq!(anchor(50_000_000).cycle_ps(3), 61_000);
        assert_eq!(anchor(208_000_000).cycle_ps(208_000_000), 1_000_000_001_000);
        assert_eq!(anchor(400_000).quarter_ps(2), 1_251_000);
    }

    #[test]
    fn the_nearest_cycle() {
        let a = anchor(50_000_000);
        let found = [1_000, 10_999, 11_001, 21_000, 30_999].map(|ps| a.nearest(ps));
        assert_eq!(found, [0, 0, 1, 1, 1]);
    }

    #[test]
    fn idle_lines_take_a_new_phase_and_busy_ones_keep_theirs() {
        let mut grid = Grid { anchors: vec![anchor(50_000_000)], places: Vec::new() };
        let mut free = 0;
        grid.place(0, 101_000, 48, &[], &mut free);
        assert_eq!((grid.places[0].anchor, grid.places[0].cycle, free), (0, 5, 1_061_000));
        // The second token begins while the first is on the lines, so it is moved to the nearest
        // cycle.
        grid.place(1, 1_054_000, 48, &[], &mut free);
        assert_eq!((grid.places[1].anchor, grid.places[1].cycle), (0, 53));
        // A token on idle lines, not at an edge, starts a new phase.
        grid.place(2, 5_007_000, 48, &[], &mut free);
        assert_eq!((grid.places[2].anchor, grid.places[2].cycle, grid.anchors[1].at_ps), (1, 0, 5_007_000));
        // A difference of a nanosecond is rounding and starts no new phase.
        grid.place(3, 6_006_000, 48, &[], &mut free);
        assert_eq!((grid.places[3].anchor, grid.places[3].cycle), (1, 50));
    }

    #[test]
    fn a_block_lies_in_parts_where_the_clock_stops() {
        let mut grid =
            Grid { anchors: vec![Anchor { at_ps: 0, hz: 10_000_000, cycles: 0 }], places: Vec::new() };
        let mut free = 0;
        // Ten cycles, then the clock stops for 333 ns, then the other cycles.
        grid.place(0, 1_000_000, 26, &[(2_000, 2_333)], &mut free);
        let parts: Vec<_> =
            grid.places.iter().map(|p| (p.anchor, p.cycle, p.cycles, p.before, p.goes_on)).collect();
        assert_eq!(parts, [(0, 10, 10, 0, true), (2, 0, 16, 10, false)]);
        assert_eq!(
            (grid.anchors[1].hz, grid.anchors[1].at_ps, grid.anchors[2].at_ps),
            (0, 2_000_000, 2_333_000)
        );
        assert_eq!(free, 2_333_000 + 1_600_000);
    }
}
