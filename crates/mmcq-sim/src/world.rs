//! The queue of events in virtual time, and streams of random numbers.
//!
//! Of events with the same time, the one that was added first comes first. Every purpose has its
//! own stream of random numbers, so that an additional event does not change the numbers of other
//! purposes.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;

/// A model that runs in parallel to the CPU and interrupts it: a controller with its card.
pub trait Device {
    /// Advances the model to this time, but stops as soon as its interrupt line rises. Returns the
    /// time that the model has reached. The time never decreases, and while the line is high the
    /// call returns at once.
    fn advance(&mut self, until_ns: u64) -> u64;

    /// Returns the time in ns of the next event inside the model, which happens without an access
    /// by the CPU; `None` if there is none.
    fn next_event_ns(&self) -> Option<u64>;

    /// Returns whether the interrupt line is asserted.
    fn irq(&self) -> bool;
}

/// Queue of events in the order of their times.
///
/// Few events are near, and most new events come before most of the near ones. For such events a
/// list with the next event at its end takes fewer steps than a heap. If each request has a
/// deadline there are many deadlines, and a new one comes after most others: these are in a second
/// list.
pub struct Queue<E> {
    /// The nearest events, with the next one at the end of the list. The list is empty only if the
    /// whole queue is empty.
    soon: Vec<(u64, E)>,
    /// All events that are not in the list of the nearest ones, with the next one at the front.
    later: VecDeque<(u64, E)>,
}

/// Largest number of events in the list of the nearest ones (`soon`); further ones are in `later`.
const SOON_MAX: usize = 32;

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { soon: Vec::new(), later: VecDeque::new() }
    }
}

impl<E> Queue<E> {
    /// Makes a queue without events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event that happens at the virtual time `at_ns`.
    pub fn push(&mut self, at_ns: u64, event: E) {
        if self.later.front().is_some_and(|first| first.0 <= at_ns) {
            let place = self.later.partition_point(|other| other.0 <= at_ns);
            return self.later.insert(place, (at_ns, event));
        }
        let sooner = self.soon.iter().rev().take_while(|other| other.0 <= at_ns).count();
        self.soon.insert(self.soon.len() - sooner, (at_ns, event));
        if self.soon.len() > SOON_MAX {
            self.soon.drain(..SOON_MAX / 2).for_each(|last| self.later.push_front(last));
        }
    }

    /// Returns the time in ns of the next event; `None` if the queue is empty.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.soon.last().map(|event| event.0)
    }

    /// Removes and returns the next event; `None` if the queue is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let next = self.soon.pop();
        if self.soon.is_empty() && !self.later.is_empty() {
            self.come_near();
        }
        next
    }
}

impl<E> Queue<E> {
    /// Moves the next events from the list of later events into the list of near events, which is
    /// empty.
    #[cold]
    fn come_near(&mut self) {
        let count = self.later.len().min(SOON_MAX / 2);
        self.soon.extend(self.later.drain(..count));
        self.soon.reverse();
    }
}

/// A stream of random numbers for one purpose.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256StarStar);

impl Stream {
    /// Makes the stream of random numbers for this purpose under this seed.
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a hash of the purpose's name: a stream depends on its name only, not on the order in
        // which streams are made.
        let name = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Stream(Xoshiro256StarStar::seed_from_u64(seed ^ name))
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number from 0 to `n` - 1, all equally likely; returns 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Draws a number from the open interval (0, 1), all equally likely.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Returns true with the probability `share`, 0 to 1.
    pub fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    /// Draws a random number from an exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -ln(self.unit())
    }

    /// Draws from a gamma distribution with mean 1 and a coefficient of variation of 1/4: the mean
    /// of 16 exponentials.
    pub fn gamma16(&mut self) -> f64 {
        // Sixteen factors of at least 2^-54 each stay above the smallest normal number (2^-1022).
        let product = (0..16).fold(1.0, |p, _| p * self.unit());
        -ln(product) / 16.0
    }
}

/// Returns the natural logarithm of a positive normal number. The function uses only the four basic
/// operations, whose results are exact by standard, so that a seed gives the same trace with every
/// mathematical library.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    // ln m = 2 artanh((m - 1) / (m + 1)), |argument| <= 1/3.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    let mut power = z;
    for k in 0..16 {
        sum += power / f64::from(2 * k + 1);
        power *= square;
    }
    2.0 * sum + exponent as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_and_ties_keep_theirs() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.push(at, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, 'a'), (2, 'b'), (5, 'c'), (5, 'd')]);
    }

    #[test]
    fn between_others_an_event_keeps_its_place() {
        crate::fuzz::fuzz("between_others_an_event_keeps_its_place", 300, |u| {
            // The number of an event is its place in the order of insertion.
            let (mut queue, mut waiting) = (Queue::new(), Vec::new());
            for number in 0..u.int_in_range(1..=200)? {
                if u.ratio(2, 3)? {
                    let at_ns = u.int_in_range(0..=19)?;
                    queue.push(at_ns, number);
                    waiting.push((at_ns, number));
                } else {
                    let first = waiting.iter().copied().min();
                    assert_eq!(queue.next_ns(), first.map(|event| event.0));
                    assert_eq!(queue.pop(), first);
                    waiting.retain(|event| Some(*event) != first);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn logarithm_agrees_with_the_library() {
        for x in [1e-300, 1e-9, 0.1, 0.5, 0.999_999, 1.0, 1.5, 2.0, 3.25, 1e17] {
            assert!((ln(x) - x.ln()).abs() <= 1e-13 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut stream = Stream::new(1, "test");
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|_| stream.gamma16()).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
        assert!((variance.sqrt() - 0.25).abs() < 0.005, "{variance}");
        let mean = (0..n).map(|_| stream.exponential()).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((0..10_000).all(|_| stream.below(7) < 7));
    }

    #[test]
    fn streams_are_named_not_numbered() {
        let (mut a, mut b) = (Stream::new(3, "wake"), Stream::new(3, "hop"));
        assert_ne!(a.bits(), b.bits());
        assert_eq!(Stream::new(3, "wake").bits(), Stream::new(3, "wake").bits());
    }
}
