//! Tests the command lines of the threads HSQ, FIFO and STREAM, as in the mails but mostly with
//! less data.

use crate::watchdog;
use mmcq_lab::fio::report::CAPPED;
use std::path::Path;
use std::process::{Command, Output};

/// Command line of HSQ: the load of its table; the mail has it for four values of `--rw`.
const HSQ: &str = "./fio --filename=/dev/mmcblk0p30 --direct=1 --iodepth=20 --rw=read --bs=4K --size=1G \
                   --group_reporting --numjobs=20 --name=test_read";
/// Command line of FIFO: eight readers on a phone.
const FIFO: &str = "fio -name=Rand_Read_IOPS_Test -group_reporting -rw=random -bs=4K -numjobs=8 \
                    -directory=/data/data -size=1G -io_size=64M -nrfiles=1 -direct=1 -thread";
/// Command line of STREAM; the mail has eight of them.
const STREAM: &str = "sudo fio -filename=/dev/mmcblk0 -direct=1 -numjobs=1 -thread -group_reporting \
                      -ioengine=psync -iodepth=1 -size=1G -name=mytest -bs=1M -rw=randread";

/// Runs a command of the laboratory, followed by this command line.
fn mmcq(command: &str, line: &str) -> Output {
    let _alive = watchdog::watch();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    lab.current_dir(env!("CARGO_TARGET_TMPDIR"));
    lab.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache"));
    lab.args(command.split_whitespace()).arg("--").args(line.split_whitespace()).output().unwrap()
}

/// Returns the standard output of a command that must succeed.
fn well(command: &str, line: &str) -> String {
    let output = mmcq(command, line);
    let (said, told) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{command} -- {line}: {told}");
    String::from_utf8(said).unwrap()
}

/// Returns the line of error of a command that must be refused with the exit code for bad input.
fn refused(command: &str, line: &str) -> String {
    let output = mmcq(command, line);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.trim_end().lines().count()), (Some(2), 1), "{told}");
    told
}

/// Replaces the value of an option in a command line, such as `rw=`. Tests run less than the mails
/// did.
fn with(line: &str, option: &str, value: &str) -> String {
    let change = |word: &str| match word.split_once('=') {
        Some((name, _)) if name.trim_start_matches('-') == option => format!("{name}={value}"),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(change).collect::<Vec<_>>().join(" ")
}

/// Returns the line of a report that begins with this text.
fn line_of<'t>(report: &'t str, start: &str) -> &'t str {
    let found = report.lines().find(|line| line.trim_start().starts_with(start));
    found.unwrap_or_else(|| panic!("{start}: {report}"))
}

#[test]
fn the_hsq_lines_run_as_pasted_with_fios_note_for_each_job() {
    for rw in ["read", "randread", "write", "randwrite"] {
        let line = with(&with(HSQ, "rw", rw), "size", "128K");
        let report = well("-q run --platform hsq-sprd --setting hsq-tag", &line);
        assert_eq!(report.lines().filter(|line| *line == CAPPED).count(), 20, "{report}");
        assert_eq!(line_of(&report, "Starting"), "Starting 20 processes");
        let rwts = line_of(&report, "issued rwts");
        assert!(rwts.contains("=640,0,0,0") || rwts.contains("=0,640,0,0"), "{rwts}");
        assert!(report.contains("test_read: (groupid=0, jobs=20): err= 0"), "{report}");
    }
    // With an output format for programs, the report has no note in it.
    let output = mmcq("run --output-format json", &with(HSQ, "size", "4K"));
    assert!(String::from_utf8_lossy(&output.stderr).contains(CAPPED));
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
}

/// Checks that fio 3.33 prints the same notes about these command lines as the laboratory.
#[test]
fn fios_own_notes_are_these() {
    let line = with(&with(HSQ, "size", "4K"), "filename", "/dev/mmcblk0");
    let (theirs, ours) = (well("fio", &line), well("run", &line));
    for part in ["Starting", "note: "] {
        let lines = |report: &str| -> Vec<String> {
            report.lines().filter(|line| line.starts_with(part)).map(str::to_owned).collect()
        };
        assert_eq!(lines(&theirs), lines(&ours), "{theirs}");
    }
}

