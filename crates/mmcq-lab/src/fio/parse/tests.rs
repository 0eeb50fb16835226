use super::*;
use crate::fio::job::{Size, expand};

/// Files and environment variables of a test, each with its name and its content.
struct Fixed(Vec<(&'static str, &'static str)>);

impl Sources for Fixed {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "DISK").then(|| "/dev/mmcblk0".to_string())
    }

    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

fn text(text: &str) -> Result<JobFile, String> {
    parse_text("x.fio", text.as_bytes(), &Fixed(Vec::new())).map_err(|e| e.to_string())
}

fn line(args: &str) -> Result<JobFile, String> {
    let args: Vec<String> = args.split(' ').map(str::to_string).collect();
    let files =
        vec![("a.fio", "[a]\nbs=8k\n[b]\n"), ("d/m.fio", "include n.fio\n"), ("d/n.fio", "[n]\nbs=2k\n")];
    parse_command_line(&args, &Fixed(files)).map_err(|e| e.to_string())
}

#[test]
fn global_holds_from_where_it_stands() {
    let file = text(
        "; a comment\n[global]\nbs=4k # trailing\n rw = randread\nthread\n[a]\nnumjobs=2\n\n\
         [global]\nbs=8k\n[b]\nstonewall\nsize=1m\nfilename=${DISK}:x\\:y\n",
    )
    .unwrap();
    let [a, b] = file.jobs.as_slice() else { panic!("two jobs") };
    assert_eq!((a.name.as_str(), a.bs[0].min, a.numjobs, a.thread), ("a", 4096, 2, true));
    assert_eq!((b.name.as_str(), b.bs[0].min, b.numjobs, b.size), ("b", 8192, 1, Some(Size::Bytes(1 << 20))));
    assert_eq!(b.filename, ["/dev/mmcblk0", "x:y"]);
    let globals: Vec<&str> = file.global_options.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(globals, ["bs", "rw", "bs"]);
    assert_eq!(a.given, [("numjobs".to_string(), "2".to_string())]);
    let workers = expand(&file.jobs).unwrap();
    let seen: Vec<_> = workers
        .iter()
        .map(|w| (w.thread_number, w.subjob, w.group, w.waits_for_earlier, w.files[0].as_str()))
        .collect();
    assert_eq!(seen, [(1, 0, 0, false, "a.0.0"), (2, 1, 0, false, "a.1.0"), (3, 0, 1, true, "/dev/mmcblk0")]);
}

#[test]
fn errors_name_the_line() {
    for (input, message) in [
        ("[a]\nitdepth=3\n", "x.fio:2: unknown option 'itdepth'; did you mean 'iodepth'?"),
        ("[a]\n\nbs=4q\n", "x.fio:3: bs=4q: expected a size such as 4k"),
        ("bs=4k\n[a]\n", "x.fio:1: 'bs' stands before any section: expected a line such as [global]"),
        ("[a\n", "x.fio:1: '[a': expected a section such as [name]"),
        ("[]\n", "x.fio:1: '[]': expected a section such as [name]"),
        ("[global]\nbs=4k\n", "x.fio: expected at least one job, a line such as [read] or --name=read"),
        ("[a]\nfilename=${NONE}\n", "x.fio:2: '${NONE}': expected the environment variable NONE to be set"),
        ("[a]\nfilename=${NONE\n", "x.fio:2: '${NONE': expected '}' after '${'"),
        ("[a]\ninclude y.fio\n", "x.fio:2: cannot read job file 'y.fio': entity not found"),
        ("[a]\ntime_based\n", "job 'a': time_based: expected runtime= beside it"),
        ("[a]\nverify=pattern\n", "job 'a': verify=pattern: expected verify_pattern= beside it"),
        ("[a]\nsteadystate=iops:0.3%\n", "x.fio:2: option 'steadystate' of fio is not supported here"),
    ] {
        assert_eq!(text(input).map(|_| ()), Err(message.to_string()), "{input}");
    }
}

