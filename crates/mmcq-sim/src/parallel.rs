//! Distribution of work over the threads of a computer, and by shards over computers. Each piece of
//! work has a number, and results from threads are passed on in the order of these numbers.

mod stop;

pub use stop::Stop;

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

/// Returns the number of threads for which this computer has cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `work` with each number below `count`, on this number of threads. Calls `take` with the
/// results in the order of these numbers; the first error of `take` stops the work.
///
/// # Errors
/// The error that `take` returned.
pub fn in_order<T: Send, E>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    // Number of the result that is due, and the results from there on, as far as they are done.
    let ready = Mutex::new((0, VecDeque::new()));
    let lock = || ready.lock().unwrap_or_else(PoisonError::into_inner);
    let mut first_error = None;
    let done = |at: usize| {
        let result = work(at);
        let (due, results) = &mut *lock();
        if results.len() <= at - *due {
            results.resize_with(at - *due + 1, || None);
        }
        results[at - *due] = Some(result);
    };
    let next = || {
        let (due, results) = &mut *lock();
        let result = results.front_mut()?.take()?;
        results.pop_front();
        *due += 1;
        Some(result)
    };
    run(count, threads, &done, &mut || {
        let Some(result) = next() else { return Next::Missing };
        first_error = take(result).err();
        if first_error.is_some() { Next::Stop } else { Next::Taken }
    });
    first_error.map_or(Ok(()), Err)
}

/// What became of the result that is next in the order.
enum Next {
    /// The result was taken.
    Taken,
    /// Its work is not done yet.
    Missing,
    /// The result was taken, and the work is to stop.
    Stop,
}

/// Calls `work` with each number below `count`, on this number of threads. After each call it calls
/// `take` until a result is missing. The function is the same for all types of results, so that it
/// is compiled once.
fn run(count: usize, threads: usize, work: &(dyn Fn(usize) + Sync), take: &mut dyn FnMut() -> Next) {
    let (next, stop) = (AtomicUsize::new(0), Stop::heard());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            let (sender, next, stop) = (sender.clone(), &next, stop.clone());
            let works = move || {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && at < count
                    && {
                        work(at);
                        sender.send(()).is_ok()
                    }
                {}
            };
            scope.spawn(move || match stop {
                Some(stop) => stop.during(works),
                None => works(),
            });
        }
        drop(sender);
        while receiver.recv().is_ok() {
            loop {
                match take() {
                    Next::Taken => {}
                    Next::Missing => break,
                    Next::Stop => return next.store(count, Ordering::Relaxed),
                }
            }
        }
    });
}

/// Calls `work` with each number below `count`, on this number of threads. Returns the results in
/// the order of these numbers.
pub fn each<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut all = Vec::with_capacity(count);
    let Ok(()) = in_order(count, threads, work, |done| {
        all.push(done);
        Ok::<_, std::convert::Infallible>(())
    });
    all
}

/// A shard: one of `count` equal parts of a sweep or a campaign, for one process or computer. The
/// measurements or cases of the sweep or campaign are numbered; the shard has those whose number
/// modulo `count` is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index of this shard (part of the work), from 0.
    pub index: usize,
    /// Number of shards (equal parts) into which the work is divided.
    pub count: usize,
}

impl FromStr for Shard {
    type Err = String;

    /// Parses a shard of a sweep or campaign: `i/n`, with i from 1 to n.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let shard: Option<(usize, usize)> = numbers.filter(|(i, n)| (1..=*n).contains(i));
        let shard = shard.map(|(index, count)| Shard { index: index - 1, count });
        shard.ok_or_else(|| "expected I/N with I from 1 to N: 3/16".to_owned())
    }
}

impl Shard {
    /// Returns the numbers of the measurements or cases that belong to this shard, of the numbers 0
    /// to `points` - 1.
    pub fn part(self, points: usize) -> impl Iterator<Item = usize> {
        (self.index..points).step_by(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_work() {
        for threads in [0, 1, 3, 200] {
            assert_eq!(each(100, threads, |at| at * at), (0..100).map(|at| at * at).collect::<Vec<_>>());
        }
        assert!(each(0, 4, |at| at).is_empty());
    }

    #[test]
    fn the_first_error_in_order_ends_the_run() {
        let mut taken = Vec::new();
        let result = in_order(
            1000,
            3,
            |at| if at % 7 == 6 { Err(at) } else { Ok(at) },
            |done| {
                taken.push(done?);
                Ok::<_, usize>(())
            },
        );
        assert_eq!((result, taken), (Err(6), (0..6).collect()));
    }

    #[test]
    fn shards_part_the_points_and_lose_none() {
        for (points, count) in [(10, 3), (2, 5), (0, 4), (16, 1)] {
            let mut all: Vec<usize> =
                (0..count).flat_map(|index| Shard { index, count }.part(points)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..points).collect::<Vec<_>>(), "{points} {count}");
        }
        assert_eq!("3/16".parse(), Ok(Shard { index: 2, count: 16 }));
        for bad in ["5/3", "0/3", "1/0", "x", "1/2/3", "-1/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
