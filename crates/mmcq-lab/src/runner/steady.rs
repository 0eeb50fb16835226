//! The steady rate of a run: without its beginning, when caches are empty and jobs start one after the other, and without its end, when jobs run out of work.

/// The rate between a quarter and seven eighths of the planned bytes: the slope of bytes over time, by least squares over the completions.
///
/// A rate between two moments is off by the batch that ends at one of them; the slope is not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steady {
    from: u64,
    to: u64,
    origin_ns: u64,
    points: f64,
    ns: f64,
    bytes: f64,
    ns_ns: f64,
    ns_bytes: f64,
    /// Requests under way, since when, and their time under way in the steady state.
    under_way: u32,
    since_ns: u64,
    waited_ns: f64,
    /// The same at the last completion, and completions; until the first job runs out of work.
    waits: (f64, f64),
    out_of_work: bool,
}

impl Steady {
    /// For a run that plans so many bytes.
    pub(super) fn new(planned: u64) -> Self {
        Steady { from: planned / 4, to: planned / 8 * 7, ..Steady::default() }
    }

    /// The time since the last look has been waited by all that was under way.
    fn wait(&mut self, now_ns: u64) {
        if self.points > 0.0 {
            self.waited_ns += f64::from(self.under_way) * now_ns.saturating_sub(self.since_ns) as f64;
        }
        self.since_ns = self.since_ns.max(now_ns);
    }

    /// A request has been sent.
    pub(super) fn sent(&mut self, now_ns: u64) {
        self.wait(now_ns);
        self.under_way += 1;
    }

    /// A job has no more to do: what the others wait for is less from now on.
    pub(super) fn ends_job(&mut self) {
        self.out_of_work = true;
    }

    /// One is complete; so many bytes have been moved by now.
    pub(super) fn moved(&mut self, bytes: u64, now_ns: u64) {
        self.wait(now_ns);
        self.under_way = self.under_way.saturating_sub(1);
        if !(self.from..=self.to).contains(&bytes) {
            return;
        }
        if self.points == 0.0 {
            self.origin_ns = now_ns;
        }
        if !self.out_of_work {
            self.waits = (self.waited_ns, self.points);
        }
        let (x, y) = ((now_ns - self.origin_ns) as f64, (bytes - self.from) as f64);
        self.points += 1.0;
        self.ns += x;
        self.bytes += y;
        self.ns_ns += x * x;
        self.ns_bytes += x * y;
    }

    /// MiB a second; `None` if all completions came at once.
    pub fn mib_per_s(&self) -> Option<f64> {
        let spread = self.points * self.ns_ns - self.ns * self.ns;
        let slope = (self.points * self.ns_bytes - self.ns * self.bytes) / spread;
        (self.points >= 3.0 && spread > 0.0).then_some(slope * 1e9 / f64::from(1 << 20))
    }

    /// Mean latency by Little's law, in nanoseconds: the time that all requests together were under way, for each that was completed. What is never completed meanwhile
    /// counts too, which is in no mean of latencies; and what other jobs do when one has run out of work does not.
    pub fn mean_ns(&self) -> Option<f64> {
        let (waited_ns, completions) = self.waits;
        (completions >= 2.0).then(|| waited_ns / completions)
    }
}

#[cfg(test)]
mod tests {
    use super::Steady;

    #[test]
    fn the_slope_sees_neither_the_beginning_nor_the_place_of_a_batch() {
        let mut steady = Steady::new(1 << 20);
        // The first eighth for nothing; then batches of 16 requests of 4 KiB, one each 100 us.
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

    #[test]
    fn a_request_that_is_never_completed_is_in_the_mean() {
        let of = |starved: bool| {
            let mut steady = Steady::new(1 << 20);
            steady.sent(0);
            if starved {
                steady.sent(0);
            }
            for request in 1..=256 {
                steady.moved(4096 * request, 1_000 * request);
                steady.sent(1_000 * request);
                // Then it is alone.
                if starved && request == 200 {
                    steady.ends_job();
                    steady.under_way -= 1;
                }
            }
            steady.mean_ns().unwrap()
        };
        assert_eq!((of(false), of(true)), (1_000.0, 2_000.0));
        assert!(Steady::new(1 << 20).mean_ns().is_none());
    }
}
