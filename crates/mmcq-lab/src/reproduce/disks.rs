//! The benchmark loop of GNOME Disks (`gdubenchmarkdialog.c`). For each sample it reads one page,
//! reads 10 MiB, reads one page again, and writes the same 10 MiB and synchronises (`fsync`). After
//! all samples it reads pages at random places. It measures the time of the samples and of the
//! reads at random places.
//!
//! The published figures are those of Linux without and with a patch that keeps transfers open
//! ([`Close::Late`](crate::linux::reader::Close::Late)). Linux sends no flush to a card without a
//! cache, so with the patch a write is complete when the card has received its data. mmcq polls the
//! card's status at each `fsync`. So the loop also runs without `fsync`. In that loop, mmcq's
//! writes are also complete when the card has received their data.

use super::{Amount, Row, workers};
use crate::fio::Worker;
use crate::fio::error::Place;
use crate::fio::script::{Entry, Op, Remap, Script, When};
use crate::platform::Platform;
use crate::runner::{Outcome, Run, RunError, Setting, run};
use mmcq_sim::parallel;
use std::sync::Arc;

/// Settings in which the benchmark loop runs: first those with `fsync`, which polls the card's
/// status, then those without. The physical limit comes first in each.
const SETTINGS: [[Setting; 5]; 2] = [
    [Setting::Limit, Setting::Close, Setting::Patch, Setting::Mmcq, Setting::MmcqOwn],
    [Setting::Limit, Setting::Close, Setting::Patch, Setting::MmcqEarly, Setting::MmcqEarlyOwn],
];
/// Number of bytes that one sample reads and writes.
const SAMPLE_BYTES: u64 = 10 << 20;
/// Size in bytes of the small reads of GNOME Disks: at random places, and before large transfers.
const PAGE_BYTES: u64 = 4096;
/// Number of pages of 4 KiB that GNOME Disks reads at random places after the large samples, for
/// each sample.
const PAGES: u64 = 10;
/// Size of the card in bytes, as GNOME Disks shows it.
const CARD_BYTES: u64 = 122_112 << 20;

/// Published rates of reads in MB/s: of Linux without and with the patch by which one CMD18 serves
/// several requests. The card was fitted to the first of them.
const READ: (f64, f64) = (86.9, 91.5);
/// Published rates of writes in MB/s: of Linux without and with the patch by which one CMD25 serves
/// several requests. The card was fitted to the first of them.
const WRITE: (f64, f64) = (38.3, 55.5);

/// Figures that GNOME Disks shows after its benchmark loop.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shown {
    read_mb_per_s: f64,
    write_mb_per_s: f64,
    access_us: f64,
}

/// Returns the requests of the loop with this number of samples; `syncs`: whether it calls `fsync`.
fn script(samples: u64, syncs: bool) -> Script {
    let mut entries = Vec::new();
    let mut push =
        |op, offset, bytes| entries.push(Entry { op, offset, bytes, when: When::AtOnce, due: None });
    for n in 0..samples {
        let offset = n * CARD_BYTES / samples / PAGE_BYTES * PAGE_BYTES;
        push(Op::Read, offset, PAGE_BYTES);
        push(Op::Read, offset, SAMPLE_BYTES);
        push(Op::Read, offset, PAGE_BYTES);
        push(Op::Write, offset, SAMPLE_BYTES);
        if syncs {
            push(Op::Flush, 0, 0);
        }
    }
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..samples * PAGES {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        push(Op::Read, (chance >> 11) % (CARD_BYTES / PAGE_BYTES) * PAGE_BYTES, PAGE_BYTES);
    }
    let extent = (CARD_BYTES, Place::Whole("disks".to_owned()));
    Script {
        entries: Arc::new(entries.into_iter().collect()),
        programs: Arc::default(),
        extent,
        remap: Remap::Refuse,
    }
}

/// Returns a worker that executes the benchmark's reads and writes one after the other, `samples`
/// of each, and logs the time of each. `syncs`: it calls `fsync` after each write.
fn worker(samples: u64, syncs: bool) -> Result<Vec<Worker>, RunError> {
    let job = "[disks]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=psync\nrw=rw\nbs=10M\nzero_buffers\nwrite_lat_log\n";
    let mut workers = workers(job)?;
    for worker in &mut workers {
        worker.script = Some(script(samples, syncs));
    }
    Ok(workers)
}

