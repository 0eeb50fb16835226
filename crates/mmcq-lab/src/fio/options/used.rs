//! Options that change a job, each with the code that stores its value.

use super::{Opt, distribution};
use crate::fio::job::{
    BlockSize, Buffers, Continue, ExitWhat, IoEngine, Job, RandomGenerator, Rw, Sequencer, Size, Verify,
};
use crate::fio::value::{self, Expected};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// Largest block size in bytes that an option may set. It limits the memory of a worker.
const BLOCK_MAX: u64 = 1 << 30;
const U32_MAX: u64 = 0xffff_ffff;

/// Makes an option that needs a value. `apply`: function that changes the job according to the
/// value.
const fn opt(name: &'static str, apply: fn(&mut Job, &str) -> Result<(), Expected>) -> Opt {
    Opt { name, flag: false, apply }
}

/// Makes an option that may stand without a value.
const fn flag(name: &'static str, apply: fn(&mut Job, &str) -> Result<(), Expected>) -> Opt {
    Opt { name, flag: true, apply }
}

/// Makes an option that stores a number in a field of the job; the number must be within bounds.
macro_rules! number {
    ($name:literal, $field:ident, $min:expr, $max:expr) => {
        opt($name, |j, v| {
            let n = value::number(v, j.kb_base, $min, $max)?;
            j.$field = n.try_into().map_err(|_| format!("a number from {} to {}", $min, $max))?;
            Ok(())
        })
    };
}

macro_rules! boolean {
    ($kind:ident, $name:literal, $field:ident) => {
        $kind($name, |j, v| {
            j.$field = value::boolean(v)?;
            Ok(())
        })
    };
}

macro_rules! time {
    ($name:literal, $field:ident, $unit:expr) => {
        opt($name, |j, v| {
            j.$field = value::time_ns(v, $unit)?;
            Ok(())
        })
    };
}

macro_rules! text {
    ($kind:ident, $name:literal, $field:ident) => {
        $kind($name, |j, v| {
            j.$field = Some(v.to_string());
            Ok(())
        })
    };
}

/// Makes an option for a log file. Its value is the beginning of the file's name; without a value,
/// the name begins with the job's name.
macro_rules! log {
    ($name:literal, $field:ident) => {
        flag($name, |j, v| {
            j.$field = Some(if v == "1" { String::new() } else { v.to_string() });
            Ok(())
        })
    };
}

