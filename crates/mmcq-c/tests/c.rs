//! Tests of C programs with the header and the library, compiled by `cc` and run on the simulator.
//! They call every function of the header, so they need all features with functions, which are
//! enabled in the workspace.

#![cfg(all(feature = "rpmb", feature = "rtsx", feature = "usdhc", feature = "stm32-sdmmc"))]

use mmcq_c::{
    CODES, MMCQ_BOOT_1, MMCQ_BOOT_2, MMCQ_DISCARD, MMCQ_EMMC_18, MMCQ_FLUSH, MMCQ_GENERAL_1, MMCQ_GENERAL_4,
    MMCQ_IO_FIFO, MMCQ_IO_INCREMENT, MMCQ_QUICK_MAP, MMCQ_READ, MMCQ_RPMB_FOR_EVER, MMCQ_SECURE_ERASE,
    MMCQ_WRITE, MMCQ_WRITE_DURABLE, MMCQ_ZEROES, mmcq_card, mmcq_io_card, mmcq_io_request, mmcq_platform,
    mmcq_registers, mmcq_request, mmcq_rpmb, mmcq_rpmb_frames, mmcq_statistics, mmcq_step, mmcq_stm32,
    mmcq_usdhc,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const FEATURES: &str = "mmcq-c/rpmb,mmcq-c/rtsx,mmcq-c/usdhc,mmcq-c/stm32-sdmmc";

/// Returns the target folder of this test: `.../debug`.
fn profile_folder() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.pop();
    folder
}

/// Returns the library with simulator and stack. Cargo builds it with all examples, but not if only
/// this test is requested; then this function builds it. The variable `MMCQ_EXAMPLES=built` says
/// that cargo has built the examples for this run, with the features that the programs need.
fn simulator() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let folder = profile_folder();
        let library = folder.join("examples/libsimulator.a");
        if std::env::var_os("MMCQ_EXAMPLES").is_some_and(|said| said == "built") {
            assert!(library.exists(), "MMCQ_EXAMPLES=built, but there is no {}", library.display());
            return library;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--workspace", "--example", "simulator"]);
        cargo.args(["--features", FEATURES, "--target-dir"]);
        cargo.arg(folder.parent().unwrap()).current_dir(ROOT);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.status().unwrap();
        assert!(status.success(), "the example `simulator` of mmcq-c does not build");
        library
    })
}

/// Compiles a program of one file, and runs it.
fn run(source: &str, with_library: bool, arguments: &[&str]) -> Output {
    run_with(source, "", with_library, arguments)
}

/// Compiles a program of one file with this header before all others, and runs it.
fn run_with(source: &str, header: &str, with_library: bool, arguments: &[&str]) -> Output {
    Command::new(compiled(source, header, with_library)).args(arguments).output().unwrap()
}

/// Compiles a program of one file, once for all tests that run it. Returns the program's path.
fn compiled(source: &str, header: &str, with_library: bool) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<PathBuf, Arc<OnceLock<()>>>> = Mutex::new(BTreeMap::new());
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let program = profile_folder().join(format!("mmcq-c-{name}{}", header.len()));
    let once = PROGRAMS.lock().unwrap().entry(program.clone()).or_default().clone();
    once.get_or_init(|| {
        let mut cc = Command::new(std::env::var("CC").unwrap_or("cc".into()));
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude", "-Iexamples/c"]);
        cc.args(["-Itests/fatfs", "-Itests/zephyr", "-Itests/freertos", "-o"]);
        cc.arg(&program).args(["-DMMCQ_RTSX", "-DMMCQ_STM32_SDMMC", source]).current_dir(ROOT);
        if !header.is_empty() {
            cc.args(["-include", header]);
        }
        if with_library {
            cc.arg(simulator()).args(["-lpthread", "-ldl", "-lm"]);
        }
        let compiled = cc.output().expect("a C compiler (`cc`, or what CC names)");
        assert!(compiled.status.success(), "{source}: {}", String::from_utf8_lossy(&compiled.stderr));
    });
    program
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_example_writes_and_reads_a_card() {
    let output = run("examples/c/card.c", true, &["sdhc-16g-hs"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).starts_with("SD, "), "{}", text(&output));
    assert!(text(&output).contains("4 lines at 50000000 Hz"), "{}", text(&output));
    let output = run("examples/c/card.c", true, &["emmc-4g-old"]);
    assert!(output.status.success() && text(&output).starts_with("eMMC, "), "{}", text(&output));
}