/// Returns for each transfer of the run, in order: true for a write, the number of bytes, and the
/// time in ns.
fn transfers(outcome: &Outcome) -> Vec<(bool, u64, f64)> {
    let log = outcome.logs.iter().find(|(name, _)| name.contains("_lat."));
    let lines = log.map_or("", |(_, content)| content.as_str()).lines();
    let fields = lines.map(|line| line.split(',').map(|field| field.trim().parse().unwrap_or(0)).collect());
    let known = |fields: Vec<u64>| match fields[..] {
        [_, ns, direction, bytes, ..] => Some((direction == 1, bytes, ns as f64)),
        _ => None,
    };
    fields.filter_map(known).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}

/// Returns the figures that GNOME Disks shows for a loop with `samples` samples. They are the mean
/// rate of the 10-MiB reads, that of the 10-MiB writes, and the mean time of the reads of 4 KiB at
/// random places, which end the loop. For the rate of a write, the mean time of `fsync` is added to
/// its time.
fn shown(outcome: &Outcome, samples: u64) -> Shown {
    let sync_ns: f64 = outcome.stats.iter().map(|stats| stats.sync.ns.mean).sum();
    let all = transfers(outcome);
    let rate = |writes: bool, more_ns: f64| {
        let of_kind = all.iter().filter(|one| one.0 == writes && one.1 == SAMPLE_BYTES);
        mean(of_kind.map(|one| SAMPLE_BYTES as f64 * 1e3 / (one.2 + more_ns)))
    };
    let pages = all.iter().rev().take((samples * PAGES) as usize);
    Shown {
        read_mb_per_s: rate(false, 0.0),
        write_mb_per_s: rate(true, sync_ns),
        access_us: mean(pages.map(|one| one.2 / 1e3)),
    }
}

/// Runs the benchmark loop of GNOME Disks in each setting, with and without `fsync`, and returns
/// the rows of the table.
pub(super) fn rows(platform: &Platform, amount: Amount) -> Result<Vec<Row>, RunError> {
    let samples = if amount.full { 100 } else { 25 };
    // Both loops run: the limit is taken from the one without status polls, which is faster.
    let loops = [worker(samples, true)?, worker(samples, false)?];
    let count = SETTINGS[0].len();
    let results = parallel::each(2 * count, amount.threads, |n| {
        let (workers, setting) = (&loops[n / count][..], SETTINGS[n / count][n % count]);
        let one = Run { workers, platform, card: None, setting, seed: amount.seed };
        run(&one, None, &mut |_, _| ()).map(|outcome| shown(&outcome, samples))
    });
    let results = results.into_iter().collect::<Result<Vec<Shown>, RunError>>()?;
    let (synced, told) = results.split_at(count);
    let mut rows = Vec::new();
    let mut cell =
        |name: &str, unit: &str, published: Option<(f64, f64)>, asks: bool, value: fn(&Shown) -> f64| {
            // The limit is that of writes without status polls; a time has no limit.
            let limit = told.first().filter(|_| unit == "MB/s").map(value);
            let (settings, of) = if asks { (SETTINGS[0], synced) } else { (SETTINGS[1], told) };
            for (setting, shown) in settings.iter().zip(of).skip(1) {
                let published = published.and_then(|(before, after)| match setting {
                    Setting::Close => Some(before),
                    Setting::Patch => Some(after),
                    _ => None,
                });
                let (cell, setting, unit) = (name.to_owned(), setting.name().to_owned(), unit.to_owned());
                let fitted = published.is_some() && setting == Setting::Close.name();
                rows.push(Row { cell, setting, unit, published, fitted, model: value(shown), limit });
            }
        };
    cell("Disks: read", "MB/s", Some(READ), true, |shown| shown.read_mb_per_s);
    cell("Disks: write, fsync", "MB/s", Some(WRITE), true, |shown| shown.write_mb_per_s);
    cell("Disks: write", "MB/s", None, false, |shown| shown.write_mb_per_s);
    cell("Disks: access", "us", None, true, |shown| shown.access_us);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_two_pages_a_read_and_a_write_of_the_same_place_and_a_sync() {
        let script = script(2, true);
        let list: Vec<_> = script.entries.iter().map(|entry| (entry.op, entry.offset, entry.bytes)).collect();
        let half = CARD_BYTES / 2;
        for (n, offset) in [(0, 0), (5, half)] {
            let sample = [
                (Op::Read, offset, PAGE_BYTES),
                (Op::Read, offset, SAMPLE_BYTES),
                (Op::Read, offset, PAGE_BYTES),
                (Op::Write, offset, SAMPLE_BYTES),
                (Op::Flush, 0, 0),
            ];
            assert_eq!(list[n..n + 5], sample);
        }
        assert_eq!(list.len(), 30);
        assert!(list[10..].iter().all(|&(op, offset, bytes)| {
            op == Op::Read && bytes == PAGE_BYTES && offset % PAGE_BYTES == 0 && offset < CARD_BYTES
        }));
    }
}