#[test]
fn the_fifo_line_says_what_random_may_mean_and_runs_with_randread() {
    for command in ["run", "fio"] {
        let told = refused(command, FIFO);
        assert!(told.contains("rw=random: expected randread, randwrite or randrw"), "{told}");
    }
    let line = with(&with(FIFO, "rw", "randread"), "io_size", "128K");
    let platform = "--platform fifo-allwinner";
    let ours = well(&format!("-q run {platform}"), &line);
    assert_eq!(line_of(&ours, "Starting"), "Starting 8 threads");
    let theirs = well(&format!("fio {platform} --quiet"), &line);
    assert_eq!(line_of(&theirs, "Starting"), "Starting 8 threads");
    for report in [&ours, &theirs] {
        assert!(report.contains("Rand_Read_IOPS_Test: (groupid=0, jobs=8): err= 0"), "{report}");
        assert!(line_of(report, "issued rwts").contains("=256,0,0,0"), "{report}");
    }
    assert!(!Path::new("/data/data/Rand_Read_IOPS_Test.0.0").exists());
    // The files of a folder need more space than the card has.
    let told = refused(&format!("fio {platform}"), &with(&line, "size", "1000G"));
    assert!(told.contains("Rand_Read_IOPS_Test.0.0") && told.contains("do not fit"), "{told}");
}

#[test]
fn the_stream_lines_run_as_pasted() {
    for (bs, rw) in [("1M", "randread"), ("1M", "randwrite"), ("8k", "randread"), ("16k", "randwrite")] {
        let line = with(&with(&with(STREAM, "size", "4M"), "bs", bs), "rw", rw);
        let report = well("-q run --platform stream-rtsx --setting close", &line);
        assert_eq!(line_of(&report, "Starting"), "Starting 1 thread");
        assert!(!report.contains("note: "), "its depth is 1: {report}");
        assert!(report.contains("mytest: (groupid=0, jobs=1): err= 0"), "{report}");
    }
    well("fio --platform stream-rtsx", &with(STREAM, "size", "4M"));
}

/// Benchmark of the maintainer in the STREAM thread.
const IOZONE: &str = "-az -i0 -i1 -s 20m -y 16k -q 4m -I -f /mnt/sdcard/iozone.tmp -e";

#[test]
fn the_iozone_line_gives_its_table() {
    let smaller = IOZONE.replace("-s 20m", "-s 1m").replace("-q 4m", "-q 128k");
    let by_run = well("-q run --platform stream-rtsx", &smaller);
    let by_name = well("-q iozone --platform stream-rtsx", &format!("iozone {smaller}"));
    for table in [&by_run, &by_name] {
        let rows: Vec<Vec<u64>> = table
            .lines()
            .filter_map(|line| line.split_whitespace().map(|word| word.parse().ok()).collect())
            .filter(|row: &Vec<u64>| row.len() == 6)
            .collect();
        let sizes: Vec<[u64; 2]> = rows.iter().map(|row| [row[0], row[1]]).collect();
        assert_eq!(sizes, [16, 32, 64, 128].map(|record| [1024, record]), "{table}");
        assert!(rows.iter().all(|row| row[2..].iter().all(|rate| *rate > 0)), "{table}");
        assert!(table.contains("Command line used: iozone -az"), "{table}");
    }
    // `run` prints fio's report of such a command line on request; other commands accept it, too.
    let report = well("-q iozone --platform stream-rtsx --output-format json", &smaller);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["jobs"].as_array().map(Vec::len), Some(16));
    assert!(well("why --platform stream-rtsx", &smaller).contains("requests in"));
    assert!(refused("iozone", "-i0 -t 4").contains("iozone's -t: not supported here"));
}

