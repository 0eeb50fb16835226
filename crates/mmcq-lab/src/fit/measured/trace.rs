//! Reads figures of a trace: the time that the device needed for requests that were alone (D2C,
//! driver to completion).
//!
//! Requests of one kind and size are a class. Requests that begin where the request before ended
//! are a separate class. The figure of a class is the median of its times. The model replays the
//! requests at the times at which the driver received them, and its figure is the median of the
//! same class. So a cache is as full, and read-ahead has as much time, as in the recording.

use super::{Figure, Load, What, size};
use crate::fio::Dir;
use crate::fio::script::Remap;
use crate::recorded::export::Completed;
use crate::recorded::plan::{self, Mode, Wishes};
use crate::recorded::{self, Moment, Op, Reading};
use crate::system::How;
use mmcq::host::Direction;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest number of a trace's requests that each run of the model replays.
const REQUESTS: usize = 4000;
/// Smallest number of requests of a class whose median is a useful figure.
const LEAST: usize = 8;
/// Largest number of classes of requests from which the fit takes a figure (the median); those with
/// the most requests are used.
const CLASSES: usize = 12;

/// Class of requests that should take the same time: kind, size, and whether they continue the
/// request before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    write: bool,
    durable: bool,
    /// Whether the request begins at the address where the request before ended.
    follows: bool,
    bytes: u64,
}

impl Class {
    fn name(self) -> String {
        let what = match (self.write, self.durable) {
            (false, _) => "read",
            (true, false) => "write",
            (true, true) => "durable write",
        };
        let place = if self.follows { "in a row" } else { "elsewhere" };
        format!("{what} {} {place}, alone", size(self.bytes))
    }
}

/// A request as the driver saw it: start and end in ns, first block, and class (kind and size). The
/// class is `None` if the request transfers no data.
struct Served {
    from_ns: u64,
    to_ns: u64,
    first: u64,
    class: Option<Class>,
}

/// Returns the times in ns that the device needed for requests that were alone in it, sorted by
/// class (kind and size of the request). `served` is in the order in which the driver received the
/// requests.
fn alone(served: &[Served]) -> BTreeMap<Class, Vec<u64>> {
    let mut all = BTreeMap::<Class, Vec<u64>>::new();
    let (mut busy_ns, mut end) = (0, None);
    for (at, one) in served.iter().enumerate() {
        let free = one.from_ns >= busy_ns;
        busy_ns = busy_ns.max(one.to_ns);
        let next = served.get(at + 1).is_none_or(|next| next.from_ns >= one.to_ns);
        let Some(class) = one.class else { continue };
        let follows = end == Some(one.first);
        end = Some(one.first + class.bytes);
        if free && next {
            all.entry(Class { follows, ..class }).or_default().push(one.to_ns - one.from_ns);
        }
    }
    all
}

fn median_us(mut times: Vec<u64>) -> Option<f64> {
    times.sort_unstable();
    let (low, high) = (times.get((times.len().max(1) - 1) / 2)?, times.get(times.len() / 2)?);
    Some((*low as f64 + *high as f64) / 2e3)
}

