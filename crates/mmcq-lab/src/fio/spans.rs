//! Spans of time that do not overlap, such as the times in which a job transferred data.

/// Spans of time in ns, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// Adds the time from `from_ns` to `to_ns`. Time that is in the list already counts once.
    pub fn add(&mut self, from_ns: u64, to_ns: u64) {
        if from_ns >= to_ns {
            return;
        }
        let first = self.0.partition_point(|span| span.1 < from_ns);
        let end = first + self.0[first..].partition_point(|span| span.0 <= to_ns);
        let (mut from, mut to) = (from_ns, to_ns);
        for span in &self.0[first..end] {
            (from, to) = (from.min(span.0), to.max(span.1));
        }
        self.0.splice(first..end, [(from, to)]);
    }

    /// Adds all times of another list.
    pub fn join(&mut self, other: &Spans) {
        other.0.iter().for_each(|span| self.add(span.0, span.1));
    }

    /// Returns the length in ns of all spans together.
    pub fn ns(&self) -> u64 {
        self.0.iter().map(|span| span.1 - span.0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_once_in_any_order() {
        crate::fuzz::fuzz("time_counts_once_in_any_order", 200, |u| {
            let (mut spans, mut is_in) = (Spans::default(), [false; 64]);
            for _ in 0..u.int_in_range(0..=12)? {
                let ends = [u.int_in_range(0..=63)?, u.int_in_range(0..=63)?];
                let mut one = Spans::default();
                one.add(ends[0], ends[1]);
                spans.join(&one);
                (ends[0]..ends[1]).for_each(|at| is_in[at as usize] = true);
            }
            assert_eq!(spans.ns(), is_in.iter().filter(|is_in| **is_in).count() as u64);
            assert!(spans.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{spans:?}");
            Ok(())
        });
    }
}