#[test]
fn the_example_of_an_io_function_receives_its_packets() {
    let output = run("examples/c/sdio.c", true, &[]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output).matches("packet of 2052 bytes").count(), 8, "{}", text(&output));
}

#[test]
fn what_the_pages_show_compiles() {
    for (path, name) in [("guides/upgrade.md", "upgrade-page"), ("README.md", "readme-page")] {
        let page = std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap();
        let blocks: Vec<&str> =
            page.split("```c\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
        assert_eq!(blocks.len(), 1, "{path}");
        let source = profile_folder().join(format!("mmcq-c-{name}.c"));
        let program = format!("{}int main(void) {{ return mmcq_on_irq(0); }}\n", blocks[0]);
        std::fs::write(&source, program).unwrap();
        let output = run(source.to_str().unwrap(), true, &[]);
        assert!(output.status.success(), "{path}: {}", text(&output));
    }
}

#[test]
fn the_header_has_the_version_of_the_library() {
    let header = std::fs::read_to_string(format!("{ROOT}/include/mmcq.h")).unwrap();
    for (part, number) in ["MAJOR", "MINOR", "PATCH"].iter().zip(env!("CARGO_PKG_VERSION").split('.')) {
        let line = format!("#define MMCQ_VERSION_{part} {number}\n");
        assert!(header.contains(&line), "not in mmcq.h: {line}");
    }
}

#[test]
fn what_is_handed_over_wrongly_is_refused_by_a_code() {
    is_content("tests/borders.c");
}

/// Tests that memory is mapped outside of the lock: the program counts the calls of its functions
/// while the lock is held or the interrupt is active.
#[test]
fn memory_is_mapped_outside_of_the_lock() {
    is_content("tests/mapping.c");
}

/// Tests a card that lost its state: it is initialised again, in a program with a timer and in a
/// program where only a waiting thread polls the stack.
#[test]
fn a_card_that_lost_its_state_is_initialised_again() {
    for (card, how) in
        [("sdhc-16g-hs", "alarm"), ("sdhc-16g-hs", "wait"), ("emmc-hs200", "alarm"), ("hbg4a2", "wait")]
    {
        let output = run("tests/supervisor.c", true, &[card, how]);
        assert!(output.status.success(), "{card}, {how}: {}", text(&output));
        assert_eq!(text(&output), "");
    }
}

#[test]
fn a_machine_that_sleeps() {
    for card in ["sdhc-16g-hs", "emmc-hs200"] {
        let output = run("tests/suspend.c", true, &[card]);
        assert!(output.status.success(), "{card}: {}", text(&output));
        assert_eq!(text(&output), "", "{card}");
    }
}

/// Tests that the library's statics are in `.bss`, so that they take no flash. A static with one
/// byte that is not 0 would take flash in addition to RAM.
#[test]
fn what_the_library_keeps_is_in_bss() {
    let names = Command::new("nm").arg(simulator()).output().expect("nm, of the compiler's tools");
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    for kept in ["6PLACES", "12FUNCTIONS_OF", "12TRANSFERS_OF"] {
        let mut lines = names.lines().filter(|line| line.contains(kept) && line.contains("mmcq_c"));
        let line = lines.next().unwrap_or_else(|| panic!("{kept} is not in the library"));
        assert!(line.contains(" b ") || line.contains(" B "), "{line}");
    }
}

#[test]
fn durable_writes_erases_and_the_end() {
    for card in ["sdhc-16g-hs", "emmc-hs200", "hbg4a2"] {
        let output = run("tests/extended.c", true, &[card]);
        assert!(output.status.success(), "{card}: {}", text(&output));
        assert_eq!(text(&output), "", "{card}");
    }
}

#[test]
fn requests_end_in_a_callback() {
    for (card, how) in [("sdhc-16g-hs", "interrupt"), ("emmc-hs200", "thread")] {
        let output = run("tests/submit.c", true, &[card, how]);
        assert!(output.status.success(), "{card}, {how}: {}", text(&output));
        assert_eq!(text(&output), "", "{card}, {how}");
    }
}

/// Tests a request with memory in several pieces, a request whose memory must be in one piece, and
/// descriptors in memory that the program supplies.
#[test]
fn memory_in_pieces_and_memory_of_the_programs_own() {
    for card in ["sdhc-16g-hs", "emmc-hs200"] {
        let output = run("tests/pieces.c", true, &[card]);
        assert!(output.status.success(), "{card}: {}", text(&output));
        assert_eq!(text(&output), "", "{card}");
    }
}

/// Tests asynchronous requests: a reliable write needs no flush, and discards and zeroes have their
/// effect.
#[test]
fn what_an_asynchronous_request_costs_and_frees() {
    for card in ["sdhc-16g-hs", "emmc-hs200", "hbg4a2"] {
        let output = run("tests/durable.c", true, &[card]);
        assert!(output.status.success(), "{card}: {}", text(&output));
        assert_eq!(text(&output), "", "{card}");
    }
}

/// Runs a program, and checks that it reports no error.
fn is_content(program: &str) {
    let output = run(program, true, &[]);
    assert!(output.status.success(), "{program}: {}", text(&output));
    assert_eq!(text(&output), "", "{program}");
}

#[test]
fn boot_areas_and_the_replay_protected_area() {
    ["tests/partitions.c", "tests/rpmb.c"].into_iter().for_each(is_content);
}

#[test]
fn a_report_and_a_secure_erase() {
    for program in ["tests/report.c", "tests/secure.c"] {
        for card in ["emmc-hs200", "sdhc-16g-hs"] {
            let output = run(program, true, &[card]);
            assert!(
                output.status.success() && text(&output).is_empty(),
                "{program}, {card}: {}",
                text(&output)
            );
        }
    }
}

#[test]
fn realteks_card_reader_is_opened_by_its_numbers() {
    is_content("tests/rtsx.c");
}

/// Runs tests of the SDHCI controller with Realtek's card reader in its place. The reader leaves
/// transfers open, so tests that count on the end of each transfer are not among them.
#[test]
fn what_holds_for_sdhci_holds_for_realteks_card_reader() {
    for (program, arguments) in [
        ("tests/pieces.c", &["sdhc-16g-hs"][..]),
        ("tests/pieces.c", &["sdxc-128g-uhs"]),
        ("tests/suspend.c", &["sdxc-128g-uhs"]),
        ("tests/extended.c", &["sdhc-16g-hs"]),
        ("tests/durable.c", &["sdhc-16g-hs"]),
        ("tests/events.c", &[]),
        ("tests/waits.c", &["served"]),
    ] {
        let output = run_with(program, "tests/on_reader.h", true, arguments);
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output));
        assert_eq!(text(&output), "", "{program} {arguments:?}");
    }
}

