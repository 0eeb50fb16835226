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
