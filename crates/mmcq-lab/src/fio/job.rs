//! A fio job with all its options, and the workers that run it.

mod blocks;
mod draws;
mod grouped;

use super::error::{Note, ParseError, Place};
use super::script::Script;
pub use blocks::BlockSize;
pub use draws::{Distribution, RandomGenerator, Zone};
use std::sync::Arc;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dir {
    /// Data go from the card to the host.
    Read,
    /// Data go from the host to the card.
    Write,
}

impl Dir {
    /// Both directions, in the order of fio's reports: read, write.
    pub const ALL: [Dir; 2] = [Dir::Read, Dir::Write];

    /// Returns the index of this direction in a pair `[read, write]` of a [`Job`].
    pub fn index(self) -> usize {
        match self {
            Dir::Read => 0,
            Dir::Write => 1,
        }
    }

    /// Returns the opposite direction.
    pub fn other(self) -> Dir {
        match self {
            Dir::Read => Dir::Write,
            Dir::Write => Dir::Read,
        }
    }
}

/// Size of a part of a file: a number of bytes, or a share of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Size as a number of bytes.
    Bytes(u64),
    /// Share of the file, 1 to 100 percent.
    Percent(u8),
}

impl Size {
    /// Returns the size in bytes; `whole_bytes` is the size of the whole file.
    pub fn of(self, whole_bytes: u64) -> u64 {
        match self {
            Size::Bytes(n) => n,
            Size::Percent(p) => {
                u64::try_from(u128::from(whole_bytes) * u128::from(p) / 100).unwrap_or(whole_bytes)
            }
        }
    }
}

/// Option `rw=`: directions and order of the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rw {
    /// Whether the job reads.
    pub read: bool,
    /// Whether the job writes.
    pub write: bool,
    /// Whether the offsets of the transfers are random.
    pub random: bool,
}

impl Rw {
    /// Returns the word of fio's option `rw=` for this value.
    pub fn word(self) -> &'static str {
        match (self.read, self.write, self.random) {
            (true, true, false) => "rw",
            (true, true, true) => "randrw",
            (_, true, false) => "write",
            (_, true, true) => "randwrite",
            (_, _, false) => "read",
            (_, _, true) => "randread",
        }
    }

    /// Returns whether the job both reads and writes.
    pub fn mixed(self) -> bool {
        self.read && self.write
    }
}

/// Option `ioengine=`: how the program submits its I/Os. In the model this affects only the depth
/// and the CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoEngine {
    /// Calls `pread` and `pwrite`; the default.
    Psync,
    /// Calls `lseek`, then `read` or `write`.
    Sync,
    /// Linux's native asynchronous I/O (`io_submit`).
    Libaio,
    /// Linux's `io_uring`: asynchronous I/O by rings in shared memory.
    IoUring,
    /// POSIX asynchronous I/O (`aio_read`, `aio_write`).
    PosixAio,
    /// The worker does no I/O: this measures only what the job itself costs.
    Null,
}

impl IoEngine {
    /// Returns the word of fio's option `ioengine=` for this value.
    pub fn word(self) -> &'static str {
        match self {
            IoEngine::Psync => "psync",
            IoEngine::Sync => "sync",
            IoEngine::Libaio => "libaio",
            IoEngine::IoUring => "io_uring",
            IoEngine::PosixAio => "posixaio",
            IoEngine::Null => "null",
        }
    }

    /// Returns whether each call waits for the end of its transfer. Then the depth is 1, whatever
    /// `iodepth=` is.
    pub fn blocks(self) -> bool {
        matches!(self, IoEngine::Psync | IoEngine::Sync)
    }
}

/// Option `verify=`: how written data are recognised when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Written data are not verified when they are read.
    Off,
    /// A header with place and seed, no checksum over the data.
    Meta,
    /// Each block begins with a header that has a CRC-7 of the block's data.
    Crc7,
    /// Each block begins with a header that has a CRC-16 of the block's data.
    Crc16,
    /// A header with a CRC-32 of the data: IEEE 802.3's polynomial, without bit reflection.
    Crc32,
    /// A header with a CRC-32C (Castagnoli) of the data.
    Crc32c,
    /// The bytes of `verify_pattern=`, without a header.
    Pattern,
}