/// The simulator has no model of this controller; tests/qemu has QEMU's.
#[test]
fn nxps_usdhc_is_opened_with_its_board() {
    is_content("tests/usdhc.c");
}

#[test]
fn sts_sdmmc_is_opened_with_its_board() {
    is_content("tests/stm32.c");
}

/// Runs tests of the SDHCI controller with ST's SDMMC in its place. The SDMMC has neither lists nor
/// card detection, so tests of these are not among them.
#[test]
fn what_holds_for_sdhci_holds_for_sts_sdmmc() {
    for (program, arguments) in [
        ("tests/suspend.c", &["sdhc-16g-hs"][..]),
        ("tests/supervisor.c", &["sdhc-16g-hs", "wait"]),
        ("tests/extended.c", &["sdhc-16g-hs"]),
        ("tests/durable.c", &["sdhc-16g-hs"]),
        ("tests/mapping.c", &[]),
        ("tests/waits.c", &["masked"]),
        ("tests/waits.c", &["served"]),
        ("tests/io.c", &["0"]),
        ("tests/io.c", &["64"]),
        ("tests/io_submit.c", &["0"]),
        ("tests/io_submit.c", &["64"]),
        ("tests/partitions.c", &[]),
        ("tests/rpmb.c", &[]),
        ("tests/report.c", &["sdhc-16g-hs"]),
        ("tests/secure.c", &["sdhc-16g-hs"]),
    ] {
        let output = run_with(program, "tests/on_stm32.h", true, arguments);
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output));
        assert_eq!(text(&output), "", "{program} {arguments:?}");
    }
}

