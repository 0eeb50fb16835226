//! Options of fio whose effect depends on several jobs, run by the program.

use super::job_folder::{JobFolder, mmcq, refused, well};
use serde_json::Value;

/// Runs jobs that must not fail, and returns their reports.
fn jobs(options: &str) -> Vec<Value> {
    let folder = JobFolder::new("");
    let text = well(folder.folder(), &format!("run --output-format json -- {options}"));
    let report: Value = serde_json::from_str(&text).unwrap();
    report["jobs"].as_array().unwrap().clone()
}

fn bytes(job: &Value, direction: &str) -> u64 {
    job[direction]["io_bytes"].as_u64().unwrap()
}

#[test]
fn a_file_is_as_long_as_any_of_its_jobs_makes_it() {
    let two = jobs(
        "--filename=f --bs=4k --size=64k --name=a --rw=write --name=b --stonewall --size=128k --rw=read",
    );
    assert_eq!([bytes(&two[0], "write"), bytes(&two[1], "read")], [64 << 10, 128 << 10]);
    let one = jobs("--name=a --rw=read --bs=4k --filename=f --size=1m --offset=512k");
    assert_eq!(bytes(&one[0], "read"), 1 << 20);
    let three =
        jobs("--name=a --rw=write --bs=4k --filename=f --size=100k --numjobs=3 --offset_increment=100k");
    assert_eq!(three.iter().map(|job| bytes(job, "write")).sum::<u64>(), 300 << 10);
    let folder = JobFolder::new("");
    let table = well(folder.folder(), "iozone -- -a -n 64k -g 128k -i0");
    let rows = table.lines().filter(|line| line.split_whitespace().all(|word| word.parse::<u64>().is_ok()));
    assert_eq!(rows.filter(|line| !line.trim().is_empty()).count(), 5 + 6, "{table}");
    // A file that the card cannot hold is still refused.
    refused(
        folder.folder(),
        "run -- --name=a --rw=read --filename=f --size=1m --offset=90000g",
        &["f", "bytes"],
    );
}

/// Checks that a size ends a job that fills the device, in either order of both options.
#[test]
fn a_size_wins_over_fill_device() {
    for options in ["--fill_device=1 --size=1m", "--size=1m --fill_device=1"] {
        let job = &jobs(&format!("--name=a --rw=write --bs=64k --filename=/dev/mmcblk0 {options}"))[0];
        assert_eq!(bytes(job, "write"), 1 << 20, "{options}");
    }
}

/// Checks that `exitall` in one section holds for the end of every job, as fio's does.
#[test]
fn exitall_of_one_section_is_that_of_all() {
    let options =
        "--filename=/dev/mmcblk0 --bs=4k --rw=read --name=short --size=64k --name=long --exitall --size=64m";
    let all = jobs(options);
    assert_eq!(bytes(&all[0], "read"), 64 << 10);
    assert!(bytes(&all[1], "read") < 1 << 20, "{}", bytes(&all[1], "read"));
    let none = jobs(&options.replace("--exitall --size=64m", "--size=2m"));
    assert_eq!(bytes(&none[1], "read"), 2 << 20);
}

/// Checks that `number_ios` counts after the ramp time.
#[test]
fn a_number_of_ios_begins_after_the_ramp_time() {
    let job = &jobs(
        "--name=a --filename=/dev/mmcblk0 --rw=randread --bs=4k --size=64m --number_ios=50 --ramp_time=2ms",
    )[0];
    assert_eq!(job["read"]["total_ios"], 50);
}