/// Option `exit_what=`: which workers end together with a job that has `exitall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitWhat {
    /// All workers of the same report group end.
    Group,
    /// All workers that run at that time end.
    Stonewall,
    /// All other workers end. Workers that have not begun do not begin any more.
    All,
}

/// Option `continue_on_error=`: which errors do not end the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continue {
    /// Whether the job continues after a failed read.
    pub read: bool,
    /// Whether the job continues after a failed write.
    pub write: bool,
    /// Whether the job continues after a read whose data differ from what was written.
    pub verify: bool,
}

/// Options `rw=...:N` and `rw_sequencer=`: which offsets a random job uses between two random
/// jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencer {
    /// The job's offsets continue sequentially until its next random jump.
    Sequential,
    /// The job's offset stays the same until its next random jump.
    Identical,
}

/// Content of a write's buffer when `verify=` does not determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Each write contains random bytes of its own. (fio would generate them once for all writes.)
    Random,
    /// Each write contains random bytes of its own, generated for this write.
    Refill,
    /// Each write contains only zeros.
    Zero,
    /// Each write contains this pattern of bytes, repeated.
    Pattern(Vec<u8>),
}

/// Percentiles that fio prints if `percentile_list=` is not given.
pub const DEFAULT_PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// A section of a job file: it becomes `numjobs` equal workers.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "each field is the fio option of its name; the unit stands in the name or type"
)]
pub struct Job {
    pub name: String,
    /// Place in the job file at which the section begins.
    pub place: Place,
    /// Options that the section itself has (without those of `[global]`), in order. Flags without a
    /// value are left out, as in fio's JSON.
    pub given: Vec<(String, String)>,
    pub description: Option<String>,
    /// Names in `filename=`. Empty: each worker has its own file, named after the job.
    pub filename: Vec<String>,
    pub filename_format: Option<String>,
    pub directory: Option<String>,
    /// Number of bytes that the job transfers in one pass (one time through the option `size=`);
    /// `None`: as many as the file has.
    pub size: Option<Size>,
    /// Smallest and largest size of a file in bytes; `None`: `size` decides.
    pub filesize: Option<(u64, u64)>,
    pub io_size: Option<Size>,
    pub number_ios: Option<u64>,
    pub nrfiles: u32,
    /// Option `openfiles=`: number of files that are open together; 0: all. Fewer than all would
    /// change the order of the transfers, and are refused.
    pub open_files: u32,
    pub rw: Rw,
    /// Option `rw=randread:N`: number of transfers from one random jump to the next.
    pub rw_every: u32,
    /// Option `rw=read:BYTES`: number of bytes that is added to the offset after each sequential
    /// transfer.
    pub rw_add_bytes: i64,
    pub rw_sequencer: Sequencer,
    /// Percentage of reads among the transfers of a job that reads and writes.
    pub rwmixread: u8,
    /// Block sizes of the job's transfers, `[read, write]`.
    pub bs: [BlockSize; 2],
    pub bs_unaligned: bool,
    /// Alignment of random offsets in bytes, `[read, write]`; `None`: the smallest block.
    pub blockalign: [Option<u64>; 2],
    pub numjobs: u32,
    pub iodepth: u32,
    /// Number of transfers that the job gathers and then submits in one call. It submits fewer if
    /// it must wait.
    pub iodepth_batch: u32,
    /// Smallest number of completions that a waiting job collects in one call.
    pub iodepth_batch_complete_min: u32,
    /// Largest number of completions that the job collects in one call; 0: as
    /// `iodepth_batch_complete_min`.
    pub iodepth_batch_complete_max: u32,
    /// Number of outstanding transfers down to which a job that has reached `iodepth` waits before
    /// it submits again; 0: it submits again as soon as fewer than `iodepth` are outstanding.
    pub iodepth_low: u32,
    pub ioengine: IoEngine,
    /// Whether separate threads submit the job's transfers (option `io_submit_mode=offload`). Then
    /// the job need not wait for the transfers before it pauses for its rate limit.
    pub offload: bool,
    pub direct: bool,
    pub thread: bool,
    pub loops: u32,
    pub stonewall: bool,
    pub new_group: bool,
    pub startdelay_ns: u64,
    pub runtime_ns: Option<u64>,
    pub time_based: bool,
    pub ramp_time_ns: u64,
    pub thinktime_ns: u64,
    pub thinktime_blocks: u32,
    /// Option `thinktime_blocks_type=issue`: whether `thinktime_blocks` counts transfers that were
    /// issued, instead of those that have ended.
    pub thinktime_by_issue: bool,
    /// Limit of the job's rate in bytes per second, `[read, write]`; `None`: no limit.
    pub rate_bytes: [Option<u64>; 2],
    pub rate_iops: [Option<u32>; 2],
    /// Whether the job's requests arrive at random times, with the rate limit as their mean rate.
    pub poisson: bool,
    /// Option `flow=`: jobs with the same `flow_id=` do transfers in proportion to their values of
    /// `flow=`. 0: the job is not limited so.
    pub flow: u32,
    pub flow_id: u32,
    pub flow_sleep_ns: u64,
    pub wait_for: Option<String>,
    /// Whether the end of any job also ends other workers, namely those of its `exit_what`.
    pub exitall: bool,
    pub exit_what: ExitWhat,
    /// Number of writes after which the job flushes; 0: never.
    pub fsync: u32,
    pub fdatasync: u32,
    pub end_fsync: bool,
    /// Whether the job flushes its files when it closes them. As in fio, this is one flush at the
    /// end of each pass, as with `end_fsync`.
    pub fsync_on_close: bool,
    /// Whether each write must be on the medium when it ends (`O_SYNC`, `O_DSYNC`). Then a flush
    /// follows each write.
    pub sync: bool,
    pub verify: Verify,
    pub verify_pattern: Vec<u8>,
    /// Bytes from one verification header to the next; 0: the block size.
    pub verify_interval: u64,
    /// Number of writes after which the job reads them back to verify; 0: at the end of the pass.
    pub verify_backlog: u32,
    /// Number of writes that the job reads back at a time to verify them; 0: as many as
    /// `verify_backlog`.
    pub verify_backlog_batch: u32,
    pub do_verify: bool,
    pub verify_fatal: bool,
    pub randrepeat: bool,
    pub allrandrepeat: bool,
    pub randseed: Option<u64>,
    pub norandommap: bool,
    pub random_generator: RandomGenerator,
    pub random_distribution: Distribution,
    pub offset: Size,
    pub offset_increment: Size,
    pub buffers: Buffers,
    pub group_reporting: bool,
    pub clat_percentiles: bool,
    pub lat_percentiles: bool,
    pub slat_percentiles: bool,
    pub percentile_list: Vec<f64>,
    pub significant_figures: u8,
    pub bwavgtime_ms: u64,
    pub iopsavgtime_ms: u64,
    /// Prefix of the names of the bandwidth log's files; empty: the job's name. `None`: the job
    /// writes no such log. `write_lat_log` and `write_iops_log` have the same form.
    pub write_bw_log: Option<String>,
    pub write_lat_log: Option<String>,
    pub write_iops_log: Option<String>,
    pub write_iolog: Option<String>,
    pub log_avg_msec: u64,
    pub log_offset: bool,
    pub continue_on_error: Continue,
    pub kb_base: u64,
}

