//! Measures two costs for each direction: the fixed time of a transfer (without the time of its
//! blocks), and the time of a block.

/// Number of fixed-point units by which one block is counted, so that the means are integers.
const UNITS: i64 = 256;
/// Once this many transfers were seen, a new one counts in the means with the weight 1 / `MEMORY`;
/// before, all transfers count alike.
const MEMORY: i64 = 16;
/// Factor that limits outliers: a transfer that took longer than `OUTLIER` times the estimate for
/// its size (made from the mean time) counts with that product, since something else has delayed
/// it.
const OUTLIER: i64 = 4;
/// Longest time of a transfer, about a minute: a longer one counts as this. With at most 65535
/// blocks, all products below then fit into 63 bits.
const LONGEST_NS: u64 = 1 << 36;

/// A straight line fitted to the transfers of one direction. It gives the time of a transfer by its
/// number of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    seen: u8,
    mean_units: i64,
    mean_ns: i64,
    /// Variance of the sizes of the transfers.
    spread: i64,
    joint: i64,
    /// Time of a block in nanoseconds, learned from transfers of different sizes.
    per_block_ns: i64,
}

impl Costs {
    pub const NEW: Costs = Costs { seen: 0, mean_units: 0, mean_ns: 0, spread: 0, joint: 0, per_block_ns: 0 };

    /// Learns from a transfer of `blocks` blocks that took `took_ns`: updates the mean time per
    /// block.
    pub fn learn(&mut self, blocks: u32, took_ns: u64) {
        let units = i64::from(blocks.clamp(1, 0xffff)) * UNITS;
        let took_ns = took_ns.min(LONGEST_NS) as i64;
        if self.seen == 0 {
            *self = Costs { seen: 1, mean_units: units, mean_ns: took_ns, ..*self };
            return;
        }
        let larger = units.checked_div(self.mean_units).unwrap_or(0);
        let most_ns = self.mean_ns.saturating_mul(OUTLIER.saturating_mul(1 + larger));
        let took_ns = took_ns.min(most_ns);
        self.seen = self.seen.saturating_add(1);
        let part = i64::from(self.seen).min(MEMORY);
        let share = |whole: i64| whole.checked_div(part).unwrap_or(0);
        let (away, late_ns) = (units - self.mean_units, took_ns - self.mean_ns);
        self.mean_units += share(away);
        self.mean_ns += share(late_ns);
        self.spread += share(away * away - self.spread);
        self.joint += share(away * late_ns - self.joint);
        // From sizes that hardly differ, the time of a block cannot be computed.
        if self.spread * 64 >= self.mean_units * self.mean_units {
            let slope_ns = self.joint.checked_div(self.spread / UNITS).unwrap_or(0);
            let most_ns = (self.mean_ns * UNITS).checked_div(self.mean_units).unwrap_or(0);
            self.per_block_ns = slope_ns.clamp(0, most_ns.max(0));
        }
    }

    /// Returns the fixed time of a transfer, without the time of its blocks; `None`: no transfer
    /// was seen.
    pub fn fixed_ns(&self) -> Option<u64> {
        let blocks_ns = self.per_block_ns * self.mean_units / UNITS;
        (self.seen > 0).then(|| u64::try_from(self.mean_ns - blocks_ns).unwrap_or(0))
    }

    /// Returns the mean time of a transfer in ns, with the time of its blocks.
    pub fn mean_ns(&self) -> u64 {
        u64::try_from(self.mean_ns).unwrap_or(0)
    }

    /// Returns the time, in ns, that this many blocks add to the fixed time of a transfer.
    pub fn blocks_ns(&self, blocks: u32) -> u64 {
        u64::try_from(self.per_block_ns).unwrap_or(0).saturating_mul(u64::from(blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_costs_are_learned_while_sizes_differ_and_kept_when_they_do_not() {
        let mut costs = Costs::NEW;
        let took_ns = |blocks: u32| 300_000 + 11_000 * u64::from(blocks);
        for n in 0..40 {
            let blocks = [8, 24, 64, 16][n % 4];
            costs.learn(blocks, took_ns(blocks));
        }
        for _ in 0..500 {
            costs.learn(64, took_ns(64));
        }
        let fixed_ns = costs.fixed_ns().unwrap();
        assert!((290_000..310_000).contains(&fixed_ns), "{fixed_ns}");
        let block_ns = costs.blocks_ns(100) / 100;
        assert!((10_800..11_200).contains(&block_ns), "{block_ns}");
    }

    #[test]
    fn the_longest_and_the_shortest_do_not_overflow() {
        let mut costs = Costs::NEW;
        for n in 0..200u32 {
            let (blocks, took_ns) = if n % 3 == 0 { (u32::MAX, u64::MAX) } else { (n % 2, 0) };
            costs.learn(blocks, took_ns);
            let _ = (costs.fixed_ns(), costs.blocks_ns(u32::MAX));
        }
    }
}
