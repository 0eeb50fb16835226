//! The loads that stacks are compared with: an ordinary one and a durable one, at some depths.

use super::standin::Kind;
use crate::fio::{self, JobFile};

/// How a load was made durable.
const FSYNC: &str = "fsync=1";

/// A load at one depth.
#[derive(Clone, Debug)]
pub struct Load {
    /// In words, without its depth.
    pub name: String,
    /// Requests under way; of a durable load the jobs, each of which waits for its own flush.
    /// `None`: as the job file says.
    pub depth: Option<u32>,
    /// Each write is followed by a flush.
    pub is_durable: bool,
    /// All of it is known beforehand, so that beginning and end can be left out of the rate.
    pub is_steady: bool,
    /// The jobs.
    pub file: JobFile,
}

impl Load {
    /// What it does.
    pub fn kind(&self) -> Kind {
        match self.file.jobs.iter().any(|job| job.rw.write) {
            _ if self.is_durable => Kind::Flushes,
            true => Kind::Writes,
            false => Kind::Reads,
        }
    }

    /// In words, with its depth.
    pub fn title(&self) -> String {
        match (self.depth, self.is_durable) {
            (None, _) => self.name.clone(),
            (Some(1), true) => format!("{}, 1 job", self.name),
            (Some(jobs), true) => format!("{}, {jobs} jobs", self.name),
            (Some(depth), false) => format!("{}, depth {depth}", self.name),
        }
    }
}

/// Random reads, random writes, and writes that are flushed one by one, each of 4 KiB and at each
/// of these depths, of so many requests.
///
/// # Errors
/// One line; none that a user brings about.
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

/// A job has so many requests at least.
const LEAST_IOS: u64 = 24;

/// A job file of the user's as it is; and, where it writes and flushes nothing itself, with a flush
/// after each write. With depths, each of these.
///
/// # Errors
/// One line: its jobs take no such depth or no flush.
pub fn own(name: &str, file: &JobFile, depths: &[u32]) -> Result<Vec<Load>, String> {
    let writes = file.jobs.iter().any(|job| job.rw.write);
    let flushes = file.jobs.iter().any(|job| job.fsync > 0 || job.fdatasync > 0);
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
