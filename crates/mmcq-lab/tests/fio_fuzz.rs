//! Tests the reader of job files with arbitrary bytes, which must not make it panic. No job that it
//! accepts may make the state machine panic or loop for ever.

use crate::fuzz;
use arbtest::arbitrary::{Result, Unstructured};
use mmcq_lab::fio::report::{Context, Report, json, normal, terse};
use mmcq_lab::fio::state::{JobState, Next, Times};
use mmcq_lab::fio::stats::{Cpu, WorkerError};
use mmcq_lab::fio::{Dir, JobFile, Sources, expand, options, parse_command_line, parse_text};
use std::path::Path;

/// Source in which every environment variable and every file has the given hostile content.
struct Hostile<'a>(&'a [u8]);

impl Sources for Hostile<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (name.len() % 2 == 1).then(|| "${x}".repeat(name.len()))
    }

    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if path.as_os_str().len() == 3 {
            Err(std::io::ErrorKind::NotFound.into())
        } else {
            Ok(self.0.to_vec())
        }
    }
}

const VALUES: &[&str] = &[
    "4k",
    "0",
    "1",
    "2",
    "64k",
    "1m",
    "100%",
    "50%",
    "1%",
    "18446744073709551615",
    "9223372036854775808",
    "randrw",
    "read",
    "randwrite:3",
    "write:-8k",
    "read:1",
    "libaio",
    "1s",
    "5ms",
    "a:b",
    "crc32c",
    "pattern",
    "0xff",
    "all",
    "4k-64k",
    "1-7",
    "4k,8k",
    "1k/10:3k/90",
    "50:99",
    "-1",
    "",
    "\u{0}",
    "é",
    "512",
    "identical",
    "1000",
    "3",
];

fn line(u: &mut Unstructured) -> Result<String> {
    let name = u.choose(options::USED)?.name;
    Ok(match u.int_in_range(0..=9)? {
        0 => format!("[{}]", u.choose(&["a", "global", "b", "]", ""])?),
        1 => format!("include {}", u.choose(&["x", "yy", "zzz"])?),
        2 => name.to_string(),
        3 => u.arbitrary::<String>()?,
        _ => format!("{name}={}", u.choose(VALUES)?),
    })
}

fn job_file(u: &mut Unstructured) -> Result<String> {
    let mut text = String::from("[a]\n");
    for _ in 0..u.int_in_range(0..=12)? {
        text.push_str(&line(u)?);
        text.push('\n');
    }
    Ok(text)
}

#[test]
fn fuzz_any_bytes() {
    fuzz::fuzz("fuzz_any_bytes", 500, |u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        let _ = parse_text("x", &bytes, &Hostile(&bytes));
        let text = job_file(u)?;
        if let Err(error) = parse_text("x", text.as_bytes(), &Hostile(text.as_bytes())) {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        let args: Vec<String> = u.arbitrary()?;
        let _ = parse_command_line(&args, &Hostile(&bytes));
        Ok(())
    });
}

#[test]
fn fuzz_any_accepted_job_runs() {
    fuzz::fuzz("fuzz_any_accepted_job_runs", 4_000, |u| {
        let text = job_file(u)?;
        if let Ok(file) = parse_text("x", text.as_bytes(), &Hostile(b"bs=512\n")) {
            run(u, &file)?;
        }
        Ok(())
    });
}

/// Runs the first workers of the jobs for some thousand steps, with random results of their
/// transfers.
fn run(u: &mut Unstructured, file: &JobFile) -> Result<()> {
    let Ok(workers) = expand(&file.jobs) else { return Ok(()) };
    let mut results = Vec::new();
    for worker in workers.into_iter().take(2) {
        let sizes: Vec<u64> = worker.files.iter().map(|_| 1 << 20).collect();
        let Ok(mut state) = JobState::new(&worker, &sizes, 3) else { continue };
        let (mut now, mut waits) = (0u64, 0);
        let mut busy = Vec::new();
        for _ in 0..3_000 {
            match state.next(now) {
                next @ (Next::Io(_) | Next::Sync(_)) => {
                    if let Next::Io(io) = next {
                        assert!(io.bytes > 0 && io.offset + io.bytes <= 1 << 20, "{io:?}");
                    }
                    busy.push((now, next));
                    assert!(busy.len() <= worker.job.depth() as usize);
                    waits = 0;
                }
                Next::Wait(until_ns) => {
                    assert!(until_ns > now);
                    (now, waits) = (until_ns, waits + 1);
                    assert!(waits < 10, "waits without end");
                }
                Next::AfterCompletion => assert!(!busy.is_empty()),
                Next::Done => break,
            }
            if !busy.is_empty() && (busy.len() >= worker.job.depth() as usize || u.ratio(1, 2)?) {
                let (start_ns, next) = busy.swap_remove(u.choose_index(busy.len())?);
                now = now.saturating_add(u.int_in_range(0..=5_000_000)?);
                let times = Times { start_ns, issue_ns: start_ns, complete_ns: now };
                complete(u, &mut state, next, times)?;
            }
        }
        let cpu = Cpu { user_ns: now, ..Cpu::default() };
        let stats = state.finish(now, cpu);
        if let Some(logs) = state.logs() {
            logs.files(worker.thread_number, &worker.files);
        }
        results.push((worker, stats));
    }
    let context = Context {
        version: String::new(),
        timestamp_ms: u.arbitrary::<u32>()?.into(),
        elapsed_ns: u.arbitrary()?,
        global_options: file.global_options.clone(),
        origin: None,
    };
    let report = Report::new(context, results, Vec::new());
    normal(&report);
    terse(&report);
    let text = json::json(&report, true);
    serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    Ok(())
}

fn complete(u: &mut Unstructured, state: &mut JobState, next: Next, times: Times) -> Result<()> {
    match next {
        Next::Io(io) => {
            let result = match u.int_in_range(0..=20)? {
                0 => Err(WorkerError { errno: 5, text: "x".to_string() }),
                1 => Ok(u.int_in_range(0..=io.bytes)?),
                _ => Ok(io.bytes),
            };
            let mut data = vec![0; usize::try_from(io.bytes.min(1 << 20)).unwrap()];
            if io.dir == Dir::Write {
                state.fill(&io, times.start_ns, &mut data);
            }
            state.complete(&io, times, result, Some(&data));
        }
        Next::Sync(sync) => state.complete_sync(&sync, times, Ok(())),
        _ => {}
    }
    Ok(())
}