impl Job {
    /// Makes a job of this name in which each option has fio's default.
    pub fn new(name: &str, place: Place) -> Self {
        Job {
            name: name.to_string(),
            place,
            given: Vec::new(),
            description: None,
            filename: Vec::new(),
            filename_format: None,
            directory: None,
            size: None,
            filesize: None,
            io_size: None,
            number_ios: None,
            nrfiles: 1,
            open_files: 0,
            rw: Rw { read: true, write: false, random: false },
            rw_every: 1,
            rw_add_bytes: 0,
            rw_sequencer: Sequencer::Sequential,
            rwmixread: 50,
            bs: [BlockSize::fixed(4096), BlockSize::fixed(4096)],
            bs_unaligned: false,
            blockalign: [None; 2],
            numjobs: 1,
            iodepth: 1,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 0,
            iodepth_low: 0,
            ioengine: IoEngine::Psync,
            offload: false,
            direct: false,
            thread: false,
            loops: 1,
            stonewall: false,
            new_group: false,
            startdelay_ns: 0,
            runtime_ns: None,
            time_based: false,
            ramp_time_ns: 0,
            thinktime_ns: 0,
            thinktime_blocks: 1,
            thinktime_by_issue: false,
            rate_bytes: [None; 2],
            rate_iops: [None; 2],
            poisson: false,
            flow: 0,
            flow_id: 0,
            flow_sleep_ns: 0,
            wait_for: None,
            exitall: false,
            exit_what: ExitWhat::Group,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            sync: false,
            verify: Verify::Off,
            verify_pattern: Vec::new(),
            verify_interval: 0,
            verify_backlog: 0,
            verify_backlog_batch: 0,
            do_verify: true,
            verify_fatal: false,
            randrepeat: true,
            allrandrepeat: false,
            randseed: None,
            norandommap: false,
            random_generator: RandomGenerator::Tausworthe,
            random_distribution: Distribution::Uniform,
            offset: Size::Bytes(0),
            offset_increment: Size::Bytes(0),
            buffers: Buffers::Random,
            group_reporting: false,
            clat_percentiles: true,
            lat_percentiles: false,
            slat_percentiles: false,
            percentile_list: DEFAULT_PERCENTILES.to_vec(),
            significant_figures: 4,
            bwavgtime_ms: 500,
            iopsavgtime_ms: 500,
            write_bw_log: None,
            write_lat_log: None,
            write_iops_log: None,
            write_iolog: None,
            log_avg_msec: 0,
            log_offset: false,
            continue_on_error: Continue::default(),
            kb_base: 1024,
        }
    }

