//! Spin or leave: stay where one is for as long as a phase is expected to take less CPU time than leaving
//! and coming back.
//!
//! Integers only, a few words of state, and no clock of its own: whoever moves the engine tells how long
//! phases took, and asks before it leaves.

/// What takes about the same time on one bus clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A command without data: CMD52, CMD13.
    Command,
    /// Data of at most so many bytes that they come with one interrupt.
    Short,
    /// Data: from the command to the first service of the FIFO, or to the end of DMA.
    First,
    /// From one service of the FIFO to the next.
    Fifo,
}

/// How many classes there are.
const CLASSES: usize = 4;
/// A new time counts for one part in `1 << SHIFT`.
const SHIFT: u32 = 3;
/// Nothing is known.
const UNKNOWN: u64 = u64::MAX;

/// How long phases take, learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    mean_ns: [u64; CLASSES],
}

impl Default for Learned {
    fn default() -> Self {
        Learned { mean_ns: [UNKNOWN; CLASSES] }
    }
}

impl Learned {
    /// A phase of this class took so long.
    pub fn saw(&mut self, class: Class, took_ns: u64) {
        let mean_ns = &mut self.mean_ns[class as usize];
        *mean_ns = match *mean_ns {
            UNKNOWN => took_ns.min(UNKNOWN - 1),
            mean_ns => mean_ns - (mean_ns >> SHIFT) + (took_ns.min(UNKNOWN - 1) >> SHIFT),
        };
    }

    /// How long the next one is expected to take; `None` before the first.
    pub fn expected_ns(&self, class: Class) -> Option<u64> {
        Some(self.mean_ns[class as usize]).filter(|&ns| ns != UNKNOWN)
    }

    /// How long to wait at most where it is cheaper: a wrong guess costs no more than that again.
    pub fn patience_ns(price_ns: u64) -> u64 {
        price_ns.saturating_mul(2)
    }

    /// Is it cheaper to wait here, if leaving and coming back takes `price_ns` of the CPU? Who knows nothing
    /// leaves, and learns from the interrupt.
    pub fn stays(&self, class: Class, price_ns: u64) -> bool {
        self.expected_ns(class).is_some_and(|ns| ns <= price_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leaves_until_it_knows_and_follows_what_it_sees() {
        let mut learned = Learned::default();
        assert!(!learned.stays(Class::Command, u64::MAX - 1));
        learned.saw(Class::Command, 10_400);
        assert_eq!(learned.expected_ns(Class::Command), Some(10_400));
        assert!(learned.stays(Class::Command, 11_000) && !learned.stays(Class::Command, 10_000));
        assert!(!learned.stays(Class::Fifo, 11_000), "classes know nothing of each other");
        // Another bus clock: forgotten after some tens of commands.
        (0..40).for_each(|_| learned.saw(Class::Command, 260_000));
        assert!(learned.expected_ns(Class::Command).is_some_and(|ns| (250_000..=260_000).contains(&ns)));
        (0..100).for_each(|_| learned.saw(Class::Command, 0));
        assert!(learned.expected_ns(Class::Command).is_some_and(|ns| ns < 16));
    }
}
