//! Tests that jobs can read the boot areas of an eMMC as files.

use mmcq_lab::fio;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{Run, Setting, run};

/// Checks a job that reads by its name one of the two boot areas (4 MiB each) of HSQ's card.
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
