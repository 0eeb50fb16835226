//! Tests how `mmcq fit` runs measured jobs again: how long, and which jobs of a group.

use crate::fit::Folder;
use serde_json::Value;

/// Runs this line, which must succeed, and returns what it prints.
fn printed(folder: &Folder, line: &str) -> String {
    let output = folder.mmcq(line.split_whitespace());
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Fits the rate after an SLC cache of 16 MiB to a run that writes three times as much.
#[test]
fn a_run_longer_than_the_caches_of_its_card_is_fitted_whole() {
    let folder = Folder::new();
    let card = "--card emmc-slc --set card.slc_mib=16";
    let job = "--name=w --filename=/dev/mmcblk0 --rw=write --bs=1m --size=48m --direct=1 --ioengine=libaio";
    let line = format!("run {card} --setting none -- --output-format=json {job}");
    folder.file("w.json", &printed(&folder, &line));
    let fit = |more: &str| {
        printed(&folder, &format!("fit {card} --measured w.json --free card.drain_mib_s {more}"))
    };
    let whole = json(&fit("--json --ios 1000"));
    assert!(whole["fitted"][0]["error"].as_f64().unwrap().abs() < 0.01, "{whole}");
    assert_eq!(whole["fitted"][0]["cut_to_bytes"], Value::Null);
    // The cache of 1 MiB and the SLC cache, twice.
    let cut = json(&fit("--json"));
    assert_eq!(cut["fitted"][0]["cut_to_bytes"], 34 << 20);
    let text = fit("");
    assert!(text.contains("cut to 34 MiB"), "{text}");
}

/// Reads reports in which one entry sums up two jobs of different blocks, or of different
/// directions.
#[test]
fn a_sum_of_several_jobs_is_not_taken_for_the_first_of_them() {
    let folder = Folder::new();
    let board = "--platform hsq-sprd";
    for (other, said) in [
        ("--name=b --rw=randread --bs=64k", "bytes per request in direction read"),
        ("--name=b --rw=randwrite --bs=4k", "requests in direction write"),
    ] {
        let jobs = format!(
            "--filename=/dev/mmcblk0 --size=64m --io_size=2m --group_reporting --name=a --rw=randread --bs=4k {other}"
        );
        let report = printed(&folder, &format!("run {board} --setting none -- --output-format=json {jobs}"));
        folder.file("own.json", &report);
        // As fio writes it, the report has no job file.
        let mut of_fio = json(&report);
        of_fio.as_object_mut().unwrap().remove("mmcq");
        folder.file("fio.json", &serde_json::to_string_pretty(&of_fio).unwrap());
        let fit = |file: &str| format!("fit {board} --measured {file} --free card.read_first_us --json");
        folder.refused(&fit("fio.json"), said);
        folder.refused(&fit("fio.json"), "leave group_reporting out");
        let fitted = json(&printed(&folder, &fit("own.json")));
        let figures = fitted["fitted"].as_array().unwrap();
        assert!(figures.iter().all(|figure| figure["error"].as_f64().unwrap().abs() < 0.01), "{fitted}");
        assert!(figures[0]["job"].as_str().unwrap().starts_with("2 jobs together"), "{fitted}");
    }
}

/// Fits a value that is near the least that its file allows.
#[test]
fn an_interval_stays_within_the_range_of_its_value() {
    let folder = Folder::new();
    let board = "--card emmc-th1520 --setting mmcq --set card.read_first_us=61";
    let job = "--name=r --filename=/dev/mmcblk0 --rw=randread --bs=4k --size=64m --io_size=1m";
    folder.file("w.json", &printed(&folder, &format!("run {board} -- --output-format=json {job}")));
    let line =
        format!("fit {board} --measured w.json --free card.read_first_us --noise 1% -o out.toml --json");
    let fitted = json(&printed(&folder, &line));
    let card: toml::Table =
        std::fs::read_to_string(folder.0.path().join("out.toml")).unwrap().parse().unwrap();
    let saved: [f64; 2] = card["flash"]["read"]["interval"]["read_first_us"].clone().try_into().unwrap();
    let said: [f64; 2] = serde_json::from_value(fitted["values"][0]["interval_95"].clone()).unwrap();
    for [least, most] in [saved, said] {
        assert!(least == 60.0 && most > 61.0 && most < 90.0, "{least} to {most}");
    }
}
