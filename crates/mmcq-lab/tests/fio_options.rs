//! Options of fio whose effect depends on several jobs, run by the program.

use super::job_folder::{JobFolder, refused, well};
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