#[test]
fn a_function_of_an_io_card_with_its_interrupt() {
    is_content_with_cache_lines("tests/io.c");
}

/// Runs the program on a machine without cache lines, and on one whose CPU moves short reads: what
/// the CPU moved must survive the end of a mapping, where the simulator copies its own memory back.
fn is_content_with_cache_lines(program: &str) {
    for line in ["0", "64"] {
        let output = run(program, true, &[line]);
        assert!(output.status.success(), "{program} {line}: {}", text(&output));
        assert_eq!(text(&output), "", "{program} {line}");
    }
}

#[test]
fn transfers_of_an_io_function_end_in_a_callback() {
    is_content_with_cache_lines("tests/io_submit.c");
}

#[test]
fn cards_that_come_and_go_are_told_outside_of_the_lock() {
    is_content("tests/events.c");
}

/// Tests the examples for the disk interfaces of FatFs and Zephyr, with headers that only have the
/// declarations of these interfaces.
#[test]
fn fatfs_and_zephyr_have_a_disk() {
    ["tests/fatfs.c", "tests/fatfs32.c", "tests/zephyr.c"].into_iter().for_each(is_content);
}

/// Tests the example for an RTOS with semaphores, with headers that only have FreeRTOS's
/// declarations.
#[test]
fn freertos_sleeps_on_its_semaphores() {
    is_content("tests/freertos.c");
}

/// Tests a waiting thread with interrupts masked, and with a handler that ends the request before
/// the thread sleeps: the thread does not sleep for ever.
#[test]
fn a_thread_that_waits_never_sleeps_for_ever() {
    for how in ["masked", "served"] {
        let output = run("tests/waits.c", true, &[how]);
        assert!(output.status.success(), "{how}: {}", text(&output));
        assert_eq!(text(&output), "");
    }
}

/// Tests a call that finds all slots taken, on a platform whose threads sleep on a condition
/// variable: the end of a submitted request wakes the thread, and its second try gets the slot.
#[test]
fn a_thread_that_waits_for_a_slot_wakes_when_one_is_free() {
    is_content("tests/full.c");
}

