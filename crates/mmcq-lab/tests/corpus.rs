//! Tests fio's own examples (Debian's package `fio-examples`): which of them run here, and why the
//! others do not.

use std::path::Path;
use std::process::Command;

const FOLDER: &str = "/usr/share/doc/fio/examples";
/// Path of the examples that `tools/install-judges.sh` unpacks, for systems without Debian's
/// package.
const COPY: &str = "target/judges/fio-examples/usr/share/doc/fio/examples";

/// fio's examples that use a block device. `None`: the laboratory must run the job; `Some`: the
/// option for which it must refuse the job.
const JOBS: [(&str, Option<&str>); 36] = [
    ("1mbs_clients", Some("'ratemin'")),
    ("aio-read", None),
    ("backwards-read", None),
    ("basic-verify", None),
    ("butterfly", None),
    ("cmdprio-bssplit", None),
    ("cmdprio-percentage", None),
    ("cross-stripe-verify", Some("the bytes of the file")),
    ("dedupe-global", None),
    ("disk-zone-profile", Some("'zonemode'")),
    ("enospc-pressure", Some("'ignore_error'")),
    ("exitwhat", None),
    ("fio-rand-RW", None),
    ("fio-rand-read", None),
    ("fio-rand-write", None),
    ("fio-seq-RW", None),
    ("fio-seq-read", None),
    ("fio-seq-write", None),
    ("fixed-rate-submission", None),
    ("flow", None),
    ("fsx", None),
    ("iometer-file-access-server", None),
    ("jesd219", None),
    ("latency-profile", Some("'latency_target'")),
    ("null", None),
    ("numa", None),
    ("poisson-rate-submission", None),
    ("rand-zones", None),
    ("ssd-steadystate", None),
    ("ssd-test", None),
    ("steadystate", Some("'ss'")),
    ("surface-scan", None),
    ("tiobench-example", None),
    ("waitfor", None),
    ("zbd-rand-write", Some("'zonemode'")),
    ("zipf", None),
];

fn folder() -> Option<std::path::PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    [FOLDER.into(), tree.join(COPY)].into_iter().find(|path: &std::path::PathBuf| path.is_dir())
}

#[test]
fn fios_own_examples_run_or_say_why_not() {
    let Some(folder) = folder() else {
        assert!(std::env::var_os("CI").is_none(), "fio-examples is missing: tools/install-judges.sh");
        println!("skipped: fio-examples is not there; tools/install-judges.sh fetches it");
        return;
    };
    // Some examples write logs into the current folder.
    let here = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (name, refused) in JOBS {
        // Only a few requests of each job run, without waits of hours.
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(here.path());
        command.arg("run").arg(folder.join(name).with_extension("fio")).args(["--card", "sdxc-128g-uhs"]);
        for option in ["number_ios=20", "loops=1", "runtime=1", "ramp_time=0"] {
            command.args(["--set", &format!("job.{option}")]);
        }
        command.args(["--output-format", "json"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last =
            said.lines().filter(|line| !line.contains("has no effect") && !line.contains("no difference"));
        let last: Vec<&str> = last.collect();
        match refused {
            None if output.status.code() == Some(0) => {
                let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                let moved = |job: &serde_json::Value, dir: &str| job[dir]["total_ios"].as_u64().unwrap_or(0);
                let jobs = report["jobs"].as_array().unwrap();
                let ios: u64 = jobs.iter().map(|job| moved(job, "read") + moved(job, "write")).sum();
                if ios == 0 {
                    wrong.push(format!("{name}: ran without an I/O"));
                }
            }
            Some(reason)
                if output.status.code() == Some(2) && last.len() == 1 && last[0].contains(reason) => {}
            _ => wrong.push(format!("{name}: {:?} {last:?}", output.status.code())),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), JOBS.len(), wrong.join("\n"));
}
