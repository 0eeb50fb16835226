//! Tests waveforms of `mmcq trace` with judges that are independent of this program
//! (`judges/mod.rs`).

use crate::job_folder::JobFolder;
use crate::judges;
use judges::{checksums, crccheck, sigrok_agrees, text};
use std::process::Command;

/// Job file with transfers of single and multiple blocks in both directions; the reads verify what
/// the writes wrote.
const JOB: &str = "[global]\nfilename=/dev/mmcblk0\ndirect=1\nverify=pattern\nverify_pattern=0xdeadbeef\n\
                   [one]\nrw=write\nbs=512\nsize=1k\n[many]\nstonewall\nrw=write\nbs=8k\nsize=16k\n";

/// Temporary folder with the test's job.
struct Folder(JobFolder);

impl Folder {
    fn new() -> Self {
        Folder(JobFolder::new(JOB))
    }

    /// Records a waveform with these options, and returns the commands in the program's own list.
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
    // The clock runs for the card's eight cycles after each token before it is changed.
    assert_eq!(judged["clock_stopped_early"], 0);
    assert_eq!(judged["responses"], commands.iter().filter(|c| *c != "CMD0").count());
    let blocks = blocks(&judged);
    // First the SCR on one data line: version 2.00, both bus widths. Later blocks use four lines;
    // the last is the switch to high speed.
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
    // 1 KiB and 16 KiB are written and read back.
    assert_eq!((blocks.len(), written), (2 * 34, 34));
    assert_eq!((judged["status_good"].as_u64(), judged["status_bad"].as_u64()), (Some(34), Some(0)));
    assert!(judged["busy"].as_u64() > Some(0));
    for block in &blocks {
        assert_eq!((block.1, block.2, block.3.as_str()), (4, 512, "deadbeefdeadbeefdeadbeefdeadbeef"));
    }
}

/// Checks that the number of lines and the clock edges of each block are those to which CMD6 has
/// switched the card, as the judge decodes it.
#[test]
fn an_emmc_comes_up_from_one_line_to_eight_at_one_and_two_data_rates() {
    let folder = Folder::new();
    for (scene, tuned, last_ddr, shortest) in [
        // HS200 at 200 MHz in units of a picosecond, DDR52 at 50 MHz in nanoseconds, and HS400.
        ("--platform generic --card emmc-hs200", true, false, 5_000),
        ("--platform generic --card emmc-4g-old", false, true, 20),
        ("--platform hsq-sprd", false, true, 5_000),
    ] {
        let commands = folder.trace(&format!("{scene} --trigger bringup"));
        let Some(judged) = crccheck(&folder.0.path("w.vcd"), &["--emmc"]) else { return };
        assert_eq!(judged["commands"], serde_json::json!(commands), "{scene}");
        assert_eq!(judged["shortest_cycle"], shortest, "{scene}");
        assert!(judged["busy"].as_u64() > Some(3), "{scene}: each switch is busy");
        let modes = judged["blocks"].as_array().unwrap().iter().filter(|b| b["command"] == 8);
        let modes: Vec<_> = modes.map(|b| (b["width"].as_u64().unwrap(), b["ddr"] == true)).collect();
        assert_eq!((modes[0], modes[1]), ((1, false), (8, false)), "{scene}");
        assert_eq!(modes.last(), Some(&(8, last_ddr)), "{scene}");
        let tuning: Vec<_> = blocks(&judged).into_iter().filter(|b| b.0 == 21).collect();
        assert_eq!(tuning.len() > 10, tuned, "{scene}");
        for block in tuning {
            // The first 16 bytes of the standard's tuning pattern for eight lines [eMMC 6.6.5.1].
            assert_eq!((block.1, block.2, block.3.as_str()), (8, 128, "ffff00ffffff0000ffffcccccc33cccc"));
        }
    }
}

#[test]
fn eight_lines_at_one_data_rate_have_their_checksums_status_and_busy() {
    let folder = Folder::new();
    let commands = folder.trace("--platform generic --card emmc-hs200 --for 20ms");
    let Some(judged) = crccheck(&folder.0.path("w.vcd"), &["--emmc"]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    let blocks = blocks(&judged);
    assert_eq!(blocks.len(), 2 * 34);
    assert_eq!((judged["status_good"].as_u64(), judged["status_bad"].as_u64()), (Some(34), Some(0)));
    assert!(judged["busy"].as_u64() > Some(0));
    for block in &blocks {
        assert_eq!((block.1, block.2, block.3.as_str()), (8, 512, "deadbeefdeadbeefdeadbeefdeadbeef"));
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
    // At 200 MHz half a cycle is not a whole nanosecond, so the unit is a picosecond.
    assert_eq!(judged["shortest_cycle"], 5_000);
}

/// Returns the text of a waveform without one of the changes of a line, so that the bits up to the
/// line's next change are wrong.
fn spoiled(good: &str, line: &str) -> String {
    let var = good.lines().find(|l| l.starts_with("$var") && l.ends_with(&format!(" {line} $end"))).unwrap();
    let fall = format!("\n0{}\n", var.split(' ').nth(3).unwrap());
    // Takes the change in the middle of the line's activity.
    let falls: Vec<usize> = good.match_indices(&fall).map(|m| m.0).collect();
    let at = falls[falls.len() / 2];
    format!("{}{}", &good[..at], &good[at + fall.len() - 1..])
}

#[test]
fn the_checksum_judge_refuses_a_spoiled_bit() {
    let folder = Folder::new();
    let path = folder.0.path("w.vcd");
    for (scene, options, lines) in [
        (SD, &[][..], &["CMD", "DAT0", "DAT3"][..]),
        ("--platform generic --card emmc-hs200", &["--emmc"][..], &["CMD", "DAT0", "DAT7"][..]),
        ("--platform hsq-sprd", &["--emmc", "--ddr"][..], &["CMD", "DAT0", "DAT5", "DAT7"][..]),
    ] {
        folder.trace(&format!("{scene} --trigger cmd=24 --for 100us"));
        if crccheck(&path, options).is_none() {
            return;
        }
        let good = std::fs::read_to_string(&path).unwrap();
        for line in lines {
            std::fs::write(&path, spoiled(&good, line)).unwrap();
            let output = checksums(&path, options).unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{scene}, {line}: {said}");
            assert!(said.starts_with("judge-vcd.py: cycle "), "{scene}, {line}: {said}");
        }
    }
}
