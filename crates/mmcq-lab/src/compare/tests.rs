//! Tests of the comparison of two reports.

use super::*;

fn report(rate: u64, job: &str) -> Value {
    let side = json!({"total_ios": 10, "bw_bytes": rate << 20,
        "clat_ns": {"min": 1000, "mean": 2000.5, "max": 9000, "percentile": {"99.000000": 8000}}});
    json!({"fio version": "fio-3.33", "jobs": [{"jobname": job, "read": side, "write": {"total_ios": 0}}],
        "mmcq": {"version": env!("CARGO_PKG_VERSION"), "platform": "generic", "seed": 1,
            "counters": {"ios": 10, "bytes": rate << 20, "elapsed_ns": 1_000_000_000},
            "phases_ns": {"wire, data": 40_000, "CPU": 1_000}}})
}

#[test]
fn what_differs_is_told_and_the_rest_counted() {
    let same = compare(&report(5, "a"), &report(5, "a"));
    assert!(same.is_equal() && same.text() == "no difference: 14 figures are equal\n", "{}", same.text());
    let other = compare(&report(5, "a"), &report(6, "a"));
    let names: Vec<&str> = other.different().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["rate", "rate", "bytes"]);
    assert!(other.text().contains("rate (MiB/s)") && other.text().contains("+20.00 %"), "{}", other.text());
    assert!(other.text().ends_with("11 figures are equal\n"));
    let lines = other.json_lines();
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let better = other.text().lines().filter(|line| line.ends_with("better")).count();
    assert_eq!(better, 2, "{}", other.text());
    let alone = compare(&report(5, "a"), &report(5, "b"));
    assert_eq!(alone.alone, ["job a", "job b"]);
    let mut failed = report(5, "a");
    (failed["jobs"][0]["error"], failed["jobs"][0]["write"]["bw_bytes"]) = (5.into(), 1.into());
    let other = compare(&report(5, "a"), &failed);
    let text = "2 further fields differ: jobs/0/error, jobs/0/write/bw_bytes\n14 figures are equal\n";
    assert!(!other.is_equal() && other.text().ends_with(text), "{}", other.text());
    assert!(other.json_lines().contains("jobs/0/error"), "{}", other.json_lines());
}

#[test]
fn what_only_one_report_has_is_told_for_either() {
    let plain = report(5, "a");
    let mut more = plain.clone();
    more["mmcq"]["counters"]["erases"] = 3.into();
    more["mmcq"]["phases_ns"]["busy"] = 7_000.into();
    more["jobs"][0]["read"]["clat_ns"]["percentile"]["99.900000"] = 9000.into();
    for (a, b) in [(&plain, &more), (&more, &plain)] {
        let told = compare(a, b);
        assert!(!told.is_equal());
        assert_eq!(told.alone, ["counter erases"]);
        assert_eq!(told.different().map(|figure| figure.name.as_str()).collect::<Vec<_>>(), ["busy"]);
        let fields: Vec<&str> = told.others.iter().map(|[name, ..]| name.as_str()).collect();
        assert_eq!(fields, ["jobs/0/read/clat_ns/percentile/99.900000"]);
    }
}

#[test]
fn numbers_have_three_digits() {
    let values = [0.0, 78.0, 54_318_053.0, 5.609_323, 115.974_872, 2_143.263_83, 0.000_517, -0.006_546];
    let texts = ["0", "78", "54318053", "5.61", "116", "2143", "0.000517", "-0.00655"];
    assert_eq!(values.map(shown), texts);
}

#[test]
fn what_is_no_report_says_what_it_is() {
    let text = |value: &Value| value.to_string();
    assert!(read(&text(&report(5, "a"))).is_ok());
    let mut old = report(5, "a");
    old["mmcq"]["version"] = "0.0.1".into();
    let mut part = report(5, "a");
    part["mmcq"].as_object_mut().unwrap().remove("phases_ns");
    let cases = [
        (String::new(), "no report: EOF"),
        ("<html></html>".to_owned(), "no report: expected value"),
        ("{}".to_owned(), "no report; expected JSON"),
        (json!({"fio version": "fio-3.33"}).to_string(), "a report of fio itself"),
        (text(&old), "a report of mmcq 0.0.1"),
        (text(&part), "a part of a report"),
    ];
    for (text, said) in cases {
        let error = read(&text).unwrap_err();
        assert!(error.starts_with(said) && !error.contains('\n'), "{error}");
    }
}
