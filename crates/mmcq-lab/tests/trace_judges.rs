//! Waveforms of `mmcq trace` before judges that know nothing of this program (`judges/mod.rs`).

use crate::job_folder::JobFolder;
use crate::judges;
use judges::{checksums, crccheck, sigrok_agrees, text};
use std::process::Command;

/// Single and multiple blocks, both ways; the reads verify what the writes left.
const JOB: &str = "[global]\nfilename=/dev/mmcblk0\ndirect=1\nverify=pattern\nverify_pattern=0xdeadbeef\n\
                   [one]\nrw=write\nbs=512\nsize=1k\n[many]\nstonewall\nrw=write\nbs=8k\nsize=16k\n";

/// A folder with that job.
struct Folder(JobFolder);

impl Folder {
    fn new() -> Self {
        Folder(JobFolder::new(JOB))
    }

    /// Records a waveform, and gives the commands of the program's own list.
    fn trace(&self, options: &str) -> Vec<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.folder()).args(["trace", "job.fio", "--vcd", "w.vcd"]);
        let output = command.args(options.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{options}: {}", text(&output.stderr));
        let list = text(&output.stdout);
        let commands = list.lines().filter_map(|line| line.split_whitespace().nth(2));
        commands.filter(|word| word.contains("CMD")).map(str::to_owned).collect()
    }
}

fn blocks(judged: &serde_json::Value) -> Vec<(u64, u64, u64, String)> {
    let blocks = judged["blocks"].as_array().unwrap().iter();
    let number = |b: &serde_json::Value, key: &str| b[key].as_u64().unwrap();
    blocks
        .map(|b| {
            let begin = b["begin"].as_str().unwrap().to_owned();
            (number(b, "command"), number(b, "width"), number(b, "bytes"), begin)
        })
        .collect()
}

const SD: &str = "--platform generic --card sdhc-16g-hs";

#[test]
fn an_sd_card_comes_up_before_both_judges() {
    let folder = Folder::new();
    let commands = folder.trace(&format!("{SD} --trigger bringup"));
    for command in ["CMD0", "CMD8", "ACMD41", "CMD2", "CMD3", "CMD9", "CMD7", "ACMD51", "ACMD6", "CMD6"] {
        assert!(commands.iter().any(|c| c == command), "{command} is not in {commands:?}");
    }
    sigrok_agrees(&folder.0.path("w.vcd"), &commands);
    let Some(judged) = crccheck(&folder.0.path("w.vcd"), &[]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    // The card has its eight clocks after each token before the clock changes.
    assert_eq!(judged["clock_stopped_early"], 0);
    assert_eq!(judged["responses"], commands.iter().filter(|c| *c != "CMD0").count());
    let blocks = blocks(&judged);
    // SCR on one line: version 2.00, both bus widths. Then four lines; the switch to high speed at
    // last.
    assert_eq!((blocks[0].0, blocks[0].1, blocks[0].2, &blocks[0].3[..4]), (51, 1, 8, "0235"));
    assert!(blocks.len() >= 3 && blocks[1..].iter().all(|b| b.1 == 4 && b.2 == 64), "{blocks:?}");
    assert_eq!(judged["shortest_cycle"], 20);
}

#[test]
fn single_and_multiple_blocks_both_ways_before_both_judges() {
    let folder = Folder::new();
    let commands = folder.trace(&format!("{SD} --for 20ms"));
    for command in ["CMD17", "CMD18", "CMD24", "CMD25", "CMD12", "CMD13"] {
        assert!(commands.iter().any(|c| c == command), "{command} is not in {commands:?}");
    }
    sigrok_agrees(&folder.0.path("w.vcd"), &commands);
    let Some(judged) = crccheck(&folder.0.path("w.vcd"), &[]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    let blocks = blocks(&judged);
    let written = blocks.iter().filter(|b| matches!(b.0, 24 | 25)).count();
    // 1 KiB and 16 KiB, written and read.
    assert_eq!((blocks.len(), written), (2 * 34, 34));
    assert_eq!((judged["status_good"].as_u64(), judged["status_bad"].as_u64()), (Some(34), Some(0)));
    assert!(judged["busy"].as_u64() > Some(0));
    for block in &blocks {
        assert_eq!((block.1, block.2, block.3.as_str()), (4, 512, "deadbeefdeadbeefdeadbeefdeadbeef"));
    }
}

#[test]
fn eight_lines_at_two_data_rates_have_their_checksums() {
    let folder = Folder::new();
    let commands = folder.trace("--platform hsq-sprd --for 1ms");
    let Some(judged) = crccheck(&folder.0.path("w.vcd"), &["--ddr", "--emmc"]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    let blocks = blocks(&judged);
    assert!(blocks.iter().any(|b| b.0 == 25) && blocks.iter().any(|b| b.0 == 17));
    for block in &blocks {
        assert_eq!((block.1, block.2, block.3.as_str()), (8, 512, "deadbeefdeadbeefdeadbeefdeadbeef"));
    }
    // 200 MHz: half a cycle is no whole nanosecond, and the unit is a picosecond.
    assert_eq!(judged["shortest_cycle"], 5_000);
}

#[test]
fn the_checksum_judge_refuses_a_spoiled_bit() {
    let folder = Folder::new();
    folder.trace(&format!("{SD} --trigger cmd=24 --for 100us"));
    if crccheck(&folder.0.path("w.vcd"), &[]).is_none() {
        return;
    }
    let path = folder.0.path("w.vcd");
    let good = std::fs::read_to_string(&path).unwrap();
    let line = |name: &str| {
        let var =
            good.lines().find(|l| l.starts_with("$var") && l.ends_with(&format!(" {name} $end"))).unwrap();
        var.split(' ').nth(3).unwrap().to_owned()
    };
    for name in ["CMD", "DAT0", "DAT3"] {
        // One change fewer, in the middle of what the line carries.
        let changes: Vec<usize> = good.match_indices(&format!("\n0{}\n", line(name))).map(|m| m.0).collect();
        let at = changes[changes.len() / 2];
        let spoiled = format!("{}\n{}", &good[..at], &good[at + 1..].split_once('\n').unwrap().1);
        std::fs::write(&path, spoiled).unwrap();
        let output = checksums(&path, &[]).unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with("judge-vcd.py: cycle "), "{name}: {}", text(&output.stderr));
    }
}
