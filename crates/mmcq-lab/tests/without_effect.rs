//! Options that would have no effect, or contradict another, are refused.

use super::job_folder::{JobFolder, mmcq, refused, well};

const JOB: &str = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nrw=randread\nbs=4k\nsize=64k\n";

#[test]
fn an_axis_and_an_option_do_not_give_the_same() {
    let folder = JobFolder::new(JOB);
    for (over, option) in [
        ("platform=generic,hsq-sprd", "--platform hsq-sprd"),
        ("card=emmc-hs200", "--card emmc-cache"),
        ("setting=none,mmcq", "--setting none"),
        ("seed=1,2", "--seed 7"),
    ] {
        let name = option.split(' ').next().unwrap();
        refused(
            folder.folder(),
            &format!("sweep job.fio --over {over} {option}"),
            &[name, "expected one of them"],
        );
    }
}

#[test]
fn an_sdio_function_takes_no_options_of_jobs() {
    let folder = JobFolder::new(JOB);
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/sdio-function.toml");
    std::fs::copy(shipped, folder.path("f.toml")).unwrap();
    let at = folder.folder();
    for command in ["run", "why", "trace"] {
        let output = mmcq(at, &format!("{command} f.toml -- --rw=read"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{command}: {said}");
    }
    refused(at, "why f.toml --rates IOPS", &["--rates", "expected none"]);
}

#[test]
fn a_window_has_no_time_before_it_without_a_trigger() {
    let folder = JobFolder::new(JOB);
    let at = folder.folder();
    refused(at, "trace job.fio --before 10us", &["--trigger"]);
    refused(at, "trace job.fio --before 10us --from 5us", &["--trigger"]);
    refused(at, "trace job.fio --trigger bringup --before 10us", &["--before 10us", "expected --trigger"]);
    let default = well(at, "trace job.fio --trigger irq --for 50us");
    assert_eq!(default, well(at, "trace job.fio --trigger irq --for 50us --before 5us"));
    assert_ne!(default, well(at, "trace job.fio --trigger irq --for 50us --before 20us"));
    refused(at, "snoop job.fio --slowest 0", &["--slowest", "from 1 on"]);
}

#[test]
fn options_of_a_trace_that_contradict_or_do_nothing_are_refused() {
    let folder = JobFolder::new(JOB);
    let at = folder.folder();
    std::fs::write(folder.path("t.csv"), "1,R,0,8\n").unwrap();
    std::fs::write(folder.path("v2"), "fio version 2 iolog\nf read 0 512\n").unwrap();
    let msr = "128166372003061629,usr,0,Read,7014609920,24576,41286\n";
    std::fs::write(folder.path("msr"), msr).unwrap();
    well(at, "run job.fio --export blktrace b");
    let all = "time=1,op=2,offset=3,bytes=4";
    for (columns, parts) in [
        ("time=1,op=2,offset=3,sector=3,bytes=4", ["offset and sector", "expected one of them"]),
        ("time=1,op=2,offset=3,bytes=4,sectors=4", ["bytes and sectors", "expected one of them"]),
        ("time=1,op=2,offset=3,bytes=4,time=2", ["time is given twice", "--columns"]),
        ("time=1,op=2,offset=3,bytes=4,unit=us,unit=ms", ["unit is given twice", "--columns"]),
        ("op=2,offset=3,bytes=4", ["no time", "time=COLUMN"]),
        ("op=2,offset=3,bytes=4 --mode think", ["no time", "time=COLUMN"]),
        (
            "time=1,op=2,offset=3,bytes=4,unit=us --time-unit ms",
            ["unit= and --time-unit", "expected one of them"],
        ),
        ("time=1,op=2,offset=3,bytes=4 --event D", ["--event D", "one time for each request"]),
        ("time=1,op=2,offset=3,bytes=4 --mode closed --scale 2", ["--scale", "closed loop"]),
        ("time=1,op=2,offset=3,bytes=4 --mode closed --gap-max 1ms", ["--gap-max", "closed loop"]),
    ] {
        refused(at, &format!("replay t.csv --columns {columns}"), &parts);
    }
    for (line, parts) in [
        ("replay b --time-unit us", ["--time-unit", "format blktrace has a unit of its own"]),
        ("replay msr --time-unit us", ["--time-unit", "format msr has a unit of its own"]),
        ("replay v2 --event C", ["--event C", "format iolog has one time"]),
        (
            "replay b --format blktrace --columns time=1,op=2,offset=3,bytes=4",
            ["--columns", "format blktrace has none"],
        ),
    ] {
        refused(at, line, &parts);
    }
    well(at, &format!("replay t.csv --columns {all} --time-unit ms"));
    well(at, "replay t.csv --columns op=2,offset=3,bytes=4 --mode closed");
    well(at, "replay v2 --time-unit ms");
    // A comment may stand before the first row, or before the names.
    std::fs::write(folder.path("c.csv"), "# from a tester\n1,R,0,8\n").unwrap();
    well(at, &format!("replay c.csv --columns {all}"));
    std::fs::write(folder.path("c.csv"), "# from a tester\nat,what,where,size\n1,R,0,8\n").unwrap();
    well(at, "replay c.csv --columns time=at,op=what,offset=where,bytes=size");
}

#[test]
fn a_change_that_asks_for_a_log_makes_a_difference() {
    let folder = JobFolder::new(JOB);
    let output = mmcq(folder.folder(), "run job.fio --set job.write_bw_log=lg");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("no difference"), "{said}");
    refused(
        folder.folder(),
        "run job.fio --set extends=hsq-sprd",
        &["--set extends=hsq-sprd", "--platform NAME"],
    );
}
