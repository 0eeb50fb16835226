//! Tests the files and commands of docs/model-your-board.md, and the commands of docs/upgrade.md,
//! exactly as printed there.

use std::path::Path;
use std::process::Command;

/// Returns the fenced code blocks of this language in a page, in order.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|part| part.split_once("```")).map(|(block, _)| block).collect()
}

/// Returns the text of a file in the source tree.
fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Runs the commands in this folder, and returns the lines that they print.
fn printed(commands: &str, folder: &Path) -> Vec<String> {
    let mut reports = Vec::new();
    for line in commands.lines() {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("mmcq"), "{line}");
        let mut mmcq = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let output = mmcq.args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        reports.push(String::from_utf8(output.stdout).unwrap());
    }
    reports
}

#[test]
fn a_board_and_a_card_of_one_s_own() {
    let guide = text("docs/model-your-board.md");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let [board, card] = blocks(&guide, "toml")[..] else { panic!("a board and a card") };
    let [job] = blocks(&guide, "ini")[..] else { panic!("a job") };
    file("my-board.toml", board);
    file("my-card.toml", card);
    file("my-job.fio", job);
    let [commands] = blocks(&guide, "sh")[..] else { panic!("the commands") };
    let reports = printed(commands, folder.path());
    assert!(reports[0].contains("my-job"), "{}", reports[0]);
    assert_ne!(reports[0], reports[1], "another queue on the same board");
    // The stream of a camera, with as many lines as it needs to fill the buffer.
    let (_, replay) = guide.split_once("    mmcq replay cam.csv ").unwrap();
    let (replay, _) = replay.split_once("\n\n").unwrap();
    let (_, csv) = guide.split_once("    time,op,offset,bytes\n").unwrap();
    let (first, _) = csv.split_once("\n\n").unwrap();
    let late = |us: u64| -> f64 {
        let line = |nth: u64| format!("{},W,{},1048576\n", nth * us, nth << 20);
        let lines: String = (0..32).map(line).collect();
        if us == 12_500 {
            let shown: String = first.lines().map(|line| line.trim().to_owned() + "\n").collect();
            assert!(lines.starts_with(&shown), "{shown}");
        }
        file("cam.csv", &format!("time,op,offset,bytes\n{lines}"));
        let report = printed(&format!("mmcq replay cam.csv {}", replay.replace("\\\n", "")), folder.path());
        let (_, line) = report[0].split_once("late against the trace (usec): ").unwrap();
        line.lines().next().unwrap().rsplit_once("max ").unwrap().1.parse().unwrap()
    };
    // A slow stream has room in the buffer, a fast one has none.
    let (slow, fast) = (late(100_000), late(1_000));
    assert!(slow < 100.0 && fast > 100_000.0, "{slow} {fast}");
    late(12_500);
}

#[test]
#[ignore = "a thousand runs: a minute"]
fn the_comparison_is_what_the_program_prints() {
    let guide = text("docs/model-your-board.md");
    let (_, after) = guide.split_once("\n    mmcq compare --platform intel-jsl ").unwrap();
    let (options, after) = after.split_once("\n\n```text\n").unwrap();
    let (shown, _) = after.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let line = format!("mmcq compare --platform intel-jsl {}", options.replace("\\\n", ""));
    // The page leaves out the last rows.
    let (shown, left_out) = shown.split_once("  ... ").unwrap();
    let report = printed(&line, folder.path()).remove(0);
    assert!(report.starts_with(shown), "{report}");
    assert_eq!(format!("{} more\n", report[shown.len()..].lines().count()), left_out);
}

#[test]
fn the_commands_of_the_upgrade() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my-job.fio"), text("jobs/quickstart.fio")).unwrap();
    let page = text("docs/upgrade.md");
    let [commands] = blocks(&page, "sh")[..] else { panic!("the commands") };
    let reports = printed(commands, folder.path());
    assert!(reports[0].contains("hsq-sprd"), "{}", reports[0]);
    assert!(folder.path().join("my-job.pftrace").exists());
}