    /// Checks that the options of the job fit together. A returned note says which of them has no
    /// effect beside the others.
    pub fn check(&self) -> Result<Option<Note>, ParseError> {
        let fail = |message: String| Err(ParseError::new(&Place::Job(self.name.clone()), message));
        for dir in Dir::ALL {
            let bs = &self.bs[dir.index()];
            if bs.min > bs.max {
                return fail(format!("block range {}-{}: expected the smaller size first", bs.min, bs.max));
            }
        }
        if self.time_based && self.runtime_ns.is_none_or(|ns| ns == 0) {
            return fail("time_based: expected runtime= beside it".to_string());
        }
        let any_rate = |given: [bool; 2]| given.contains(&true);
        if any_rate(self.rate_bytes.map(|r| r.is_some())) && any_rate(self.rate_iops.map(|r| r.is_some())) {
            return fail("rate= and rate_iops=: expected only one of them".to_string());
        }
        let files = if self.filename.is_empty() { self.nrfiles as usize } else { self.filename.len() };
        if self.open_files > 0 && (self.open_files as usize) < files {
            let most = self.open_files;
            return fail(format!("openfiles={most}: expected at least {files}, the number of files"));
        }
        if self.verify == Verify::Pattern && self.verify_pattern.is_empty() {
            return fail("verify=pattern: expected verify_pattern= beside it".to_string());
        }
        let is_aligned = |dir: &Dir| self.align(*dir) == self.bs[dir.index()].min;
        if self.rw.random && !self.norandommap && !Dir::ALL.iter().all(is_aligned) {
            return fail("blockalign= differs from bs=: expected norandommap beside it".to_string());
        }
        if let Some(header) = super::verify::header_bytes(self.verify)
            && super::verify::interval(self) < header
        {
            return fail(format!("verify needs {header} bytes of each block: expected a larger bs="));
        }
        Ok(self.never_read_back())
    }

