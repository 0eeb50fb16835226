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

/// Checks that a job that submits in groups and sleeps for its flow submits each group whole, so
/// that all jobs of the flow end.
#[test]
fn a_flow_that_sleeps_submits_its_groups_whole() {
    for engine in ["libaio", "null"] {
        let all = jobs(&format!(
            "--ioengine={engine} --filename=/dev/mmcblk0 --bs=4k --rw=read --size=64k --flow_id=1 \
             --name=a --flow=1 --flow_sleep=1000 --iodepth=4 --iodepth_batch=4 --name=b --flow=9"
        ));
        assert_eq!([0, 1].map(|job| bytes(&all[job], "read")), [64 << 10; 2], "{engine}");
    }
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
