//! What a controller does by itself, and when: the core that all models of controllers share.

/// The moment of what will not happen.
pub(crate) const NEVER: u64 = u64::MAX;

/// One moment for each kind of event, a row of `ALL`. Of simultaneous ones the first row happens first.
#[derive(Clone, Copy)]
pub(crate) struct Timers<T, const N: usize> {
    all: [T; N],
    at_ns: [u64; N],
}

impl<T: Copy, const N: usize> Timers<T, N> {
    /// Nothing is due. `all` has each kind once, in order.
    pub const fn new(all: [T; N]) -> Self {
        Timers { all, at_ns: [NEVER; N] }
    }

    /// When the kind with this number is due.
    pub fn at_ns(&self, number: usize) -> u64 {
        self.at_ns[number]
    }

    /// The kind with this number is due then.
    pub fn set(&mut self, number: usize, at_ns: u64) {
        self.at_ns[number] = at_ns;
    }

    /// Nothing is due any more.
    pub fn clear(&mut self) {
        self.at_ns = [NEVER; N];
    }

    /// When the next is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.at_ns.iter().copied().min().filter(|&at| at != NEVER)
    }

    /// Takes the next, if it is due by `until_ns`, and sets `now` to its moment; time does not go back.
    pub fn take_due(&mut self, until_ns: u64, now: &mut u64) -> Option<T> {
        let (number, at) = (0..N).map(|number| (number, self.at_ns[number])).min_by_key(|&(_, at)| at)?;
        if at > until_ns || at == NEVER {
            return None;
        }
        self.at_ns[number] = NEVER;
        *now = at.max(*now);
        Some(self.all[number])
    }
}

/// A model that is told the time.
pub(crate) trait Eventful {
    /// The time that it has reached.
    fn now(&mut self) -> &mut u64;

    /// Its interrupt line.
    fn line(&self) -> bool;

    /// Lets the next event happen, if it is due by `until_ns`.
    fn fire(&mut self, until_ns: u64) -> bool;
}

/// Lets everything happen up to and including `until_ns`, in order; stops early at the moment the interrupt
/// line rises. Returns how far it came. A time in the past changes nothing.
pub(crate) fn advance(model: &mut impl Eventful, until_ns: u64) -> u64 {
    let mut before = model.line();
    while model.fire(until_ns) {
        if model.line() && !before {
            return *model.now();
        }
        before = model.line();
    }
    let now = model.now();
    *now = until_ns.max(*now);
    until_ns
}

/// Lets everything happen up to `now_ns`, and takes that as the time; whatever the caller says, time does
/// not go back.
pub(crate) fn reach(model: &mut impl Eventful, now_ns: u64) -> u64 {
    while model.fire(now_ns) {}
    let now = model.now();
    *now = now_ns.max(*now);
    *now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_happen_in_the_order_of_their_kinds_and_time_does_not_go_back() {
        let mut timers = Timers::new(['a', 'b', 'c']);
        let mut now = 7;
        assert_eq!((timers.next_ns(), timers.take_due(NEVER, &mut now)), (None, None));
        timers.set(2, 5);
        timers.set(1, 5);
        timers.set(0, 9);
        assert_eq!((timers.next_ns(), timers.at_ns(0)), (Some(5), 9));
        assert_eq!((timers.take_due(8, &mut now), now), (Some('b'), 7));
        assert_eq!((timers.take_due(8, &mut now), now), (Some('c'), 7));
        assert_eq!((timers.take_due(8, &mut now), now), (None, 7));
        assert_eq!((timers.take_due(9, &mut now), now), (Some('a'), 9));
        timers.set(0, 10);
        timers.clear();
        assert_eq!(timers.next_ns(), None);
    }
}
