//! Tests that jobs and programs can read the boot areas of an eMMC as files.

use crate::watchdog;
use mmcq_lab::fio;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{Run, Setting, run};
use std::path::Path;
use std::process::Command;

/// Runs the laboratory with this command line. Returns its exit code, its standard output and its
/// standard error.
fn mmcq(line: &str) -> (Option<i32>, String, String) {
    let _alive = watchdog::watch();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    lab.current_dir(env!("CARGO_TARGET_TMPDIR"));
    lab.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache"));
    let output = lab.args(line.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Checks a job that reads one of the two boot areas (4 MiB each) of HSQ's card by the area's name.
#[test]
fn boot_areas_are_read_by_their_names_and_the_card_goes_back() {
    let of = |filename: &str, setting: Setting| {
        let platform = Platform::load("hsq-sprd").unwrap();
        let text = format!(
            "[a]\nfilename={filename}\nrw=read\nbs=64k\ndirect=1\nnumber_ios=8\n[b]\nfilename=/dev/mmcblk0\nrw=randread\nbs=4k\nnumber_ios=40\n"
        );
        let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
        let workers = fio::expand(&file.jobs).unwrap();
        let what = Run { workers: &workers, platform: &platform, card: None, setting, seed: 1 };
        run(&what, None, &mut |_, _| ()).map(|outcome| outcome.counters)
    };
    for setting in [Setting::Mmcq, Setting::MmcqOwn] {
        let user = of("/dev/mmcblk0", setting).unwrap();
        for device in ["/dev/mmcblk0boot0", "/dev/mmcblk0boot1"] {
            let boot = of(device, setting).unwrap();
            assert_eq!((boot.ios, boot.failed, boot.bytes), (48, 0, user.bytes), "{device}");
            // Each access to a boot area needs a switch there and a switch back; the user area
            // needs none.
            let (switches, none) = (boot.bus.commands[6], user.bus.commands[6]);
            assert!(none == 0 && switches >= 2 && switches % 2 == 0, "{device}: {switches}, {none}");
        }
    }
    let error = of("/dev/mmcblk0boot0", Setting::HsqFifo).unwrap_err().to_string();
    assert!(error.contains("which setting hsq-fifo does not read"), "{error}");
    let error = of("/dev/mmcblk0rpmb", Setting::Mmcq).unwrap_err().to_string();
    assert!(error.contains("jobs are in the user area"), "{error}");
}

/// Checks that a job reads a boot area as a file of 4 MiB.
#[test]
fn a_boot_area_has_its_own_size() {
    let platform = Platform::load("hsq-sprd").unwrap();
    let of = |text: &str| {
        let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
        let workers = fio::expand(&file.jobs).unwrap();
        let what =
            Run { workers: &workers, platform: &platform, card: None, setting: Setting::Mmcq, seed: 1 };
        run(&what, None, &mut |_, _| ()).map(|outcome| outcome.counters)
    };
    let whole = of("[a]\nfilename=/dev/mmcblk0boot1\nrw=read\nbs=128k\n").unwrap();
    assert_eq!((whole.ios, whole.bytes, whole.failed), (32, 4 << 20, 0));
    assert!(of("[a]\nfilename=/dev/mmcblk0boot1\nrw=read\nbs=128k\nsize=5M\n").is_err());
}

/// Checks the limit of a job on a boot area: the same reads and switches of the area without any
/// cost of the host.
#[test]
fn a_boot_area_has_a_limit() {
    let platform = Platform::load("hsq-sprd").unwrap();
    for options in ["rw=randread\nbs=4k\nnumber_ios=40", "rw=read\nbs=64k\nioengine=libaio\niodepth=8"] {
        let text = format!("[a]\nfilename=/dev/mmcblk0boot0\ndirect=1\nnumjobs=2\n{options}\n");
        let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
        let workers = fio::expand(&file.jobs).unwrap();
        let of = |setting| {
            let what = Run { workers: &workers, platform: &platform, card: None, setting, seed: 1 };
            run(&what, None, &mut |_, _| ()).unwrap().counters
        };
        let (limit, ours) = (of(Setting::Limit), of(Setting::Mmcq));
        assert_eq!((limit.ios, limit.bytes, limit.failed), (ours.ios, ours.bytes, 0), "{options}");
        assert!(limit.elapsed_ns <= ours.elapsed_ns, "{options}: {} {}", limit.elapsed_ns, ours.elapsed_ns);
    }
    let job = "--name=a --filename=/dev/mmcblk0boot0 --rw=read --bs=4k --size=256k";
    let (code, said, told) = mmcq(&format!("why --platform hsq-sprd -- {job}"));
    assert!(code == Some(0) && said.contains("physical limit"), "{told}");
}

/// Checks that programs, and fio itself, read a boot area by its name and cannot write to it.
#[test]
fn programs_read_a_boot_area() {
    let dd = |direction: &str, at: &str| {
        mmcq(&format!(
            "exec --platform hsq-sprd --at /dev/mmcblk0boot1 -- dd {direction} bs=64k conv=notrunc status=none {at}"
        ))
    };
    let (code, _, told) = dd("if=/dev/mmcblk0boot1", "of=/dev/null");
    assert!(code == Some(0) && told.contains("reads (4.00 MiB)"), "{told}");
    let (code, _, told) = dd("of=/dev/mmcblk0boot1", "if=/dev/zero");
    assert!(code == Some(1) && told.contains("Operation not permitted"), "{told}");
    let fio = |device: &str, rest: &str| {
        mmcq(&format!("fio {rest} -- --name=a --filename=/dev/{device} --rw=read --bs=64k --direct=1"))
    };
    let (code, said, told) = fio("mmcblk0boot0", "--platform hsq-sprd");
    assert!(code == Some(0) && said.contains("io=4096KiB"), "{said}{told}");
    let (code, _, told) = fio("mmcblk0boot0", "--platform hsq-sprd --setting none");
    assert!(code == Some(2) && told.contains("which setting none does not read"), "{told}");
    let (code, _, told) = fio("mmcblk0boot0", "--platform generic");
    assert!(code == Some(2) && told.contains("this card has none"), "{told}");
    let (code, _, told) = fio("mmcblk0rpmb", "--platform hsq-sprd");
    assert!(code == Some(2) && told.contains("a partition of its own"), "{told}");
}
