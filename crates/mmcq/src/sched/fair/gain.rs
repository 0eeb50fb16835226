//! By how much a read is faster if it continues the read before it: on some cards and controllers
//! not at all, on others by most of its time.

use super::super::Waiting;

/// The mean time of reads of one length in two cases: the read begins where the last request ended,
/// or it begins elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    /// When the read on the card was sent, if it is alone there; otherwise `None`.
    sent_ns: Option<u64>,
    /// Low 32 bits of the block number after the request that was sent last.
    end: u32,
    /// Whether the read on the card begins where the request before it ended.
    follows: bool,
    /// Length of the measured reads, in blocks.
    blocks: u32,
    /// Mean time in ns of reads that begin where the request before them ended; 0: none was
    /// measured. (`jump_ns` is the mean time of all other reads.)
    follow_ns: u32,
    jump_ns: u32,
}

impl Gain {
    pub(super) const UNKNOWN: Gain =
        Gain { sent_ns: None, end: 0, follows: false, blocks: 0, follow_ns: 0, jump_ns: 0 };

    /// Notes a request that goes to the card. `reads`: the request is a read. `alone`: the card has
    /// no other request.
    pub(super) fn sent(&mut self, request: &Waiting, reads: bool, alone: bool, now_ns: u64) {
        let first = request.lba as u32;
        self.follows = self.end == first;
        self.end = first.wrapping_add(request.blocks);
        self.sent_ns = (reads && alone).then_some(now_ns);
    }

    /// Notes that a request of `blocks` blocks is complete. If it was a read and the only request
    /// on the card, its time is included in the mean time of reads of this length.
    pub(super) fn done(&mut self, blocks: u32, now_ns: u64) {
        let Some(sent_ns) = self.sent_ns.take() else { return };
        if blocks != self.blocks {
            (self.blocks, self.follow_ns, self.jump_ns) = (blocks, 0, 0);
        }
        let took_ns = u32::try_from(now_ns.saturating_sub(sent_ns)).unwrap_or(u32::MAX).max(1);
        let mean_ns = if self.follows { &mut self.follow_ns } else { &mut self.jump_ns };
        *mean_ns = match *mean_ns {
            0 => took_ns,
            mean_ns => (mean_ns - mean_ns / 8).saturating_add(took_ns / 8),
        };
    }

    /// Returns whether the card should stay idle for `think_ns` until a read comes that has
    /// `blocks` blocks and continues the last read. That pays if the wait and this read take less
    /// time than a read of another place. Returns true as long as the times of both kinds of read
    /// are not known.
    pub(super) fn is_worth(&self, blocks: u32, think_ns: u64) -> bool {
        let known = blocks == self.blocks && self.follow_ns != 0 && self.jump_ns != 0;
        !known || u64::from(self.follow_ns).saturating_add(think_ns) < u64::from(self.jump_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Direction;
    use crate::sched::Origin;

    fn read(lba: u64, blocks: u32) -> Waiting {
        Waiting {
            index: 0,
            direction: Direction::Read,
            lba,
            blocks,
            arrived_ns: 0,
            origin: Origin::default(),
        }
    }

    #[test]
    fn a_read_that_continues_is_worth_what_it_saves() {
        let mut gain = Gain::UNKNOWN;
        assert!(gain.is_worth(8, 50_000), "not known yet");
        gain.sent(&read(100, 8), true, true, 0);
        gain.done(8, 300_000);
        gain.sent(&read(108, 8), true, true, 400_000);
        gain.done(8, 500_000);
        // 300 us for the first, 100 us for the second.
        assert!(gain.is_worth(8, 199_000) && !gain.is_worth(8, 200_000));
        assert!(gain.is_worth(16, 900_000), "of another length nothing is known");
        // A read that was not alone on the card has not been measured.
        gain.sent(&read(500, 8), true, false, 600_000);
        gain.done(8, 9_000_000);
        assert!(gain.is_worth(8, 199_000) && !gain.is_worth(8, 200_000));
        gain.sent(&read(900, 1), true, true, 9_000_000);
        gain.done(1, 9_100_000);
        assert!(gain.is_worth(8, 900_000), "only one length is remembered");
    }
}
