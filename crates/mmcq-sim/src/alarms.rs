//! Alarms of a model: the times at which its parts do something by themselves.

/// Time of an alarm that is not set.
pub(crate) const NEVER: u64 = u64::MAX;

/// Alarm times in ns, one for each part of a model, at most 32. Of alarms with the same time, the
/// lower number comes first.
///
/// A model reads the next alarm far more often than it changes one, so [`Alarms`] stores the number
/// of the next alarm. Few alarms are set at a time, and a search for the next one looks at these
/// alone.
#[derive(Clone, Debug)]
pub(crate) struct Alarms<const N: usize> {
    at_ns: [u64; N],
    /// The alarms that are set, one bit each.
    set: u32,
    next: usize,
}

impl<const N: usize> Alarms<N> {
    /// A set of alarms in which none is set.
    pub(crate) const NONE: Self = {
        assert!(N <= u32::BITS as usize);
        Alarms { at_ns: [NEVER; N], set: 0, next: 0 }
    };

    /// Returns the time of an alarm in ns; [`NEVER`] if it is not set.
    #[inline]
    pub(crate) fn at_ns(&self, alarm: usize) -> u64 {
        self.at_ns[alarm]
    }

    /// Sets an alarm to this time in ns, instead of its former time.
    #[inline]
    pub(crate) fn set(&mut self, alarm: usize, at_ns: u64) {
        let before = std::mem::replace(&mut self.at_ns[alarm], at_ns);
        if at_ns == before {
            return;
        }
        let bit = 1 << alarm;
        self.set = if at_ns == NEVER { self.set & !bit } else { self.set | bit };
        if alarm == self.next {
            if at_ns > before {
                self.next = self.earliest();
            }
        } else if (at_ns, alarm) < (self.at_ns[self.next], self.next) {
            self.next = alarm;
        }
    }

    /// Returns the number and the time of the next alarm; `None` if none is set.
    #[inline]
    pub(crate) fn next(&self) -> Option<(usize, u64)> {
        let at_ns = self.at_ns[self.next];
        (at_ns != NEVER).then_some((self.next, at_ns))
    }

    #[inline]
    fn earliest(&self) -> usize {
        let (mut earliest, mut earliest_ns) = (0, NEVER);
        let mut set = self.set;
        while set != 0 {
            let alarm = set.trailing_zeros() as usize;
            set &= set - 1;
            if self.at_ns[alarm] < earliest_ns {
                (earliest, earliest_ns) = (alarm, self.at_ns[alarm]);
            }
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_the_earliest_and_of_simultaneous_ones_the_first() {
        crate::fuzz::fuzz("the_next_is_the_earliest_and_of_simultaneous_ones_the_first", 300, |u| {
            let (mut alarms, mut set) = (Alarms::<6>::NONE, [NEVER; 6]);
            assert_eq!(alarms.next(), None);
            for _ in 0..u.int_in_range(1..=40)? {
                let alarm = u.choose_index(set.len())?;
                let at_ns = if u.ratio(1, 4)? { NEVER } else { u.int_in_range(0..=5)? };
                set[alarm] = at_ns;
                alarms.set(alarm, at_ns);
                let first = (0..set.len()).min_by_key(|&alarm| set[alarm]).map(|alarm| (alarm, set[alarm]));
                assert_eq!(alarms.next(), first.filter(|next| next.1 != NEVER));
                assert_eq!(alarms.at_ns(alarm), at_ns);
            }
            Ok(())
        });
    }
}
