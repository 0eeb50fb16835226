//! The order of transfers against fio 3.33: first the recorded orders, then fio itself where it is installed.
//!
//! A record is `file bytes,.. options`, then up to 256 steps `rF:OFFSET+LENGTH` (read of file F, hexadecimal), `w`,
//! `sF` (fsync) or `dF` (fdatasync), then `= number of all steps`, or `= any`.

use mmcq_lab::fio::state::{Io, JobState, Next, Times};
use mmcq_lab::fio::{Dir, System, expand, parse_command_line};

const RECORDS: &str = include_str!("fio_golden/offsets.txt");

/// Runs a job whose every transfer takes a microsecond and reads what was written.
fn steps_of(sizes: &[u64], files: &[String], options: &[&str]) -> Vec<String> {
    let mut args = vec!["--name=a".to_string(), format!("--filename={}", files.join(":"))];
    args.extend(options.iter().map(|o| o.to_string()));
    let jobs = parse_command_line(&args, &System).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    let workers = expand(&jobs.jobs).expect("few workers");
    let mut state = JobState::new(&workers[0], sizes, 1).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    let mut images: Vec<Vec<u8>> = sizes.iter().map(|s| vec![0; *s as usize]).collect();
    let (mut steps, mut now) = (Vec::new(), 0);
    loop {
        let times = Times { start_ns: now, issue_ns: now, complete_ns: now + 1000 };
        match state.next(now) {
            Next::Io(io) => {
                let Io { dir, file, offset, bytes, .. } = io;
                let word = if dir == Dir::Read { 'r' } else { 'w' };
                steps.push(format!("{word}{file}:{offset:x}+{bytes:x}"));
                let place = offset as usize..(offset + bytes) as usize;
                if dir == Dir::Write {
                    state.fill(&io, now, &mut images[file][place.clone()]);
                }
                state.complete(&io, times, Ok(bytes), Some(&images[file][place]));
            }
            Next::Sync(sync) => {
                steps.push(format!("{}{}", if sync.data_only { 'd' } else { 's' }, sync.file));
                state.complete_sync(&sync, times, Ok(()));
            }
            Next::Wait(until_ns) => now = until_ns,
            Next::AfterCompletion => panic!("nothing is outstanding"),
            Next::Done => break,
        }
        now += 1000;
        assert!(steps.len() < 100_000, "{options:?} does not end");
    }
    assert_eq!(state.verify_errors(), [], "{options:?}");
    steps
}

fn names(count: usize, folder: &str) -> Vec<String> {
    (0..count).map(|i| format!("{folder}/f{i}")).collect()
}

fn head(line: &str) -> (Vec<u64>, Vec<&str>) {
    let mut words = line.split(' ');
    let sizes = words.next().expect("sizes").split(',').map(|s| s.parse().expect("a size")).collect();
    (sizes, words.collect())
}

#[test]
fn recorded_orders() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for record in RECORDS.split("\n\n") {
        let (line, rest) = record.split_once('\n').expect("a record");
        let (steps, total) = rest.split_once("= ").expect("a total");
        let wanted: Vec<&str> = steps.split_whitespace().collect();
        // How far a timed run comes is not recorded.
        let total: Option<usize> = (total.trim() != "any").then(|| total.trim().parse().expect("a number"));
        let (sizes, options) = head(line);
        let found = steps_of(&sizes, &names(sizes.len(), "/x"), &options);
        seen += 1;
        if let Some(i) = (0..wanted.len()).find(|i| found.get(*i).map(String::as_str) != Some(wanted[*i])) {
            let from = i.saturating_sub(3);
            let end = |n: usize| (i + 4).min(n);
            wrong.push(format!(
                "{line}\n  step {i}\n  fio  {:?}\n  ours {:?}",
                &wanted[from..end(wanted.len())],
                &found[from.min(found.len())..end(found.len())]
            ));
        } else if total.is_some_and(|total| found.len() != total) {
            wrong.push(format!("{line}\n  {} steps, fio has {total:?}", found.len()));
        }
    }
    assert!(seen > 80, "only {seen} records");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