/// Checks that errors other than EIO and EILSEQ end a job that continues on errors, as in fio.
#[test]
fn a_job_that_continues_on_errors_stops_at_an_invalid_request() {
    let folder = JobFolder::new("");
    let options = "--name=a --filename=/dev/mmcblk0 --rw=read --bs=1000 --size=10000 --continue_on_error=all";
    let output = mmcq(folder.folder(), &format!("run --output-format json -- {options}"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let job = &report["jobs"][0];
    assert_eq!(
        (output.status.code(), &job["error"], &job["read"]["total_ios"]),
        (Some(1), &22.into(), &1.into())
    );
}

/// Checks that jobs of a flow keep their shares with the I/O engine `null` too: when the second has
/// ended, the first has done a third as many.
#[test]
fn a_flow_holds_with_the_engine_null() {
    let all =
        jobs("--ioengine=null --bs=4k --size=400k --exitall --flow_id=1 --name=a --flow=1 --name=b --flow=3");
    let [first, second] = [0, 1].map(|job| all[job]["read"]["total_ios"].as_u64().unwrap());
    assert!(second == 100 && first.abs_diff(33) <= 2, "{first} and {second}");
}

/// Checks that a job that sleeps for its flow first submits what it has of a group, and that all
/// jobs of the flow end. The expected shares of depths are those of fio 3.33.
#[test]
fn a_flow_that_sleeps_cuts_groups() {
    for engine in ["libaio", "null"] {
        let all = jobs(&format!(
            "--ioengine={engine} --filename=/dev/mmcblk0 --bs=4k --rw=read --size=64k --flow_id=1 \
             --name=a --flow=1 --flow_sleep=1000 --iodepth=4 --iodepth_batch=4 --name=b --flow=9"
        ));
        assert_eq!([0, 1].map(|job| bytes(&all[job], "read")), [64 << 10; 2], "{engine}");
    }
    for (flows, expected) in
        [([1, 1], [[0.0, 100.0, 0.0], [0.0, 100.0, 0.0]]), ([1, 3], [[33.2, 0.0, 66.4], [0.0, 99.7, 0.0]])]
    {
        let [a, b] = flows;
        let all = jobs(&format!(
            "--ioengine=libaio --filename=/dev/mmcblk0 --bs=4k --rw=randread --size=4m --iodepth=8 \
             --iodepth_batch=8 --flow_sleep=1000 --name=a --flow={a} --name=b --flow={b}"
        ));
        for (job, expected) in all.iter().zip(expected) {
            let found = ["2", "4", "8"].map(|depth| job["iodepth_level"][depth].as_f64().unwrap());
            let is_near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1.0);
            assert!(is_near, "{flows:?}: {found:?}, fio {expected:?}");
        }
    }
}

/// Checks that `fsync_on_close` flushes once at the end, and that fewer open files than files are
/// refused, since fio would then take the files in another order.
#[test]
fn files_are_flushed_when_they_are_closed_and_are_all_open() {
    for (flush, flushes) in [("0", 0), ("1", 1)] {
        let folder = JobFolder::new("");
        let options = "--name=a --rw=write --bs=4k --size=64k --write_iolog=log --fsync_on_close";
        well(folder.folder(), &format!("run -- {options}={flush}"));
        let log = std::fs::read_to_string(folder.folder().join("log")).unwrap();
        assert_eq!(log.lines().filter(|line| line.contains(" sync ")).count(), flushes, "{log}");
    }
    let line = |open| format!("run -- --name=a --rw=read --size=64k --nrfiles=2 --openfiles={open}");
    let folder = JobFolder::new("");
    refused(folder.folder(), &line(1), &["openfiles=1", "expected at least 2"]);
    well(folder.folder(), &line(2));
}

/// Checks that the engine `null` takes only as many transfers at a time as are submitted together,
/// as in fio.
#[test]
fn the_engine_null_has_the_depth_of_its_groups() {
    for (batch, depth) in [(1, "1"), (4, "4"), (8, "8")] {
        let line = format!(
            "--name=a --ioengine=null --rw=read --bs=4k --size=4m --iodepth=8 --iodepth_batch={batch}"
        );
        let job = &jobs(&line)[0];
        for what in ["iodepth_level", "iodepth_submit", "iodepth_complete"] {
            let bucket = if what != "iodepth_level" && batch < 8 { "4" } else { depth };
            assert_eq!(job[what][bucket], 100.0, "{batch} {what}: {}", job[what]);
        }
    }
}

/// Checks that a report names options as fio does, whatever name the job has given.
#[test]
fn options_have_the_names_of_fio_in_reports() {
    let job =
        &jobs("--name=a --filename=f --readwrite=read --blocksize=8k --size=64k --io_limit=16k --timeout=9")
            [0];
    let expected = serde_json::json!({
        "name": "a", "filename": "f", "rw": "read", "bs": "8k", "size": "64k", "io_size": "16k", "runtime": "9"
    });
    assert_eq!(job["job options"], expected);
}

/// Checks that `io_size=0` is as if it were not given, and that a job has one kind of rate, as in
/// fio.
#[test]
fn no_io_size_and_one_kind_of_rate() {
    for none in ["0", "0%"] {
        let job = &jobs(&format!("--name=a --filename=f --rw=read --size=64k --io_size={none}"))[0];
        assert_eq!(bytes(job, "read"), 64 << 10, "{none}");
    }
    let folder = JobFolder::new("");
    for rates in ["--rate=1m --rate_iops=100", "--rw=rw --rate=1m, --rate_iops=,100"] {
        let line = format!("run -- --name=a --filename=f --size=64k {rates}");
        refused(folder.folder(), &line, &["rate= and rate_iops=", "expected only one of them"]);
    }
}
