//! fio's latency histogram: 64 buckets for each power of two, exact below 128 ns. The middle of a
//! bucket represents its latencies in percentiles.

const BITS: u32 = 6;
const PER_OCTAVE: u64 = 1 << BITS;
/// Number of buckets: 29 groups of 64. The last bucket counts all latencies above about 17 s.
pub const BUCKETS: usize = 29 << BITS;

/// Returns the number of the bucket that counts a latency in ns.
pub fn bucket(ns: u64) -> usize {
    let top = 63 - ns.max(1).leading_zeros();
    if top <= BITS {
        return ns as usize;
    }
    let shift = top - BITS;
    let base = u64::from(shift + 1) << BITS;
    let index = base + ((ns >> shift) & (PER_OCTAVE - 1));
    (index as usize).min(BUCKETS - 1)
}

/// Returns the latency in ns that represents a bucket: its middle.
pub fn middle_ns(bucket: usize) -> u64 {
    let index = bucket as u64;
    if index < PER_OCTAVE << 1 {
        return index;
    }
    let shift = (index >> BITS) - 1;
    let base = 1u64 << (shift + u64::from(BITS));
    base + (index % PER_OCTAVE) * (1 << shift) + (1 << shift) / 2
}

/// Histogram of latencies: how many fell into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts a latency in ns in its bucket.
    pub fn add(&mut self, ns: u64) {
        self.add_at(bucket(ns), 1);
    }

    /// Counts `count` latencies in one bucket. A bucket number beyond the end means the last
    /// bucket.
    pub fn add_at(&mut self, bucket: usize, count: u64) {
        let bucket = bucket.min(BUCKETS - 1);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += count;
        self.total += count;
    }

    /// Adds all counts of another histogram to this one.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in other.filled() {
            self.add_at(bucket, count);
        }
    }

    /// Returns the number of all latencies that were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the numbers of the buckets that are not empty, each with its count of latencies.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Returns, for each of these percentages (in rising order), the latency in ns that this share
    /// of the latencies does not exceed. Empty if nothing was counted.
    pub fn percentiles(&self, percents: &[f64]) -> Vec<u64> {
        let mut values = Vec::with_capacity(percents.len());
        let mut wanted = percents.iter().peekable();
        let mut sum = 0;
        for (bucket, count) in self.filled() {
            sum += count;
            while wanted.next_if(|p| sum as f64 >= **p / 100.0 * self.total as f64).is_some() {
                values.push(middle_ns(bucket));
            }
        }
        // The product may be rounded, but the last bucket must still be reached.
        if let Some((last, _)) = self.filled().last() {
            values.resize(percents.len(), middle_ns(last));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_lie_in_their_buckets() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(middle_ns(index)), index);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn known_middles() {
        // Values that fio 3.33 prints as percentiles and as bins of json+.
        for (ns, shown) in [(10, 10), (1000, 1004), (2784, 2800), (20300, 20352), (20500, 20608)] {
            assert_eq!(middle_ns(bucket(ns)), shown);
        }
    }

    #[test]
    fn agrees_with_hdrhistogram_within_a_bucket() {
        let mut ours = Histogram::default();
        let mut other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 20_000_000_000, 4).unwrap();
        let mut x: u64 = 12345;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let ns = 500 + (x >> 44) * ((x >> 33) & 0xff);
            ours.add(ns);
            other.record(ns.max(1)).unwrap();
        }
        let percents = crate::fio::job::DEFAULT_PERCENTILES;
        for (p, found) in percents.iter().zip(ours.percentiles(&percents)) {
            let exact = other.value_at_percentile(*p);
            let error = found.abs_diff(exact) as f64 / exact as f64;
            assert!(error <= 1.0 / 64.0, "p{p}: {found} and {exact}");
        }
    }

    #[test]
    fn merging_is_adding() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for ns in [3, 500, 70_000, 9_000_000_000] {
            a.add(ns);
            b.add(ns * 2);
            both.add(ns);
            both.add(ns * 2);
        }
        a.merge(&b);
        assert_eq!(a, both);
        assert!(Histogram::default().percentiles(&[50.0]).is_empty());
    }
}
