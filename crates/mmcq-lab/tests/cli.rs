//! Tests the program as its users see it: exit codes, one-line errors that name the place, and
//! equal reports of equal runs.

use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::process::Stdio;
use std::process::{Command, Output};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn image(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.file(name, "");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    fn mmcq(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.path()).args(line.split_whitespace()).output().unwrap()
    }

    /// Runs the laboratory with a command line that it must refuse. Checks for exit code 2, an
    /// empty standard output, and one line of error with all of these texts.
    fn refused(&self, line: &str, expected: &[&str]) -> String {
        let output = self.mmcq(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
        assert_eq!(text.lines().count(), 1, "{line}: {text}");
        for part in expected {
            assert!(text.contains(part), "{line}: {text:?} does not name {part:?}");
        }
        text
    }

    fn accepted(&self, line: &str) -> String {
        let output = self.mmcq(line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{line}: {text}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Returns a report without its first line, which says what ran.
fn after_origin(report: String) -> String {
    report.split_once('\n').unwrap().1.to_owned()
}

const JOB: &str = "[global]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=4M\n\n[one]\nrw=randread\n";

fn card(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../mmcq-sim/cards/{name}.toml"));
    std::fs::read_to_string(path).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_that_cannot_be_is_refused_before_it_listens() {
    let folder = Folder::new();
    folder.refused("device --socket s --card nosuch", &["nosuch", "hbg4a2"]);
    folder.refused("device --socket s --platform stream-rtsx", &["stream-rtsx", "sdhci"]);
    folder.refused("device --socket nowhere/s", &["nowhere/s", "No such file"]);
    folder.refused("device none.img --socket s", &["none.img"]);
    folder.file("taken", "not a socket");
    folder.refused("device --socket taken", &["taken", "exists and is no socket"]);
    assert!(!folder.0.path().join("s").exists());
    assert_eq!(std::fs::read_to_string(folder.0.path().join("taken")).unwrap(), "not a socket");
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_is_not_there_is_refused() {
    let folder = Folder::new();
    folder.refused("vfio 00:04 info", &["\"00:04\"", "not a PCI address"]);
    folder.refused("vfio ffff:ff:1f.7 info", &["ffff:ff:1f.7", "no such PCI device"]);
    folder.refused("vfio ffff:ff:1f.7 --quirk nosuch info", &["nosuch", "no-busy-irq"]);
    folder.refused("vfio ffff:ff:1f.7 info --quirk nosuch", &["nosuch", "no-busy-irq"]);
    folder.refused("vfio ffff:ff:1f.7 info --slot x", &["--slot", "number of a slot"]);
    // An error in a file is reported before the program looks for the reader.
    folder.refused("vfio ffff:ff:1f.7 write none.img --write", &["none.img"]);
    folder.file("short", "not a block");
    folder.refused("vfio ffff:ff:1f.7 write short --write", &["short", "11 bytes", "whole blocks"]);
    folder.file("block", &"x".repeat(512));
    folder.refused("vfio ffff:ff:1f.7 write block --lba 7", &["7", "--write"]);
    folder.refused("vfio ffff:ff:1f.7 read out", &["no such PCI device"]);
    assert!(!folder.0.path().join("out").exists());
}

#[test]
fn bad_input_is_one_line_that_names_the_place() {
    let folder = Folder::new();
    folder.file("job.fio", JOB);
    folder.file("typo.fio", &JOB.replace("bs=", "bz="));
    folder.file("value.fio", &JOB.replace("4M", "4Q"));
    folder.file("write.fio", &JOB.replace("randread", "randwrite"));
    folder.file("unit.toml", &card("hbg4a2").replace("read_first_us", "read_first"));
    folder.image("odd.img", 1000);
    folder.image("empty.img", 0);
    folder.image("small.img", 64 << 20);
    folder.refused("run job.fio --image absent.img", &["absent.img", "No such file"]);
    folder.refused("run job.fio --image odd.img", &["odd.img", "1000 bytes", "multiple of 512"]);
    folder.refused("run job.fio --image empty.img", &["empty.img", "empty"]);
    folder.refused("card odd.img", &["odd.img", "1000 bytes"]);
    folder.refused(
        "run job.fio --image small.img --card sdhc-16g-hs",
        &["sdhc-16g-hs", "15502147584", "67108864", "64 MiB", "truncate -s 15502147584"],
    );
    folder.refused("serve small.img --card sdhc-16g-hs", &["15502147584", "67108864", "truncate -s"]);
    assert!(!folder.0.path().join("small.img.sock").exists());
    folder.refused("run typo.fio", &["typo.fio:4", "'bz'", "did you mean 'bs'"]);
    folder.refused("run value.fio", &["value.fio:5", "size=4Q", "expected a size"]);
    folder.refused("run absent.fio", &["absent.fio", "No such file"]);
    folder.refused(
        "run job.fio --card unit.toml",
        &["unit.toml:", "`read_first` has no unit", "read_first_us"],
    );
    folder.refused("run job.fio --card nonsense", &["nonsense", "hbg4a2"]);
    folder.refused("run job.fio --platform hsq-spr", &["hsq-spr", "hsq-sprd"]);
    folder.refused("run job.fio --set cost.wake=3", &["cost.wake=3", "wake_us"]);
    folder.refused("run job.fio --set cost.wake_us=slow", &["cost.wake_us=slow", "number"]);
    folder.refused("run job.fio --set cpu.cores=99", &["cpu.cores", "99", "1 to 64"]);
    folder.refused("run job.fio --output-format=xml", &["xml", "json"]);
    folder.refused("run -- -rw=random -bs=4k", &["rw=random", "randread"]);
    let before = std::fs::read(folder.0.path().join("small.img")).unwrap();
    folder.refused("run write.fio --image small.img", &["small.img", "job one writes", "--write"]);
    assert!(std::fs::read(folder.0.path().join("small.img")).unwrap() == before);
}

#[test]
fn the_same_job_and_seed_give_the_same_bytes() {
    let folder = Folder::new();
    folder.file("job.fio", JOB);
    for format in ["normal", "json", "json+", "terse"] {
        for setting in ["none", "hsq-tag", "mmcq"] {
            let line = format!("run job.fio --setting {setting} --output-format {format}");
            assert_eq!(folder.accepted(&line), folder.accepted(&line), "{line}");
        }
    }
    let seeds = [1, 2].map(|seed| folder.accepted(&format!("run job.fio --setting none --seed {seed}")));
    assert_ne!(seeds[0], seeds[1], "the seed moves what is random");
}

/// Checks a board with one core, no kernel, and a controller that sends no CMD12 by itself: the
/// stand-ins for Linux are refused there.
#[test]
fn a_microcontroller_runs_by_our_stack_alone() {
    let folder = Folder::new();
    folder.file("job.fio", JOB);
    let board = "job.fio --platform stm32h7-sdmmc";
    let report = folder.accepted(&format!("run {board} --setting mmcq-own"));
    assert!(report.contains("one: (groupid=0"), "{report}");
    assert!(folder.accepted(&format!("why {board} --setting mmcq-own")).contains("stm32h7-sdmmc"));
    assert!(folder.accepted(&format!("trace {board} --setting mmcq-own")).contains("CMD18"));
    folder.accepted(&format!("report {board} --setting mmcq-own -o page.html"));
    assert!(folder.0.path().join("page.html").exists());
    folder.refused(&format!("run {board} --setting none"), &["stm32h7-sdmmc", "sends no CMD12 by itself"]);
    folder.refused(
        &format!("run {board} --setting mmcq-own --set controller.kernel_hz=5"),
        &["stm32h7-sdmmc", "kernel_hz = 5", "expected 0, or 1000000 to 400000000"],
    );
}

#[test]
fn an_image_keeps_what_a_job_wrote_and_a_later_run_verifies_it() {
    let folder = Folder::new();
    let image = folder.image("card.img", 64 << 20);
    let job = "[w]\nfilename=/dev/mmcblk0\nrw=randwrite\nbs=4k\nsize=2M\nverify=crc32c\ndo_verify=0\n";
    folder.file("write.fio", job);
    folder
        .file("check.fio", &job.replace("rw=randwrite", "rw=randread").replace("do_verify=0", "do_verify=1"));
    folder.accepted("run write.fio --image card.img --write");
    let written = std::fs::read(&image).unwrap();
    assert!(written[..2 << 20].chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
    folder.accepted("run check.fio --image card.img");

    // One wrong bit in a block must be found.
    let mut spoiled = written;
    spoiled[(1 << 20) + 1234] ^= 4;
    std::fs::write(&image, spoiled).unwrap();
    let output = folder.mmcq("run check.fio --image card.img");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1048576"), "{text:?} names the offset of the block");
}

#[test]
fn an_io_that_the_device_refuses_ends_with_1() {
    let folder = Folder::new();
    let job = "-- -name=x -filename=/dev/mmcblk0 -rw=read -size=1M -bs=1000 -direct=1";
    for command in ["run", "why"] {
        let output = folder.mmcq(&format!("{command} {job}"));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {text}");
        assert!(command == "why" || text.contains("err=22"), "{text}");
    }
}

#[test]
fn what_is_no_command_or_the_wrong_file_is_named_in_one_line() {
    let folder = Folder::new();
    let line = folder.refused("qux", &["qux: no command; expected run, ", "torture"]);
    assert!(!line.contains("similar"), "{line}");
    folder.refused("run", &["JOB.fio", "--help"]);
    folder.refused("run --nonsense", &["--nonsense"]);
    // A card's file is given where a board's file is expected.
    folder.file("card.toml", &card("sdhc-16g-hs"));
    folder.file("job.fio", JOB);
    folder.refused("run job.fio --platform card.toml", &["card.toml: a card, for --card; expected a board"]);
    // A key occurs twice, in each kind of file.
    folder.file("twice.toml", "description = \"x\"\nextends = \"generic\"\ndescription = \"y\"\n");
    folder.refused("run job.fio --platform twice.toml", &["line 3: duplicate key `description`"]);
    folder.file("twice.toml", "description = \"x\"\ndescription = \"y\"\n");
    folder.refused("run job.fio --card twice.toml", &["duplicate key `description`"]);
    folder.file("twice.toml", "[sd.time]\npower_up_ms = 1\npower_up_ms = 2\n");
    folder.refused("run job.fio --card twice.toml", &["duplicate key `power_up_ms`"]);
}

#[test]
fn a_cost_may_be_given_in_another_unit_than_the_board_below_has_it_in() {
    let folder = Folder::new();
    folder.file("job.fio", JOB);
    let cost = |key: &str, value: &str| {
        let quantity = format!("{{ value = {value}, kind = \"prior\", source = \"guess\" }}");
        folder.file(
            "b.toml",
            &format!("description = \"b\"\nextends = \"generic\"\n[cost]\n{key} = {quantity}\n"),
        );
        after_origin(folder.accepted("run job.fio --platform b.toml"))
    };
    let us = cost("irq_us", "30");
    assert_eq!(cost("irq_ms", "0.03"), us);
    assert_ne!(cost("irq_ms", "0.04"), us);
    assert_eq!(after_origin(folder.accepted("run job.fio --platform b.toml --set cost.irq_ns=30000")), us);
    // A file that gives a quantity in two units is refused.
    let twice = "wake_us = { value = 1, kind = \"prior\", source = \"x\" }\nwake_ms = { value = 1, kind = \"prior\", source = \"x\" }";
    folder.file("b.toml", &format!("description = \"b\"\nextends = \"generic\"\n[cost]\n{twice}\n"));
    folder.refused("run job.fio --platform b.toml", &["cost.wake", "given twice, in two units"]);
}

#[test]
fn the_programs_page_leaves_that_of_the_library_of_the_same_name_alone() {
    let manifest: toml::Table = include_str!("../Cargo.toml").parse().unwrap();
    let program = &manifest["bin"].as_array().unwrap()[0];
    assert_eq!((program["name"].as_str(), program["doc"].as_bool()), (Some("mmcq"), Some(false)));
}

#[test]
fn fio_options_may_have_one_dash() {
    let folder = Folder::new();
    let line = "run -- -filename=/dev/mmcblk0 --rw=read -bs=64k -size=1M -name=seq -output-format=json";
    let report: serde_json::Value = serde_json::from_str(&folder.accepted(line)).unwrap();
    assert_eq!(report["jobs"][0]["jobname"], "seq");
    assert_eq!(report["jobs"][0]["read"]["io_bytes"], 1 << 20);
}

#[test]
fn cards_are_shown_decoded() {
    let folder = Folder::new();
    folder.image("card.img", 3 << 30);
    let shown = folder.accepted("card card.img");
    assert!(shown.contains("3 GiB (6291456 blocks of 512 bytes)"), "{shown}");
    let emmc = folder.accepted("card --platform hsq-sprd --json");
    let fields: Vec<serde_json::Value> = emmc.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let value = |field: &str| fields.iter().find(|f| f["field"] == field).unwrap()["value"].clone();
    assert_eq!(value("bus"), "HS400ES, 8 bits, 200 MHz");
    assert!(value("SEC_COUNT [215:212]").as_str().unwrap().starts_with("29.1"));
}

#[test]
fn a_controller_that_does_not_continue_data_is_named_once_and_nothing_is_lost() {
    let folder = Folder::new();
    let lies = "--platform stream-rtsx --set controller.continue_data=false --set driver.continue_data=true";
    let options = "-- -name=w -rw=write -bs=64k -size=8M -direct=1 -verify=crc32c -do_verify=1";
    let output = folder.mmcq(&format!("run {lies} {options}"));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(text.matches("does not continue data although its driver says so").count(), 1, "{text}");
    let honest = folder.mmcq(&format!("run --platform stream-rtsx {options}"));
    assert!(honest.stderr.is_empty(), "{}", String::from_utf8_lossy(&honest.stderr));
    folder.refused(
        "run --platform stream-rtsx --set driver.continue_data=3 -- -name=r -rw=read -size=1M",
        &["driver.continue_data: 3", "expected true, false"],
    );
}

#[test]
fn numbers_that_are_none_are_named_with_what_was_expected() {
    let folder = Folder::new();
    for line in
        ["torture --ios 5M", "run job.fio --seed x", "reproduce hsq --seed=-1", "torture --replay 1.5"]
    {
        folder.refused(line, &["expected a whole number from 0"]);
    }
    folder.refused("torture --faults 1.5", &["1.5", "expected a number from 0 to 1"]);
}

#[test]
fn options_of_torture_that_do_not_go_together_are_refused() {
    let folder = Folder::new();
    folder.refused("torture --replay 7 --mode sweep", &["--replay", "--mode sweep", "have no seeds"]);
    folder.refused("torture --catalogue --ios 10", &["--catalogue", "cannot be used with", "--ios"]);
    folder.refused(
        "torture --mode swap --card sdsc-1g",
        &["--card", "--mode swap", "expected --mode swarm or all"],
    );
}

#[test]
fn a_replay_is_readable_and_in_the_order_of_time() {
    let folder = Folder::new();
    for seed in [2, 4, 6] {
        let shown = folder.accepted(&format!("torture --replay {seed}"));
        assert!(shown.starts_with("machine\n  card "), "{shown}");
        assert!(!shown.contains("Setup"), "{shown}");
        let mut lines = shown.lines().skip_while(|line| !line.trim_start().starts_with("time/ns"));
        assert!(lines.next().is_some(), "no heading");
        let times: Vec<u64> = lines.filter_map(|line| line.get(..14)?.trim().parse().ok()).collect();
        assert!(times.len() > 1_000, "{}", times.len());
        assert!(times.is_sorted(), "seed {seed}");
    }
}

#[test]
fn what_the_tree_ships_is_listed() {
    let folder = Folder::new();
    let listed = folder.accepted("platforms --json");
    let rows: Vec<serde_json::Value> = listed.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for (kind, place) in [("platform", "platforms"), ("card", "../mmcq-sim/cards")] {
        let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(place)).unwrap();
        let files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some());
        let mut shipped: Vec<String> =
            files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        let names = rows.iter().filter(|row| row["kind"] == kind).map(|row| row["name"].as_str().unwrap());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        shipped.sort();
        names.sort();
        assert_eq!(names, shipped, "{place}");
    }
    assert!(folder.accepted("card --card emmc-51-full").contains("CID"));
    folder.file("io.toml", &card("bt-type-a"));
    for name in ["bt-type-a", "io.toml"] {
        folder
            .refused(&format!("card --card {name}"), &[name, "an I/O card without blocks", "reproduce sdio"]);
        // A virtual machine may use an I/O card, but such a card has no blocks and so no image.
        std::fs::write(folder.0.path().join("some.img"), [0; 1 << 16]).unwrap();
        let device = format!("device some.img --socket here --card {name}");
        folder.refused(&device, &[name, "an I/O card has no blocks; expected no image"]);
    }
}

#[test]
fn what_is_no_board_and_no_image_is_named() {
    let folder = Folder::new();
    let quirks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mmcq-sim/controllers");
    let mut profiles = 0;
    for file in std::fs::read_dir(&quirks).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "toml") {
            let line = format!("card --platform {}", file.display());
            folder.refused(&line, &["a controller with a quirk, for the simulator's tests"]);
            profiles += 1;
        }
    }
    assert_eq!(profiles, mmcq_sim::sdhci::PROFILES.len());
    assert!(folder.accepted("platforms").contains("controllers"));
    for (name, bytes) in [("tiny.img", 512), ("huge.img", 3 << 40)] {
        std::fs::File::create(folder.0.path().join(name)).unwrap().set_len(bytes).unwrap();
        let said = format!("{name}: the image has {bytes} bytes");
        folder.refused(&format!("card {name}"), &[&said, "up to 2 TiB"]);
        folder.refused(&format!("serve {name}"), &[&said, "up to 2 TiB"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_schedule_that_cannot_be_is_one_line() {
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("list"), "1 resp_crc\n5 out\n").unwrap();
    std::fs::write(folder.0.path().join("job"), "true\n").unwrap();
    for command in ["device --socket s", "guest job"] {
        folder.refused(&format!("{command} --schedule list"), &["list: line 2: out: expected how long"]);
        folder.refused(&format!("{command} --schedule none"), &["none"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_names_the_boards_that_it_takes() {
    let folder = Folder::new();
    for name in ["sdio-pc", "stream-rtsx", "nothing"] {
        let message =
            folder.refused(&format!("device --socket s --platform {name}"), &[name, "one of: generic, "]);
        assert!(!message.contains("stream-rtsx,"), "{message}");
    }
}

/// Starts a server with this command line. Returns its process, and the line that says where it
/// listens.
#[cfg(target_os = "linux")]
fn server(folder: &Folder, line: &str) -> (std::process::Child, String) {
    use std::io::BufRead;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder.0.path()).args(line.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    (child, said)
}

#[cfg(target_os = "linux")]
fn end(child: &mut std::process::Child, signal: &str) -> Option<i32> {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    child.wait().unwrap().code()
}

/// Connects a client to the device behind this socket, and agrees with it on the protocol version.
#[cfg(target_os = "linux")]
fn greeted(socket: &Path) -> std::os::unix::net::UnixStream {
    use std::io::{Read, Write};
    const VERSION: u16 = 1;
    let mut client = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let text = b"\0\0\0\0{\"capabilities\":{}}\0";
    let message = [0, VERSION].map(u16::to_ne_bytes).concat();
    let head = [16 + text.len() as u32, 0, 0].map(u32::to_ne_bytes).concat();
    client.write_all(&[&message[..], &head, text].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    client
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_that_is_ended_takes_its_socket_with_it() {
    let folder = Folder::new();
    for (signal, connected) in [("TERM", false), ("INT", true)] {
        let (mut child, said) = server(&folder, "device --socket s");
        assert!(said.starts_with("PCI device"), "{said}");
        folder.refused("device --socket s", &["s: another server listens"]);
        let client = connected.then(|| greeted(&folder.0.path().join("s")));
        for harmless in ["USR1", "USR2", "USR2"] {
            let sent = Command::new("kill").args(["-s", harmless, &child.id().to_string()]).status();
            assert!(sent.unwrap().success(), "{harmless}");
        }
        assert_eq!(end(&mut child, signal), Some(0), "{signal}");
        assert!(!folder.0.path().join("s").exists(), "{signal}");
        drop(client);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_image_has_one_writer_or_many_readers() {
    let folder = Folder::new();
    folder.image("card.img", 64 << 20);
    folder.file("job.fio", JOB);
    let (mut writer, _) = server(&folder, "serve card.img --write");
    folder.refused("serve card.img --write --socket other", &["card.img", "another mmcq uses this image"]);
    folder.refused("serve card.img --socket other", &["card.img", "another mmcq writes"]);
    folder.refused("run job.fio --image card.img", &["card.img", "another mmcq writes"]);
    folder.refused("card card.img", &["card.img", "another mmcq writes"]);
    folder.refused("device card.img --socket other", &["card.img", "another mmcq uses this image"]);
    assert!(!folder.0.path().join("other").exists());
    assert_eq!(end(&mut writer, "TERM"), Some(0));
    let (mut reader, _) = server(&folder, "serve card.img");
    folder.accepted("run job.fio --image card.img");
    folder.refused("run job.fio --image card.img --write", &["card.img", "another mmcq uses this image"]);
    folder.refused("serve card.img", &["card.img.sock", "another server listens"]);
    assert_eq!(end(&mut reader, "TERM"), Some(0));
}

/// Checks that `mmcq torture --merge` does not count as passed if the report of a shard is missing.
#[test]
fn a_merge_without_a_shard_fails() {
    let folder = tempfile::tempdir().unwrap();
    let torture = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let words = words.split_whitespace();
        command.current_dir(folder.path()).arg("torture").args(words).output().unwrap()
    };
    for shard in ["1", "2"] {
        let output = torture(&format!("--mode swarm --ios 2000 --json --shard {shard}/2"));
        assert!(output.status.success(), "{output:?}");
        std::fs::write(folder.path().join(shard), output.stdout).unwrap();
    }
    assert_eq!(torture("--merge 1").status.code(), Some(1));
    assert_eq!(torture("--merge 1 2").status.code(), Some(0));
}

/// Checks that the campaign without a summary does not end silently with --json.
#[test]
fn a_campaign_without_a_summary_is_refused_with_json() {
    Folder::new()
        .refused("torture --mode bring-up --json", &["--json", "expected --mode bring-up without it"]);
}

/// Checks that the report names a request that starved: mean and percentiles of the run look good.
#[test]
fn a_request_that_starves_is_named_in_the_report() {
    let folder = Folder::new();
    let job = "[a]\nrw=randread\nbs=4k\nsize=64M\nruntime=1s\ntime_based\nioengine=libaio\niodepth=4\n";
    folder.file("deep.fio", job);
    let starved = |setting: &str| {
        let report = folder.accepted(&format!("run deep.fio --platform hsq-sprd --setting {setting}"));
        report.lines().find(|line| line.starts_with("starved: a read took ")).map(str::to_owned)
    };
    let line = starved("hsq-tag").expect("the order of tags starves one of four");
    assert!(
        line.contains(" ms where 99 % take 0.") && line.ends_with("percentiles do not show it"),
        "{line}"
    );
    assert_eq!(starved("hsq-fifo"), None);
}

#[test]
fn a_run_that_is_refused_writes_nothing() {
    let folder = Folder::new();
    folder.file("job.fio", JOB);
    folder.file("trace.bin", "kept");
    folder.file("bus.log", "kept");
    folder.file("report.txt", "kept");
    let line = "run job.fio --platform hsq-sprd --setting cqe";
    for (there, new) in [
        ("--export blktrace trace.bin", "--export blktrace new"),
        ("--bus-log bus.log", "--bus-log new"),
        ("--output report.txt", "--output new"),
        ("--export blktrace trace.bin --bus-log bus.log", "--export blktrace new --bus-log new2"),
    ] {
        for files in [there, new] {
            folder.refused(&format!("{line} {files}"), &["no command queue"]);
        }
    }
    for name in ["trace.bin", "bus.log", "report.txt"] {
        assert_eq!(std::fs::read_to_string(folder.0.path().join(name)).unwrap(), "kept", "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 4);
    let line = line.replace("cqe", "mmcq");
    let report = folder.accepted(&format!("{line} --export blktrace trace.bin --bus-log bus.log"));
    assert!(std::fs::read(folder.0.path().join("trace.bin")).unwrap().len() > 1000);
    assert!(std::fs::read_to_string(folder.0.path().join("bus.log")).unwrap().starts_with("Command"));
    assert_eq!(folder.accepted(&format!("{line} --output report.txt")), "");
    assert_eq!(std::fs::read_to_string(folder.0.path().join("report.txt")).unwrap(), report);
}

#[cfg(target_os = "linux")]
#[test]
fn an_argument_that_is_no_text_is_one_line() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"job\xff.fio");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(folder.0.path()).args(words).arg(name).output().unwrap()
    };
    let output = run(&["run"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    std::fs::write(folder.0.path().join(name), JOB).unwrap();
    assert_eq!(run(&["run", "--color", "never"]).status.code(), Some(0));
    let output = run(&["run", "--set"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