/// All options that change a job, sorted by topic.
pub static USED: &[Opt] = &[
    // Files, sizes and the number of I/Os.
    text!(opt, "description", description),
    opt("filename", |j, v| {
        j.filename = value::colon_list(v);
        if j.filename.is_empty() { Err("names separated by ':'".to_string()) } else { Ok(()) }
    }),
    text!(opt, "filename_format", filename_format),
    text!(opt, "directory", directory),
    opt("size", |j, v| {
        j.size = Some(value::size_or_percent(v, j.kb_base)?);
        Ok(())
    }),
    opt("io_size", |j, v| {
        // As in fio, 0 is as if the option were not given.
        j.io_size = match v {
            "0%" => None,
            _ => Some(value::size_or_percent(v, j.kb_base)?).filter(|size| *size != Size::Bytes(0)),
        };
        Ok(())
    }),
    opt("filesize", |j, v| {
        let expected = || "a size such as 1g, or a range such as 1m-4m".to_string();
        let (least, most) = v.split_once('-').unwrap_or((v, v));
        let size = |text| value::size(text, j.kb_base).ok().filter(|bytes| *bytes > 0).ok_or_else(expected);
        let (least, most) = (size(least)?, size(most)?);
        j.filesize = Some((least.min(most), most.max(least)));
        Ok(())
    }),
    // The device counts as full when its last block has been written, which is how far a job without
    // `size=` goes. A size that is given wins, as in fio.
    flag("fill_device", |_, v| value::boolean(v).map(|_| ())),
    opt("number_ios", |j, v| {
        j.number_ios = Some(value::number(v, j.kb_base, 1, u64::MAX)?);
        Ok(())
    }),
    number!("nrfiles", nrfiles, 1, 10_000),
    number!("openfiles", open_files, 0, U32_MAX),
    opt("file_service_type", |_, v| value::word(v, &[("roundrobin", ()), ("roundrobin:1", ())])),
    opt("offset", |j, v| {
        j.offset = value::size_or_percent(v, j.kb_base)?;
        Ok(())
    }),
    opt("offset_increment", |j, v| {
        j.offset_increment = value::size_or_percent(v, j.kb_base)?;
        Ok(())
    }),
    opt("kb_base", |j, v| {
        j.kb_base = value::word(v, &[("1024", 1024), ("1000", 1000)])?;
        Ok(())
    }),
    // Order and directions of the transfers.
    opt("rw", rw),
    opt("rw_sequencer", |j, v| {
        let words = [("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)];
        j.rw_sequencer = value::word(v, &words)?;
        Ok(())
    }),
    number!("rwmixread", rwmixread, 0, 100),
    opt("rwmixwrite", |j, v| {
        let writes = value::number(v, j.kb_base, 0, 100)?;
        j.rwmixread = u8::try_from(100 - writes).map_err(|_| "a number from 0 to 100".to_string())?;
        Ok(())
    }),
    opt("bs", |j, v| {
        each_direction(v, |i, part| {
            j.bs[i] = BlockSize::fixed(block(part, j.kb_base)?);
            Ok(())
        })
    }),
    opt("bsrange", |j, v| {
        each_direction(v, |i, part| {
            let expected = || "a range of sizes such as 4k-16k".to_string();
            let (min, max) = part.split_once(['-', ':']).ok_or_else(expected)?;
            let (min, max) = (block(min, j.kb_base)?, block(max, j.kb_base)?);
            j.bs[i] = BlockSize { min: min.min(max), max: max.max(min), split: Vec::new() };
            Ok(())
        })
    }),
    opt("bssplit", |j, v| {
        each_direction(v, |i, part| {
            j.bs[i] = split(part, j.kb_base)?;
            Ok(())
        })
    }),
    boolean!(flag, "bs_unaligned", bs_unaligned),
    opt("blockalign", |j, v| {
        each_direction(v, |i, part| {
            j.blockalign[i] = Some(block(part, j.kb_base)?);
            Ok(())
        })
    }),
    boolean!(opt, "randrepeat", randrepeat),
    boolean!(opt, "allrandrepeat", allrandrepeat),
    opt("randseed", |j, v| {
        j.randseed = Some(value::size(v, j.kb_base).map_err(|_| "a number".to_string())?);
        Ok(())
    }),
    boolean!(flag, "norandommap", norandommap),
    opt("random_generator", |j, v| {
        let words = [
            ("tausworthe", RandomGenerator::Tausworthe),
            ("tausworthe64", RandomGenerator::Tausworthe64),
            ("lfsr", RandomGenerator::Lfsr),
        ];
        j.random_generator = value::word(v, &words)?;
        Ok(())
    }),
    opt("random_distribution", |j, v| {
        j.random_distribution = distribution::read(v, j.kb_base)?;
        Ok(())
    }),
    // Number of workers, depth and I/O engine.
    number!("numjobs", numjobs, 1, 4096),
    number!("iodepth", iodepth, 1, 65536),
    number!("iodepth_batch", iodepth_batch, 1, 65536),
    opt("iodepth_batch_complete_min", |j, v| {
        let expected = |_| "a number from 1 to 65536 (with 0, fio polls; a job here sleeps)".to_string();
        let least = value::number(v, j.kb_base, 1, 65536).map_err(expected)?;
        j.iodepth_batch_complete_min = u32::try_from(least).unwrap_or(65536);
        Ok(())
    }),
    number!("iodepth_batch_complete_max", iodepth_batch_complete_max, 0, 65536),
    number!("iodepth_low", iodepth_low, 0, 65536),
    opt("io_submit_mode", |j, v| {
        j.offload = value::word(v, &[("inline", false), ("offload", true)])?;
        Ok(())
    }),
    opt("ioengine", |j, v| {
        j.ioengine = value::word(
            v,
            &[
                ("psync", IoEngine::Psync),
                ("sync", IoEngine::Sync),
                ("libaio", IoEngine::Libaio),
                ("io_uring", IoEngine::IoUring),
                ("posixaio", IoEngine::PosixAio),
                ("null", IoEngine::Null),
            ],
        )?;
        Ok(())
    }),
    boolean!(opt, "direct", direct),
    opt("buffered", |j, v| {
        j.direct = !value::boolean(v)?;
        Ok(())
    }),
    boolean!(flag, "thread", thread),
    // Duration, starts and rates.
    number!("loops", loops, 1, U32_MAX),
    boolean!(flag, "stonewall", stonewall),
    boolean!(flag, "new_group", new_group),
    time!("startdelay", startdelay_ns, SECOND),
    opt("runtime", |j, v| {
        j.runtime_ns = Some(value::time_ns(v, SECOND)?);
        Ok(())
    }),
    boolean!(flag, "time_based", time_based),
    time!("ramp_time", ramp_time_ns, SECOND),
    time!("thinktime", thinktime_ns, US),
    number!("thinktime_blocks", thinktime_blocks, 1, U32_MAX),
    opt("thinktime_blocks_type", |j, v| {
        j.thinktime_by_issue = value::word(v, &[("complete", false), ("issue", true)])?;
        Ok(())
    }),
    opt("rate", |j, v| {
        each_direction(v, |i, part| {
            j.rate_bytes[i] = Some(value::size(part, j.kb_base)?).filter(|rate| *rate > 0);
            Ok(())
        })
    }),
    opt("rate_iops", |j, v| {
        each_direction(v, |i, part| {
            let n = value::number(part, j.kb_base, 0, U32_MAX)?;
            j.rate_iops[i] = u32::try_from(n).ok().filter(|rate| *rate > 0);
            Ok(())
        })
    }),
    opt("rate_process", |j, v| {
        j.poisson = value::word(v, &[("linear", false), ("poisson", true)])?;
        Ok(())
    }),
    number!("flow", flow, 0, 1000),
    number!("flow_id", flow_id, 0, U32_MAX),
    time!("flow_sleep", flow_sleep_ns, US),
    text!(opt, "wait_for", wait_for),
    boolean!(flag, "exitall", exitall),
    opt("exit_what", |j, v| {
        let words = [("group", ExitWhat::Group), ("stonewall", ExitWhat::Stonewall), ("all", ExitWhat::All)];
        j.exit_what = value::word(v, &words)?;
        Ok(())
    }),
    // Flushes.
    number!("fsync", fsync, 0, U32_MAX),
    number!("fdatasync", fdatasync, 0, U32_MAX),
    boolean!(opt, "end_fsync", end_fsync),
    boolean!(opt, "fsync_on_close", fsync_on_close),
    opt("sync", |j, v| {
        let words = [("none", false), ("0", false), ("sync", true), ("1", true), ("dsync", true)];
        j.sync = value::word(v, &words)?;
        Ok(())
    }),
    // Contents and verification.
    opt("verify", |j, v| {
        j.verify = value::word(
            v,
            &[
                ("0", Verify::Off),
                ("meta", Verify::Meta),
                ("crc7", Verify::Crc7),
                ("crc16", Verify::Crc16),
                ("crc32", Verify::Crc32),
                ("crc32c", Verify::Crc32c),
                ("crc32c-intel", Verify::Crc32c),
                ("pattern", Verify::Pattern),
            ],
        )?;
        Ok(())
    }),
    opt("verify_pattern", |j, v| {
        j.verify_pattern = value::pattern(v)?;
        Ok(())
    }),
    opt("verify_interval", |j, v| {
        j.verify_interval = block(v, j.kb_base)?;
        Ok(())
    }),
    number!("verify_backlog", verify_backlog, 0, U32_MAX),
    number!("verify_backlog_batch", verify_backlog_batch, 0, U32_MAX),
    boolean!(opt, "do_verify", do_verify),
    boolean!(opt, "verify_fatal", verify_fatal),
    flag("zero_buffers", |j, v| {
        j.buffers = if value::boolean(v)? { Buffers::Zero } else { Buffers::Random };
        Ok(())
    }),
    flag("refill_buffers", |j, v| {
        j.buffers = if value::boolean(v)? { Buffers::Refill } else { Buffers::Random };
        Ok(())
    }),
    opt("buffer_pattern", |j, v| {
        j.buffers = Buffers::Pattern(value::pattern(v)?);
        Ok(())
    }),
    // Reports and logs.
    boolean!(flag, "group_reporting", group_reporting),
    boolean!(opt, "clat_percentiles", clat_percentiles),
    boolean!(opt, "lat_percentiles", lat_percentiles),
    boolean!(opt, "slat_percentiles", slat_percentiles),
    opt("percentile_list", |j, v| {
        j.percentile_list = value::percentiles(v)?;
        Ok(())
    }),
    number!("significant_figures", significant_figures, 1, 10),
    opt("bwavgtime", |j, v| {
        j.bwavgtime_ms = window_ms(v)?;
        Ok(())
    }),
    opt("iopsavgtime", |j, v| {
        j.iopsavgtime_ms = window_ms(v)?;
        Ok(())
    }),
    log!("write_bw_log", write_bw_log),
    log!("write_lat_log", write_lat_log),
    log!("write_iops_log", write_iops_log),
    text!(opt, "write_iolog", write_iolog),
    number!("log_avg_msec", log_avg_msec, 0, U32_MAX),
    boolean!(opt, "log_offset", log_offset),
    opt("continue_on_error", |j, v| {
        let set = |read, write, verify| Continue { read, write, verify };
        j.continue_on_error = value::word(
            v,
            &[
                ("none", set(false, false, false)),
                ("read", set(true, false, false)),
                ("write", set(false, true, false)),
                ("io", set(true, true, false)),
                ("verify", set(false, false, true)),
                ("all", set(true, true, true)),
                ("0", set(false, false, false)),
                ("1", set(true, true, true)),
            ],
        )?;
        Ok(())
    }),
];

/// Error text for `rw=random`, which no version of fio accepts.
pub const RANDOM: &str = "randread, randwrite or randrw, of which random may mean any";

/// Parses `rw=word[:N]`. With a random word, N is the number of transfers from one random jump to
/// the next; with a sequential word, the number of bytes added after each transfer.
fn rw(job: &mut Job, text: &str) -> Result<(), Expected> {
    let (word, suffix) = match text.split_once(':') {
        Some((word, suffix)) => (word, Some(suffix)),
        None => (text, None),
    };
    if word.contains("trim") {
        return Err(
            "no trim (it is not supported here), but read, write, randread, randwrite, rw or randrw".into()
        );
    }
    if word == "random" {
        return Err(RANDOM.into());
    }
    let set = |read, write, random| Rw { read, write, random };
    let rw = value::word(
        word,
        &[
            ("read", set(true, false, false)),
            ("write", set(false, true, false)),
            ("randread", set(true, false, true)),
            ("randwrite", set(false, true, true)),
            ("rw", set(true, true, false)),
            ("readwrite", set(true, true, false)),
            ("randrw", set(true, true, true)),
        ],
    )?;
    (job.rw, job.rw_every, job.rw_add_bytes) = (rw, 1, 0);
    match suffix {
        None => {}
        Some(n) if rw.random => {
            let n = value::number(n, job.kb_base, 1, U32_MAX)?;
            job.rw_every = u32::try_from(n).unwrap_or(u32::MAX);
        }
        Some(step) => {
            let (digits, back) = match step.strip_prefix('-') {
                Some(digits) => (digits, true),
                None => (step, false),
            };
            let step = i64::try_from(value::size(digits, job.kb_base)?).map_err(|_| "a step below 8 EiB")?;
            job.rw_add_bytes = if back { -step } else { step };
        }
    }
    Ok(())
}

/// Parses a block size, from 1 byte to 1 GiB. `kb_base`: number of bytes that `k` means, 1000 or
/// 1024.
fn block(text: &str, kb_base: u64) -> Result<u64, Expected> {
    let bytes = value::size(text, kb_base)?;
    if (1..=BLOCK_MAX).contains(&bytes) { Ok(bytes) } else { Err("a size from 1 byte to 1 GiB".to_string()) }
}

/// Parses `a` (for both directions), `a,b` (read, write), `a,` (only read) or `,b` (only write). A
/// third part (trim) is parsed but not used. Calls `set` for each direction (0 read, 1 write) with
/// its part.
fn each_direction(
    text: &str,
    mut set: impl FnMut(usize, &str) -> Result<(), Expected>,
) -> Result<(), Expected> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    match parts.as_slice() {
        [both] => {
            set(0, both)?;
            set(1, both)
        }
        [read, write] | [read, write, _] if !(read.is_empty() && write.is_empty()) => {
            if !read.is_empty() {
                set(0, read)?;
            }
            if write.is_empty() { Ok(()) } else { set(1, write) }
        }
        _ => Err("one value, or two as in 4k,8k for reads and writes".to_string()),
    }
}

/// Parses sizes such as `4k/60:8k/40`. Sizes without a percentage share the percentage that is
/// left; the sum must be 100.
fn split(text: &str, kb_base: u64) -> Result<BlockSize, Expected> {
    let expected = || "sizes with percents such as 4k/60:8k/40, 100 in all, at most 64".to_string();
    let mut parts: Vec<(u64, Option<u8>)> = Vec::new();
    for part in text.split(':') {
        let (size, percent) = match part.split_once('/') {
            Some((size, "")) => (size, None),
            Some((size, percent)) => (size, Some(percent.parse::<u8>().map_err(|_| expected())?)),
            None => (part, None),
        };
        parts.push((block(size, kb_base).map_err(|_| expected())?, percent));
        if parts.len() > 64 {
            return Err(expected());
        }
    }
    let given: u32 = parts.iter().filter_map(|(_, p)| p.map(u32::from)).sum();
    let open = u32::try_from(parts.iter().filter(|(_, p)| p.is_none()).count()).unwrap_or(u32::MAX);
    let left = 100u32.checked_sub(given).ok_or_else(expected)?;
    let share = left.checked_div(open).unwrap_or(0);
    if (open == 0 && left != 0) || (open > 0 && share == 0) {
        return Err(expected());
    }
    let share = u8::try_from(share).map_err(|_| expected())?;
    let min = parts.iter().map(|(size, _)| *size).min().ok_or_else(expected)?;
    let max = parts.iter().map(|(size, _)| *size).max().ok_or_else(expected)?;
    let mut split: Vec<(u64, u8)> = parts.into_iter().map(|(size, p)| (size, p.unwrap_or(share))).collect();
    // The last part gets what integer division leaves, so that the sum is 100.
    let sum: u32 = split.iter().map(|(_, p)| u32::from(*p)).sum();
    if let (Some(last), Ok(rest)) = (split.last_mut(), u8::try_from(100u32.saturating_sub(sum))) {
        last.1 = last.1.saturating_add(rest);
    }
    // fio draws from the smallest percentage to the largest.
    split.sort_by_key(|(_, percent)| *percent);
    Ok(BlockSize { min, max, split })
}

/// Parses the length in milliseconds of a time window over which a log averages; 0 is refused.
fn window_ms(text: &str) -> Result<u64, Expected> {
    let ms = value::time_ns(text, MS)? / MS;
    if ms == 0 { Err("at least 1 ms".to_string()) } else { Ok(ms) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::error::Place;
    use crate::fio::options::apply;

    fn job(options: &[(&str, &str)]) -> Result<Job, String> {
        let place = Place::Argument(1);
        let mut job = Job::new("a", place.clone());
        for (name, value) in options {
            apply(&mut job, name, Some(value), &place).map_err(|e| e.message)?;
        }
        Ok(job)
    }

    #[test]
    fn block_sizes() {
        let bs = |v| job(&[("bs", v)]).map(|j| j.bs.map(|b| (b.min, b.max)));
        assert_eq!(bs("8k"), Ok([(8192, 8192); 2]));
        assert_eq!(bs("8k,16k"), Ok([(8192, 8192), (16384, 16384)]));
        assert_eq!(bs("8k,"), Ok([(8192, 8192), (4096, 4096)]));
        assert_eq!(bs(",8k"), Ok([(4096, 4096), (8192, 8192)]));
        assert_eq!(bs("1k,2k,4k"), Ok([(1024, 1024), (2048, 2048)]));
        for bad in ["0", "2g", ",", "1,2,3,4", "4k-16k"] {
            assert!(bs(bad).is_err(), "{bad}");
        }
        let range = job(&[("bsrange", "4k-16k,1k:2k")]).unwrap().bs;
        assert_eq!(range.map(|b| (b.min, b.max)), [(4096, 16384), (1024, 2048)]);
        let split = job(&[("bssplit", "4k/60:8k/:64k")]).unwrap().bs;
        assert_eq!(split[0].split, [(8192, 20), (65536, 20), (4096, 60)]);
        for bad in ["4k/60:8k/60", "4k/60", "/", "4k/100:8k"] {
            assert!(job(&[("bssplit", bad)]).is_err(), "{bad}");
        }
    }

    #[test]
    fn directions() {
        let rw = |v| job(&[("rw", v)]).map(|j| (j.rw.word(), j.rw_every, j.rw_add_bytes));
        assert_eq!(rw("readwrite"), Ok(("rw", 1, 0)));
        assert_eq!(rw("randrw:8"), Ok(("randrw", 8, 0)));
        assert_eq!(rw("read:4k"), Ok(("read", 1, 4096)));
        assert_eq!(rw("write:-8k"), Ok(("write", 1, -8192)));
        assert!(rw("randtrim").unwrap_err().contains("not supported"));
        for bad in ["random", "", "read:", "randread:0", "randread:x", "read:9223372036854775808"] {
            assert!(rw(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mixes_and_times() {
        assert_eq!(job(&[("rwmixwrite", "30")]).unwrap().rwmixread, 70);
        assert!(job(&[("rwmixread", "101")]).is_err());
        assert_eq!(job(&[("runtime", "2m")]).unwrap().runtime_ns, Some(120 * SECOND));
        assert_eq!(job(&[("thinktime", "5")]).unwrap().thinktime_ns, 5 * US);
        assert_eq!(job(&[("bwavgtime", "1s")]).unwrap().bwavgtime_ms, 1000);
        assert!(job(&[("verify", "sha256")]).unwrap_err().contains("crc32c"));
        assert_eq!(job(&[("size", "20%")]).unwrap().size, Some(Size::Percent(20)));
    }
}