/// Returns ios, merge and ticks (read, write) of the line `mmcblk0:` in fio's report, and the
/// number of context switches.
fn disk_stats(setting: &str, options: &str) -> ([[u64; 2]; 3], u64) {
    let report = well(&format!("-q run --platform stream-rtsx --setting {setting}"), options);
    assert!(report.contains("clat percentiles (usec):"), "{report}");
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let field = |line: &str, name: &str| numbers(line.split(name).nth(1).unwrap());
    let (disk, cpu) = (line_of(&report, "mmcblk0:"), line_of(&report, "cpu"));
    let pair = |name: &str| <[u64; 2]>::try_from(&field(disk, name)[..2]).unwrap();
    ([pair("ios="), pair("merge="), pair("ticks=")], field(cpu, "ctx=")[0])
}

/// Checks the disk statistics against the published lines: ios=2026, merge=0, ticks=17612 for 1024
/// requests of 1 MiB before the patch, ios=2016, merge=0 after it. So each request is split in two,
/// and a continued request does not count as merged.
#[test]
fn disk_statistics_are_those_of_the_block_layer() {
    let reads = with(&with(STREAM, "size", "64M"), "rw", "randread");
    for setting in ["close", "patch"] {
        let ([ios, merges, ticks], switches) = disk_stats(setting, &reads);
        assert_eq!((ios, merges), ([128, 0], [0, 0]), "{setting}");
        // The published 17612 ms for 1024 requests are 1101 ms for 64; the second half of a request
        // waits for the first.
        assert!((1040..1180).contains(&ticks[0]), "{setting}: {ticks:?}");
        // The job sleeps once in each request.
        assert!((64..70).contains(&switches), "{setting}: {switches}");
    }
    let run = with(&with(&with(STREAM, "size", "16M"), "rw", "write"), "bs", "64k");
    for setting in ["patch", "mmcq"] {
        let ([ios, merges, _], _) = disk_stats(setting, &run);
        assert_eq!((ios, merges), ([0, 256], [0, 0]), "{setting}: what is continued is not merged");
    }
    let deep =
        "-name=a -filename=/dev/mmcblk0 -direct=1 -ioengine=libaio -iodepth=16 -rw=write -bs=4k -size=4M";
    for setting in ["close", "mmcq"] {
        let ([ios, merges, _], _) = disk_stats(setting, deep);
        assert_eq!(ios[1] + merges[1], 1024, "{setting}");
        assert!(merges[1] > 512, "{setting}: {merges:?}");
    }
}

#[test]
fn partitions_of_the_card_are_refused_by_their_names_and_have_the_threads_sizes() {
    for device in ["/dev/mmcblk0boot0", "/dev/mmcblk0boot1", "/dev/mmcblk0rpmb", "/dev/mmcblk0gp1"] {
        let line = with(&with(HSQ, "filename", device), "size", "4K");
        let of_run = if device.contains("boot") {
            vec![
                // HSQ's command line is a read and works; settings of Linux, writes, and cards
                // without boot areas are refused.
                ("run --platform hsq-sprd --setting hsq-tag", line.clone()),
                ("run --platform hsq-sprd", with(&line, "rw", "randwrite")),
                ("run --platform hsq-sprd --card sdhc-16g-hs", line.clone()),
                ("fio --platform hsq-sprd --setting hsq-tag", line.clone()),
                ("fio --platform hsq-sprd --card sdhc-16g-hs", line),
            ]
        } else {
            vec![("run --platform hsq-sprd", line.clone()), ("fio --platform hsq-sprd", line)]
        };
        for (command, line) in of_run {
            let told = refused(command, &line);
            assert!(told.contains("a partition of its own on the card"), "{told}");
        }
    }
    // Sizes: boot0 and boot1 have 4 MiB each, RPMB has 4.00 MiB.
    let _alive = watchdog::watch();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    lab.current_dir(env!("CARGO_TARGET_TMPDIR"));
    let output = lab.args(["card", "--platform", "hsq-sprd"]).output().unwrap();
    let card = String::from_utf8(output.stdout).unwrap();
    assert!(card.lines().any(|line| line.contains("RPMB") && line.contains("4 MiB")), "{card}");
    assert!(card.lines().any(|line| line.contains("boot areas") && line.contains("2 x 4 MiB")), "{card}");
}
