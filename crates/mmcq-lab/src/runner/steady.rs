//! Steady rate of a run. It leaves out the start, when caches are empty and jobs start one after
//! the other, and the end, when jobs run out of work.

/// Rate of a run between a quarter and seven eighths of its planned bytes: the slope of bytes over
/// time, by least squares over all completions.
///
/// Completions come in batches. A rate between only two moments would depend on whether a batch
/// ends just before or just after each of them; the slope hardly does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steady {
    from: u64,
    to: u64,
    origin_ns: u64,
    points: f64,
    ns: f64,
    bytes: f64,
    ns_ns: f64,
    ns_bytes: f64,
}

impl Steady {
    /// Makes the measurement of the steady rate for a run that plans to transfer this number of
    /// bytes.
    pub(crate) fn new(planned: u64) -> Self {
        Steady { from: planned / 4, to: planned / 8 * 7, ..Steady::default() }
    }

    /// Records that this number of bytes in total has been transferred at the time `now_ns`.
    pub(super) fn moved(&mut self, bytes: u64, now_ns: u64) {
        if !(self.from..=self.to).contains(&bytes) {
            return;
        }
        if self.points == 0.0 {
            self.origin_ns = now_ns;
        }
        let (x, y) = ((now_ns - self.origin_ns) as f64, (bytes - self.from) as f64);
        self.points += 1.0;
        self.ns += x;
        self.bytes += y;
        self.ns_ns += x * x;
        self.ns_bytes += x * y;
    }

    /// Returns the steady rate in MiB/s. `None`: fewer than three completions were measured, or all
    /// came at the same time.
    pub fn mib_per_s(&self) -> Option<f64> {
        let spread = self.points * self.ns_ns - self.ns * self.ns;
        let slope = (self.points * self.ns_bytes - self.ns * self.bytes) / spread;
        (self.points >= 3.0 && spread > 0.0).then_some(slope * 1e9 / f64::from(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::Steady;

    #[test]
    fn the_slope_sees_neither_the_beginning_nor_the_place_of_a_batch() {
        let mut steady = Steady::new(1 << 20);
        // The first eighth takes no time. Then batches of 16 requests of 4 KiB follow, each 100 us
        // after the last.
        let (mut moved, mut now_ns) = (0, 0);
        for request in 0..256 {
            moved += 4096;
            if request >= 32 && request % 16 == 0 {
                now_ns += 100_000;
            }
            steady.moved(moved, now_ns);
        }
        let rate = steady.mib_per_s().unwrap();
        assert!((rate / 625.0 - 1.0).abs() < 0.01, "{rate}");
        assert!(Steady::new(1 << 20).mib_per_s().is_none());
    }
}
