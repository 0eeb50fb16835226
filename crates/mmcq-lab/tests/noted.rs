//! Tests that each command that runs jobs says what of them has no effect.

use crate::job_folder;

#[test]
fn a_depth_that_no_job_reaches_is_said_by_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let job =
        "[a]\nfilename=/dev/mmcblk0\nrw=randread\nbs=4k\nsize=1m\nio_size=64k\ndirect=1\niodepth=8\nnice=3\n";
    put("job.fio", job);
    put("b.toml", "[[run]]\njob = \"job.fio\"\n[run.most]\nfailed = 0\n");
    let scene = "--platform hsq-sprd";
    for line in [
        "run job.fio --output-format json".to_owned(),
        format!("why job.fio {scene}"),
        format!("report job.fio {scene} -o page.html"),
        format!("trace job.fio {scene} --for 1ms --no-list --svg x.svg"),
        format!("sweep job.fio {scene} --over setting=none,mmcq"),
        "compare --platform hsq-sprd --settings none,mmcq --no-interval --load job.fio".to_owned(),
        "check b.toml".to_owned(),
    ] {
        let output = job_folder::mmcq(folder.path(), &line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{line}: {said}");
        let of = |what: &str| said.lines().filter(|line| line.contains(what)).count();
        assert_eq!(of("has no effect: the I/O engine waits") + of("iodepth >= 1"), 1, "{line}: {said}");
        assert_eq!(of("nice has no effect"), 1, "{line}: {said}");
    }
}