    /// Returns the names of the files that copy number `subjob` of this job uses.
    pub fn files(&self, subjob: u32) -> Vec<String> {
        let replace = |text: &str, file: u32| {
            text.replace("$jobname", &self.name)
                .replace("$jobnum", &subjob.to_string())
                .replace("$filenum", &file.to_string())
        };
        let names: Vec<String> = if self.filename.is_empty() {
            let format = self.filename_format.as_deref().unwrap_or("$jobname.$jobnum.$filenum");
            (0..self.nrfiles).map(|i| replace(format, i)).collect()
        } else {
            self.filename.iter().zip(0u32..).map(|(name, i)| replace(name, i)).collect()
        };
        match &self.directory {
            Some(dir) => names.iter().map(|n| format!("{}/{n}", dir.trim_end_matches('/'))).collect(),
            None => names,
        }
    }
}

/// Worker: one of the `numjobs` copies of a job, which runs as a thread of its own.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The job that the worker runs.
    pub job: Arc<Job>,
    /// Number of the worker among all workers of the run, from 1. It determines the seed of the
    /// random offsets.
    pub thread_number: u32,
    /// Number of the worker among the copies of its job, from 0.
    pub subjob: u32,
    /// Number of the worker's report group, from 0.
    pub group: u32,
    /// Whether the worker starts only when all workers before it have ended (a stonewall).
    pub waits_for_earlier: bool,
    /// Names of the worker's files.
    pub files: Vec<String>,
    /// List of the worker's requests; `None`: the job's options determine the requests.
    pub script: Option<Script>,
}

impl Worker {
    /// Returns the size in bytes of the worker's largest transfer.
    pub fn max_bytes(&self) -> u64 {
        self.script.as_ref().map_or(self.job.max_block(), Script::max_bytes)
    }
}

/// Largest number of workers in a run, as in fio.
pub const MAX_WORKERS: u32 = 4096;

/// Largest number of files in a run, of all workers together.
pub const MAX_FILES: usize = 100_000;

/// Makes the workers of these jobs in the jobs' order, with copies (`numjobs`), report groups and
/// stonewalls.
pub fn expand(jobs: &[Job]) -> Result<Vec<Worker>, ParseError> {
    let mut workers: Vec<Worker> = Vec::new();
    let mut group = 0;
    let mut files = 0usize;
    for job in jobs {
        let total = u64::try_from(workers.len()).unwrap_or(u64::MAX).saturating_add(u64::from(job.numjobs));
        if total > u64::from(MAX_WORKERS) {
            return Err(ParseError::new(
                &job.place,
                format!("numjobs={}: expected at most {MAX_WORKERS} workers in all", job.numjobs),
            ));
        }
        let each = if job.filename.is_empty() { job.nrfiles as usize } else { job.filename.len() };
        files = files.saturating_add(each.saturating_mul(job.numjobs as usize));
        if files > MAX_FILES {
            let message = format!("nrfiles={each}: expected at most {MAX_FILES} files in all");
            return Err(ParseError::new(&job.place, message));
        }
        if (job.stonewall || job.new_group) && !workers.is_empty() {
            group += 1;
        }
        if let Some(name) = job.wait_for.as_ref().filter(|name| !workers.iter().any(|w| w.job.name == **name))
        {
            let message = format!("wait_for={name}: no job before this one has that name");
            return Err(ParseError::new(&job.place, message));
        }
        let shared = Arc::new(job.clone());
        for subjob in 0..job.numjobs {
            workers.push(Worker {
                job: Arc::clone(&shared),
                thread_number: u32::try_from(workers.len()).unwrap_or(u32::MAX).saturating_add(1),
                subjob,
                group,
                waits_for_earlier: job.stonewall && subjob == 0,
                files: job.files(subjob),
                script: None,
            });
        }
    }
    Ok(workers)
}
