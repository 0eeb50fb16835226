//! Tests cards with random latencies: they agree with published tails, the seed decides, and
//! nothing else changes.

use serde_json::Value;
use std::process::Command;

fn mmcq(line: &str, job: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job.fio"), job).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    let output = command.current_dir(folder.path()).args(line.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn job(rw: &str, bs: &str, size: &str) -> String {
    format!("[t]\nfilename=/dev/mmcblk0\nrw={rw}\nbs={bs}\nsize={size}\ndirect=1\nioengine=psync\n")
}

fn report(line: &str, job: &str) -> Value {
    let (code, out, err) = mmcq(&format!("run job.fio {line} --output-format json"), job);
    assert_eq!(code, Some(0), "{line}: {err}");
    serde_json::from_str(&out).unwrap()
}

/// Returns a percentile in us of a direction's latencies in a report.
fn percentile(report: &Value, direction: &str, at: &str) -> f64 {
    report["jobs"][0][direction]["clat_ns"]["percentile"][at].as_f64().unwrap() / 1e3
}

/// Checks the model's tails against published latencies, measured with fio at depth 1 and requests
/// of 1 MiB. The sources are in the cards' files.
#[test]
#[ignore = "gigabytes, of a card's model with and without random latencies: half a minute"]
fn published_tails_are_met() {
    let th1520 = "--platform hsq-sprd --card emmc-th1520 --setting none";
    let sd = "--platform stream-rtsx --card pro-plus-128-spread --setting close";
    for (line, direction, size, median_us, tail_us) in [
        (th1520, "read", "4G", 4752.0, 5932.0),
        (sd, "read", "4G", 11731.0, 15664.0),
        (sd, "write", "8G", 23462.0, 86508.0),
    ] {
        let job = job(&format!("rand{direction}"), "1M", size);
        let report = report(line, &job);
        let of = |at: &str, measured: f64| percentile(&report, direction, at) / measured - 1.0;
        let (median, tail) = (of("50.000000", median_us), of("99.900000", tail_us));
        assert!(median.abs() < 0.02, "{line}: 50 % is off by {:.1} %", 100.0 * median);
        assert!(tail.abs() < 0.05, "{line}: 99.9 % is off by {:.1} %", 100.0 * tail);
    }
    // The same card without random latencies has no such tail.
    let plain = "--platform stream-rtsx --card pro-plus-128 --setting close";
    for (direction, tail_us) in [("read", 15664.0), ("write", 86508.0)] {
        let report = report(plain, &job(&format!("rand{direction}"), "1M", "1G"));
        let tail = percentile(&report, direction, "99.900000") / tail_us - 1.0;
        assert!(tail < -0.20, "{direction}: {:.1} %", 100.0 * tail);
    }
}

const TH1520: &str = "--platform hsq-sprd --card emmc-th1520";

#[test]
fn a_seed_decides_which_requests_are_late() {
    let job = job("randrw", "16k", "16M");
    let gc = "--set card.flash.spread.gc_share=0.05 --set card.flash.spread.gc_stall_ms=3";
    let run = |seed: u32| report(&format!("{TH1520} {gc} --set card.seed={seed}"), &job)["jobs"].to_string();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn shares_of_nothing_are_no_spread_at_all() {
    let job = job("randrw", "16k", "8M");
    let plain = "--platform hsq-sprd --card emmc-cache";
    let spread = "--platform hsq-sprd --card emmc-slc --set card.gc_share=0 --set card.drain_mib_s=200.4999";
    let times = |line: &str| {
        let report = report(line, &job);
        ["read", "write"].map(|direction| report["jobs"][0][direction]["clat_ns"].to_string())
    };
    assert_eq!(times(plain), times(&format!("{spread} --set card.slc_mib=8000")));
}

#[test]
fn writes_fall_off_the_cliff_where_it_is() {
    let rate = |size: &str| {
        let report =
            report("--platform hsq-sprd --card emmc-slc --set card.slc_mib=64", &job("write", "512k", size));
        report["jobs"][0]["write"]["bw"].as_f64().unwrap() / 1024.0
    };
    // 200.5 MiB/s before the cliff, and 50 MiB/s after it.
    let (before, across) = (rate("64M"), rate("256M"));
    assert!((180.0..205.0).contains(&before), "{before}");
    let expected = 256.0 / (64.0 / before + 192.0 / 50.0);
    assert!((across / expected - 1.0).abs() < 0.05, "{across}, expected {expected}");
}

#[test]
fn no_run_with_luck_passes_its_limit() {
    let spread = "--platform hsq-sprd --card emmc-slc --set card.gc_share=0.2";
    for size in ["1M", "4M", "100M"] {
        let (code, out, err) = mmcq(&format!("why job.fio {spread} --json"), &job("write", "64k", size));
        assert_eq!(code, Some(0), "{err}");
        let rows = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let row = rows.into_iter().find(|row| row["group"] == "rate" && row["name"] == "this run").unwrap();
        let share = row["percent_of_the_limit"].as_f64().unwrap();
        assert!(share <= 100.0, "{size}: {share}");
    }
}

#[test]
fn params_say_what_the_keys_mean() {
    let (_, all, _) = mmcq("params flash.spread --platform generic --card emmc-hs200", "");
    for key in ["read_retry_share", "read_retry_us", "gc_stall_ms", "slc_mib_s", "seed"] {
        assert!(all.contains(&format!("card.flash.spread.{key} ")), "{key}: {all}");
    }
    assert!(all.contains("share of read commands whose first page needs a further try"), "{all}");
    let (_, lines, _) = mmcq("params gc_share --card emmc-slc --json", "");
    let one: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(one["meaning"], "share of write commands that meet garbage collection");
    assert_eq!((&one["value"], &one["kind"]), (&0.002.into(), &"prior".into()));
}

#[test]
fn a_bad_value_is_one_line_with_its_place() {
    let line = "run job.fio --card emmc-slc --set card.gc_share=2";
    let (code, out, err) = mmcq(line, &job("read", "4k", "1M"));
    assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
    assert!(
        err.contains("emmc-slc with --set:") && err.contains("`gc_share = 2`: expected a share from 0 to 1"),
        "{err}"
    );
    let alone = "run job.fio --card emmc-hs200 --set card.flash.spread.gc_share=0.1";
    let (code, _, err) = mmcq(alone, &job("read", "4k", "1M"));
    assert_eq!(code, Some(2));
    assert!(err.contains("`gc_share = 0.1`: expected `gc_stall_ms` beside it"), "{err}");
}

/// Checks that the help of `--seed` says by which key the rare delays of a card change, and that it
/// is so.
#[test]
fn the_seed_of_a_run_is_not_that_of_the_cards_delays() {
    let job = job("randread", "16k", "8M");
    let gc = "--set card.flash.spread.read_retry_share=0.05 --set card.flash.spread.read_retry_us=900";
    let late = |seed: &str| {
        let (_, out, err) = mmcq(&format!("why job.fio {TH1520} {gc} {seed} --json"), &job);
        let line = out.lines().find(|line| line.contains("\"reads repeated\""));
        line.unwrap_or_else(|| panic!("{err}")).to_owned()
    };
    assert_eq!(late("--seed 1"), late("--seed 2"));
    assert_ne!(late("--seed 1"), late("--set card.seed=2"));
    for command in ["run", "fit", "compare"] {
        let (_, help, _) = mmcq(&format!("{command} --help"), &job);
        assert!(help.contains("card.seed"), "{help}");
    }
}