#[test]
fn the_header_has_the_layout_and_the_codes_of_the_library() {
    let mut expected =
        format!("mmcq_platform {}\nmmcq_card {}\n", size_of::<mmcq_platform>(), size_of::<mmcq_card>());
    macro_rules! fields {
        ($type:ident: $($field:ident)*) => {
            $(writeln!(expected, "{}.{} {}", stringify!($type), stringify!($field), offset_of!($type, $field)).unwrap();)*
        };
    }
    fields!(mmcq_platform: context base read write lock unlock now_ns set_alarm wait map unmap sync quirks flags cache_line card_event patience_ms piece dma dma_bus dma_bytes);
    fields!(mmcq_card: blocks clock_hz transfer_blocks align cid csd emmc width volatile_cache pieces discard_blocks zeroes read_only secure_erase reserved);
    writeln!(expected, "mmcq_request {}", size_of::<mmcq_request>()).unwrap();
    fields!(mmcq_request: op blocks lba memory done context);
    let durable = MMCQ_WRITE_DURABLE;
    writeln!(
        expected,
        "ops {MMCQ_READ} {MMCQ_WRITE} {durable} {MMCQ_FLUSH} {MMCQ_DISCARD} {MMCQ_ZEROES} {MMCQ_SECURE_ERASE}"
    )
    .unwrap();
    writeln!(expected, "mmcq_statistics {}", size_of::<mmcq_statistics>()).unwrap();
    fields!(mmcq_statistics: requests transfers merged commands interrupts spurious lost_interrupts faults busy_polls status_asked durable_flushes cache_lost erase_pieces recovery_steps);
    writeln!(expected, "mmcq_rpmb {}", size_of::<mmcq_rpmb>()).unwrap();
    writeln!(expected, "mmcq_io_card {}", size_of::<mmcq_io_card>()).unwrap();
    writeln!(expected, "mmcq_registers {}", size_of::<mmcq_registers>()).unwrap();
    fields!(mmcq_registers: ocr scr ssr ext_csd);
    writeln!(expected, "mmcq_step {}", size_of::<mmcq_step>()).unwrap();
    fields!(mmcq_step: at_ns status step);
    writeln!(expected, "mmcq_rpmb_frames {}", size_of::<mmcq_rpmb_frames>()).unwrap();
    fields!(mmcq_rpmb_frames: out back reliable ask);
    fields!(mmcq_rpmb: key nonces memory memory_bytes);
    fields!(mmcq_io_card: blocks clock_hz vendor product max_block_bytes interface_code functions width);
    writeln!(expected, "mmcq_io_request {}", size_of::<mmcq_io_request>()).unwrap();
    fields!(mmcq_io_request: function op address how bytes memory done context);
    writeln!(expected, "partitions {MMCQ_BOOT_1} {MMCQ_BOOT_2} {MMCQ_GENERAL_1} {MMCQ_GENERAL_4}").unwrap();
    writeln!(expected, "io {MMCQ_IO_FIFO} {MMCQ_IO_INCREMENT}, for ever {MMCQ_RPMB_FOR_EVER}").unwrap();
    for (code, name) in CODES {
        writeln!(expected, "{} {code}", name.to_str().unwrap()).unwrap();
    }
    writeln!(expected, "mmcq_usdhc {}", size_of::<mmcq_usdhc>()).unwrap();
    fields!(mmcq_usdhc: root_hz max_hz width fixed reserved);
    writeln!(expected, "mmcq_stm32 {}", size_of::<mmcq_stm32>()).unwrap();
    fields!(mmcq_stm32: kernel_hz max_hz dma_first dma_last power_up_us width fixed busy_after_data falling_edge reset);
    writeln!(expected, "MMCQ_EMMC_18 {MMCQ_EMMC_18}").unwrap();
    writeln!(expected, "MMCQ_QUICK_MAP {MMCQ_QUICK_MAP}").unwrap();
    assert_eq!(text(&run("tests/layout.c", false, &[])), expected);
}

/// Tests that every function of the library is in the header with the same number of parameters,
/// and that every function of the header is in the library.
#[test]
fn the_header_declares_what_the_library_has() {
    let read = |path: &str| std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap();
    let parameters = |text: &str| {
        let inside = text.split_once(')').map_or("", |(inside, _)| inside);
        inside.split(',').filter(|one| !matches!(one.trim(), "" | "void")).count()
    };
    let rooms = [
        "api",
        "controller",
        "events",
        "extended",
        "io",
        "partition",
        "registers",
        "rpmb",
        "stats",
        "submit",
        "suspend",
        "transfer",
    ];
    let rust: String = rooms.iter().map(|room| read(&format!("src/{room}.rs"))).collect();
    let mut library: Vec<(String, usize)> = rust
        .split("extern \"C\" fn ")
        .skip(1)
        .filter_map(|part| {
            let (name, rest) = part.split_once('(')?;
            Some((name.to_owned(), parameters(rest)))
        })
        .collect();
    library.sort();
    let header = read("include/mmcq.h");
    let code: String =
        header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let mut declared: Vec<(String, usize)> = code
        .split(';')
        .filter_map(|statement| {
            let (before, rest) = statement.split_once('(')?;
            let name = before.rsplit([' ', '*']).next()?;
            (name.starts_with("mmcq_")).then(|| (name.to_owned(), parameters(rest)))
        })
        .collect();
    declared.sort();
    declared.retain(|(name, _)| name != "mmcq_panic");
    assert_eq!(declared, library);
    assert_eq!(library.len(), 46);
}