/// Reads the figures of a trace, as one load; with `device`, of this device alone.
pub(super) fn read(path: &Path, device: Option<&str>) -> Result<Load, String> {
    let name = path.display().to_string();
    let wishes = Wishes {
        mode: Mode::Open,
        depth: 64,
        scale: 1.0,
        gap_max_ns: None,
        remap: Remap::Modulo,
        sort: false,
        count: REQUESTS,
        without_flush: false,
        without_fua: false,
        without_discard: true,
    };
    let device = device.map(str::to_owned);
    let reading = Reading { moment: Moment::Issued, device, ..Reading::default() };
    let files = recorded::files(path);
    let events = || recorded::read(&files, &reading).map_err(|error| error.to_string());
    let records = plan::records(events()?.0, &wishes).map_err(|error| error.to_string())?;
    let devices: BTreeSet<u32> =
        records.iter().filter(|record| record.bytes > 0).map(|record| record.device).collect();
    if devices.len() > 1 {
        let count = devices.len();
        return Err(format!(
            "{name}: requests of {count} devices; expected --device DEVICE, as the trace names it"
        ));
    }
    let served: Vec<Served> = records
        .iter()
        .filter_map(|record| {
            let write = record.op == Op::Write;
            let class = Class { write, durable: record.durable, follows: false, bytes: record.bytes };
            Some(Served {
                from_ns: record.at_ns,
                to_ns: record.at_ns.saturating_add(record.took_ns?),
                first: record.offset,
                class: matches!(record.op, Op::Read | Op::Write).then_some(class),
            })
        })
        .collect();
    let mut classes: Vec<(Class, Vec<u64>)> =
        alone(&served).into_iter().filter(|(_, times)| times.len() >= LEAST).collect();
    classes.sort_by_key(|(class, times)| (std::cmp::Reverse(times.len()), *class));
    classes.truncate(CLASSES);
    if classes.is_empty() {
        return Err(format!(
            "{name}: of no kind and size {LEAST} requests were alone with the driver; expected the events D and C \
             (block_rq_issue and block_rq_complete) of such"
        ));
    }
    let figures = classes.into_iter().filter_map(|(class, times)| {
        Some(Figure {
            place: name.clone(),
            name: class.name(),
            what: What::Device(class),
            dir: if class.write { Dir::Write } else { Dir::Read },
            sections: (0, 0),
            block_bytes: class.bytes,
            measured: median_us(times)?,
        })
    });
    let figures = figures.collect();
    let plan = plan::plan(&name, events()?.0, &wishes).map_err(|error| error.to_string())?;
    let (jobs, changes, setting, seed) = Default::default();
    Ok(Load { jobs, trace: plan.workers.into(), changes, setting, seed, figures })
}

/// Returns the model's figure of a class of requests, in us: the median duration in the replay of
/// those requests of the class during which no other request was under way. `None`: there is no
/// such request.
pub(in crate::fit) fn figure(class: Class, completed: &[Completed]) -> Option<f64> {
    let mut served: Vec<Served> = completed
        .iter()
        .map(|one| {
            let bytes = u64::from(one.io.blocks) * 512;
            let moves = one.io.blocks > 0 && one.io.how != How::Discard;
            let write = one.io.direction == Direction::Write;
            let durable = one.io.how == How::Durable;
            Served {
                from_ns: one.driver_ns,
                to_ns: one.done_ns,
                first: one.io.lba.saturating_mul(512),
                class: moves.then_some(Class { write, durable, follows: false, bytes }),
            }
        })
        .collect();
    served.sort_by_key(|one| one.from_ns);
    median_us(alone(&served).remove(&class)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Class = Class { write: false, durable: false, follows: false, bytes: 4096 };

    fn served(all: &[(u64, u64, u64, Option<Class>)]) -> Vec<Served> {
        all.iter().map(|&(from_ns, to_ns, first, class)| Served { from_ns, to_ns, first, class }).collect()
    }

    #[test]
    fn only_what_was_alone_counts_and_what_follows_is_apart() {
        let all = served(&[
            (0, 10, 0, Some(READ)),
            (20, 25, 4096, Some(READ)),
            // Two requests overlap, so neither was alone.
            (30, 50, 65536, Some(READ)),
            (40, 60, 0, Some(READ)),
            // A read overlaps a flush.
            (70, 90, 0, None),
            (80, 85, 4096, Some(READ)),
            (100, 107, 8192, Some(READ)),
            (110, 119, 0, Some(READ)),
        ]);
        let found = alone(&all);
        let rest: Vec<_> = found.into_iter().map(|(class, times)| (class.follows, times)).collect();
        assert_eq!(rest, [(false, vec![10, 9]), (true, vec![5, 7])]);
    }

    #[test]
    fn medians() {
        assert_eq!(median_us(Vec::new()), None);
        assert_eq!(median_us(vec![3000]), Some(3.0));
        assert_eq!(median_us(vec![9000, 1000, 2000]), Some(2.0));
        assert_eq!(median_us(vec![4000, 1000, 2000, 9000]), Some(3.0));
    }
}
