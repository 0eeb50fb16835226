//! Loads with which stacks are compared: ordinary and durable ones, at several depths.

use super::standin::Kind;
use crate::fio::{self, JobFile};
use crate::platform::JOB;

/// Change of a job that makes its writes durable: a flush follows each write.
const FSYNC: &str = "fsync=1";

/// A load to run with each setting, at one depth.
#[derive(Clone, Debug)]
pub struct Load {
    /// Name of the load without its depth.
    pub name: String,
    /// Number of requests under way at a time. If [`is_durable`](Self::is_durable) is true: number
    /// of jobs, each of which waits for its own flush. `None`: as in the job file.
    pub depth: Option<u32>,
    /// Whether the load flushes its writes (`fsync=`, `fdatasync=` or `sync=`). The usual durable
    /// load flushes after each write.
    pub is_durable: bool,
    /// Whether the rate leaves out the start and the end of the run. True for the usual loads,
    /// whose requests are alike from start to end; false for a user's own jobs.
    pub is_steady: bool,
    /// Jobs of the load.
    pub file: JobFile,
}

impl Load {
    /// Returns the kind of the load: reads, writes or flushed writes. The measured difference
    /// between unmodified Linux and our model of it depends on this kind (`standin.rs`).
    pub fn kind(&self) -> Kind {
        match self.file.jobs.iter().any(|job| job.rw.write) {
            _ if self.is_durable => Kind::Flushes,
            true => Kind::Writes,
            false => Kind::Reads,
        }
    }

    /// Returns the name of the load with its depth.
    pub fn title(&self) -> String {
        match (self.depth, self.is_durable) {
            (None, _) => self.name.clone(),
            (Some(1), true) => format!("{}, 1 job", self.name),
            (Some(jobs), true) => format!("{}, {jobs} jobs", self.name),
            (Some(depth), false) => format!("{}, depth {depth}", self.name),
        }
    }
}

/// Returns the usual loads: random reads, random writes, and writes that are flushed one by one.
/// Each has 4 KiB per request, `ios` requests, and one of these depths.
///
/// # Errors
/// The error is one line; no input of a user causes it.
pub fn usual(depths: &[u32], ios: u64) -> Result<Vec<Load>, String> {
    let kinds = [
        ("random reads of 4 KiB", "randread", false),
        ("random writes of 4 KiB", "randwrite", false),
        ("random writes of 4 KiB, each with fsync", "randwrite", true),
    ];
    let mut loads = Vec::new();
    for (name, rw, is_durable) in kinds {
        for &depth in depths {
            let how = match is_durable {
                true => format!("iodepth=1\n{FSYNC}\nnumjobs={depth}\ngroup_reporting"),
                false => format!("iodepth={depth}"),
            };
            let jobs = if is_durable { u64::from(depth) } else { 1 };
            let each = ios.div_ceil(jobs).max(LEAST_IOS) * 4;
            let text = format!(
                "[load]\nfilename=/dev/mmcblk0\nrw={rw}\nbs=4k\ndirect=1\nioengine=libaio\nsize=64m\nio_size={each}k\n{how}\n"
            );
            let file = fio::parse_text(name, text.as_bytes(), &fio::System).map_err(|e| e.to_string())?;
            let (name, depth) = (name.to_owned(), Some(depth));
            loads.push(Load { name, depth, is_durable, is_steady: true, file });
        }
    }
    Ok(loads)
}

/// Smallest number of requests of a job in the usual loads ([`usual`]).
const LEAST_IOS: u64 = 24;

/// Options of fio that are part of what a usual load is, so that a user cannot change them.
const NAMED: [&str; 13] = [
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "ioengine",
    "iodepth",
    "numjobs",
    "sync",
    "fsync",
    "fdatasync",
];

/// Applies to a load the changes of job options that are in `set`. `is_usual`: the load is one of
/// the built-in loads, so options that its name contains, such as its block size, cannot be
/// changed.
///
/// # Errors
/// A change has no value, or the jobs cannot have it; the error is one line.
pub(super) fn change(file: &mut JobFile, set: &[String], is_usual: bool) -> Result<(), String> {
    for change in set.iter().filter_map(|change| change.strip_prefix(JOB)) {
        let Some((option, _)) = change.split_once('=') else {
            return Err(format!("--set job.{change}: expected job.OPTION=VALUE"));
        };
        if is_usual && NAMED.contains(&option) {
            return Err(format!(
                "--set job.{change}: the usual loads are named by their {option}; expected --load JOB.fio beside it, \
                 or fio's options after --"
            ));
        }
        file.set(change, &format!("--set job.{change}")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns the loads of a user's job file: as it is and, if it writes but never flushes, with a
/// flush after each write. The changes of job options among `set` come first. If depths are given,
/// each load is changed to each depth.
///
/// # Errors
/// The jobs cannot have such an option, depth or flush; the error is one line.
pub fn own(name: &str, file: &JobFile, set: &[String], depths: &[u32]) -> Result<Vec<Load>, String> {
    let mut file = file.clone();
    change(&mut file, set, false)?;
    let writes = file.jobs.iter().any(|job| job.rw.write);
    let flushes = file.jobs.iter().any(|job| job.fsync > 0 || job.fdatasync > 0 || job.sync);
    let kinds = [(name.to_owned(), flushes), (format!("{name}, each write with fsync"), true)];
    let kinds = &kinds[..if writes && !flushes { 2 } else { 1 }];
    let mut loads = Vec::new();
    for (at, (name, is_durable)) in kinds.iter().enumerate() {
        let each = depths.iter().map(|depth| Some(*depth));
        let each: Vec<_> = if depths.is_empty() { vec![None] } else { each.collect() };
        for depth in each {
            let mut file = file.clone();
            let mut set = |change: &str| file.set(change, change).map_err(|error| error.to_string());
            if at == 1 {
                set(FSYNC)?;
            }
            if let Some(depth) = depth {
                let jobs = if *is_durable { depth } else { 1 };
                set(&format!("iodepth={}", depth / jobs))?;
                set(&format!("numjobs={jobs}"))?;
            }
            let (name, is_durable) = (name.clone(), *is_durable);
            loads.push(Load { name, depth, is_durable, is_steady: false, file });
        }
    }
    Ok(loads)
}