#[test]
fn command_lines_as_in_the_threads() {
    let hsq = line(
        "--filename=/dev/mmcblk0p30 --direct=1 --iodepth=20 --rw=randread --bs=4K --size=1G \
         --group_reporting --numjobs=20 --name=test_read",
    )
    .unwrap();
    let job = &hsq.jobs[0];
    assert_eq!((job.name.as_str(), job.numjobs, job.iodepth, job.depth()), ("test_read", 20, 20, 1));
    assert!(job.group_reporting && job.direct && job.rw.random);

    let stream = line(
        "-filename=/dev/mmcblk0 -direct=1 -numjobs=1 -thread -group_reporting -ioengine=psync -iodepth=1 \
         -size=1G -name=mytest -bs=1M -rw=randwrite",
    )
    .unwrap();
    assert_eq!((stream.jobs[0].bs[1].min, stream.jobs[0].rw.word()), (1 << 20, "randwrite"));

    let two =
        line("--bs=8k --name=a --rw read --thread --name=b --bs=2k --output-format=json+,terse").unwrap();
    assert_eq!(two.jobs.iter().map(|j| j.bs[0].min).collect::<Vec<_>>(), [8192, 2048]);
    assert!(two.jobs[0].thread && !two.jobs[1].thread);
    assert_eq!(two.formats, [OutputFormat::JsonPlus, OutputFormat::Terse]);
    assert_eq!(two.global_options, [("bs".to_string(), "8k".to_string())]);

    assert_eq!(line("a.fio --section=b").unwrap().jobs[0].name, "b");
    assert_eq!(line("d/m.fio").unwrap().jobs[0].bs[0].min, 2048);
    assert_eq!(line("--name=a --max-jobs=3 --numjobs=4").unwrap_err().split(": ").nth(1), Some("4 workers"));
    assert!(line("--rw=read").is_err());
    assert_eq!(
        line("/usr/bin/fio --name=a --bs=4q").unwrap_err(),
        "argument 3: bs=4q: expected a size such as 4k"
    );
    assert_eq!(line("--name=a --bs 4q").unwrap_err(), "argument 2: bs=4q: expected a size such as 4k");
}

#[test]
fn a_second_job_file_has_its_own_defaults_and_waits_for_the_first() {
    let files = || {
        Fixed(vec![
            ("a.fio", "[global]\nbs=8k\nrw=randread\n[a]\nsize=64k\n"),
            ("b.fio", "[b]\nsize=32k\n[global]\niodepth=4\n[c]\nbs=2k\n"),
        ])
    };
    let args = ["--numjobs=2", "a.fio", "b.fio"].map(str::to_owned);
    let file = parse_command_line(&args, &files()).unwrap();
    let of = |file: &JobFile| -> Vec<_> {
        let jobs = file.jobs.iter();
        jobs.map(|j| (j.name.clone(), j.bs[0].min, j.rw.word(), j.numjobs, j.iodepth, j.stonewall)).collect()
    };
    let expected = [
        ("a".to_owned(), 8192, "randread", 2, 1, false),
        ("b".to_owned(), 4096, "read", 1, 1, true),
        ("c".to_owned(), 2048, "read", 1, 4, false),
    ];
    assert_eq!(of(&file), expected);
    let given: Vec<&str> = file.jobs[0].given.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((given, &file.global_options), (vec!["numjobs", "bs", "rw", "size"], &vec![]));
    // The lines that a report keeps are the same jobs.
    for (args, count) in [(&args[..], 3), (&args[..2], 1)] {
        let file = parse_command_line(args, &files()).unwrap();
        let again = parse_lines("x", file.lines.iter().map(String::as_str), &files()).unwrap();
        assert_eq!((of(&again), again.jobs.len()), (of(&file), count), "{:?}", file.lines);
    }
}

/// Tests command lines as people paste them, with the name of the program.
#[test]
fn lines_as_pasted() {
    let job = "-name=test_read --rw=read";
    for front in ["fio", "./fio", "/data/fio", "sudo fio", "sudo -E ./fio", "/usr/bin/sudo fio"] {
        assert_eq!(line(&format!("{front} {job}")).unwrap().jobs[0].name, "test_read", "{front}");
    }
    assert_eq!(line("sudo ./fio a.fio --section=b").unwrap().jobs[0].name, "b");
    for (text, part) in [
        ("fio", "cannot read job file 'fio'"),
        ("sudo a --name=x", "cannot read job file 'sudo'"),
        ("time fio --name=x", "cannot read job file 'time'"),
    ] {
        assert!(line(text).unwrap_err().contains(part), "{text}");
    }
}

#[test]
fn workers_and_files_are_bounded() {
    for (options, message) in [
        ("numjobs=4000\n[b]\nnumjobs=4000", "x.fio: 8000 workers: expected at most max-jobs=4096"),
        ("nrfiles=5000\nnumjobs=30", "x.fio:1: nrfiles=5000: expected at most 100000 files in all"),
    ] {
        let found = parse_text("x.fio", format!("[a]\n{options}\n").as_bytes(), &Fixed(Vec::new()))
            .and_then(|file| expand(&file.jobs));
        assert_eq!(found.map(|_| ()).map_err(|e| e.to_string()), Err(message.to_string()));
    }
}

#[test]
fn includes_are_bounded() {
    let files = vec![("loop.fio", "include loop.fio\n")];
    let error = parse_file(Path::new("loop.fio"), &Fixed(files)).unwrap_err();
    assert!(error.to_string().contains("at most 16 levels"), "{error}");
}

#[test]
fn notes_say_what_has_no_effect() {
    let file = text("[global]\nmem=mmap\n[a]\n[b]\nnice=3\n").unwrap();
    let notes: Vec<String> = file.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 2);
    assert_eq!(notes[0], "x.fio:2: mem has no effect: buffers belong to the model");
}
