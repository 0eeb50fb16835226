//! Output files: none replaces a file that the same command reads, or that another option writes.

use super::job_folder::{JobFolder, mmcq, refused, well};

const JOB: &str = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nrw=randread\nbs=4k\nsize=256k\n";

#[test]
fn an_output_never_replaces_an_input_or_another_output() {
    let folder = JobFolder::new(JOB);
    let image = std::fs::File::create(folder.path("im.img")).unwrap();
    image.set_len(64 << 20).unwrap();
    let at = folder.folder();
    well(at, "new board b.toml");
    well(at, "run job.fio --export blktrace q.blktrace.0");
    well(at, "run job.fio --output-format json --output p.json");
    let inputs = ["job.fio", "b.toml", "q.blktrace.0", "p.json"];
    let before = inputs.map(|name| std::fs::read(folder.path(name)).unwrap());
    let same = "the same file; expected another";
    for option in ["--output", "--bus-log", "--report", "--export blktrace"] {
        let line = format!("run job.fio {option} job.fio");
        refused(at, &line, &[option, "job.fio", "JOB.fio reads", same]);
    }
    for option in ["--output", "--bus-log", "--export blktrace"] {
        let line = format!("run job.fio --image im.img {option} ./im.img");
        refused(at, &line, &[option, "--image reads", same]);
    }
    for (line, parts) in [
        ("run job.fio --platform b.toml --output b.toml", ["--output b.toml", "--platform reads"]),
        ("run job.fio --output y --bus-log y", ["--bus-log y", "--output writes"]),
        ("run job.fio --set job.write_iolog=y --output y", ["log of job one y", "--output writes"]),
        ("report job.fio -o job.fio", ["--output job.fio", "JOB.fio reads"]),
        ("replay q --output q.blktrace.0", ["--output q.blktrace.0", "TRACE reads"]),
        ("compare p.json p.json --report p.json", ["--report p.json", "A reads"]),
        ("sweep job.fio --over seed=1,2 --out s.csv --report s.csv", ["--report s.csv", "--out writes"]),
        (
            "sweep job.fio --over seed=1,2 --plot s.svg --heat s.svg seed,seed,iops",
            ["--plot s.svg", "--heat writes"],
        ),
        ("reproduce hsq --plot h.svg --report h.svg", ["--report h.svg", "--plot writes"]),
        ("trace job.fio --vcd job.fio", ["--vcd job.fio", "JOB.fio reads"]),
    ] {
        refused(at, line, &[parts[0], parts[1], same]);
    }
    assert!(inputs.map(|name| std::fs::read(folder.path(name)).unwrap()) == before);
    assert_eq!(std::fs::metadata(folder.path("im.img")).unwrap().len(), 64 << 20);
    assert!(!folder.path("y").exists());
    well(at, "run job.fio --output /dev/null --bus-log /dev/null");
}

#[test]
fn a_log_of_fio_that_cannot_be_written_is_named_before_the_run() {
    let folder = JobFolder::new(JOB);
    for option in ["write_bw_log", "write_lat_log", "write_iolog"] {
        let line = format!("run job.fio --set job.{option}=absent/lg");
        refused(folder.folder(), &line, &["log of job one absent/lg", "No such file"]);
    }
    well(folder.folder(), "run job.fio --set job.write_bw_log=lg");
    assert!(folder.path("lg_bw.1.log").exists());
}

#[test]
fn the_report_goes_where_fios_option_output_says() {
    let folder = JobFolder::new(JOB);
    let line = "-- --name=a --filename=/dev/mmcblk0 --rw=read --size=64k --output=out.txt";
    assert_eq!(well(folder.folder(), &format!("run {line}")), "");
    assert!(std::fs::read_to_string(folder.path("out.txt")).unwrap().contains("a: (groupid=0"));
    // The option of the program wins.
    well(folder.folder(), &format!("run --output other.txt {}", line.replace("out.txt", "never.txt")));
    assert!(folder.path("other.txt").exists() && !folder.path("never.txt").exists());
    for command in ["why", "report -o x.html", "trace", "snoop", "sweep --over seed=1", "new budgets b.toml"]
    {
        refused(folder.folder(), &format!("{command} {line}"), &["--output=out.txt", "expected none"]);
    }
}

#[cfg(unix)]
#[test]
fn an_output_goes_through_a_link_and_into_a_named_pipe() {
    let folder = JobFolder::new(JOB);
    let at = folder.folder();
    std::fs::write(folder.path("kept"), "old").unwrap();
    for (link, target) in [("link", "kept"), ("dangling", "new")] {
        std::os::unix::fs::symlink(target, folder.path(link)).unwrap();
        well(at, &format!("run job.fio --output {link}"));
        assert!(folder.path(link).symlink_metadata().unwrap().is_symlink(), "{link}");
        assert!(std::fs::read_to_string(folder.path(target)).unwrap().contains("one: (groupid=0"));
    }
    // A named pipe is opened once, so its reader gets all of the report.
    let made = std::process::Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap();
    assert!(made.success());
    let mut reader = std::process::Command::new("cat");
    let reader = reader.arg(folder.path("pipe")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let written = mmcq(at, "run job.fio --output pipe");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let read = reader.wait_with_output().unwrap().stdout;
    assert!(String::from_utf8(read).unwrap().contains("one: (groupid=0"));
}
