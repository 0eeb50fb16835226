//! Tests `mmcq why`: the phases add up to the whole run, the counts agree with the bus, and the
//! conclusion follows from the numbers.

use mmcq_lab::fio;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{Run, Setting};
use mmcq_lab::why::{self, Phases, Why, mib_per_s};
use std::process::Command;

fn why(board: &str, setting: Setting, options: &str) -> Why {
    let platform = Platform::load(board).unwrap();
    let text = format!("[t]\nfilename=/dev/mmcblk0\ndirect=1\nsize=1G\n{}\n", options.replace(' ', "\n"));
    let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    Why::new(&Run { workers: &workers, platform: &platform, card: None, setting, seed: 1 }).unwrap()
}

fn value(why: &Why, group: &str, name: &str) -> f64 {
    let facts = why::facts(why);
    let found = facts.iter().find(|fact| fact.group == group && fact.name == name);
    found.unwrap_or_else(|| panic!("no {group}, {name} in {facts:?}")).value
}

#[test]
fn every_nanosecond_is_in_one_phase_with_every_server() {
    for (board, settings) in [
        ("hsq-sprd", &[Setting::None, Setting::HsqTag, Setting::Mmcq, Setting::Limit][..]),
        ("hsq-nobusy", &[Setting::None, Setting::Mmcq]),
        ("stream-rtsx", &[Setting::Close, Setting::Patch, Setting::Mmcq, Setting::MmcqOwn]),
        ("stm32h7-sdmmc", &[Setting::Mmcq, Setting::MmcqOwn, Setting::Limit]),
    ] {
        for &setting in settings {
            for options in
                ["rw=randrw bs=4k io_size=1M", "rw=write bs=64k io_size=2M iodepth=8 ioengine=libaio"]
            {
                let why = why(board, setting, options);
                let phases = Phases::of(&why.counters);
                let sum: u64 = phases.named().iter().map(|(_, ns)| ns).sum();
                let at = format!("{board}, {}, {options}: {phases:?}", setting.name());
                assert_eq!(sum, why.counters.elapsed_ns, "{at}");
                // The phases do not overlap, except for gaps of a few clocks.
                let bus = &why.counters.bus;
                let wires = bus.physical_ns() + bus.held_ns + why.counters.waiting_ns;
                let cut = wires - (sum - phases.cpu_ns);
                assert!(cut <= sum / 1000, "{cut}: {at}");
                assert!(setting == Setting::Limit || cut == 0, "{cut}: {at}");
            }
        }
    }
}

#[test]
fn each_request_that_is_not_merged_has_a_reason_in_every_setting() {
    let one = "rw=write bs=1M io_size=8M ioengine=psync";
    let deep = "rw=write bs=64k io_size=2M iodepth=8 ioengine=libaio";
    let random = "rw=randread bs=4k io_size=1M iodepth=8 ioengine=libaio";
    for (board, settings) in [
        ("hsq-sprd", &[Setting::None, Setting::HsqTag, Setting::HsqFifo, Setting::Mmcq][..]),
        ("stream-rtsx", &[Setting::Close, Setting::Patch, Setting::Mmcq, Setting::MmcqOwn]),
    ] {
        for &setting in settings {
            let reasons = |options: &str| {
                let why = why(board, setting, options);
                let facts = why::facts(&why);
                let sum: f64 =
                    facts.iter().filter(|f| f.group == "not merged because").map(|f| f.value).sum();
                let at = format!("{board}, {}, {options}: {facts:?}", setting.name());
                assert_eq!(sum, value(&why, "queue", "not merged"), "{at}");
                assert_eq!(value(&why, "queue", "merged") + sum, why.counters.ios as f64, "{at}");
                let said = why::text(&why);
                (why, said)
            };
            // The maintainer's question: a single thread with one request under way leaves nothing
            // to merge.
            let (alone, said) = reasons(one);
            assert_eq!(value(&alone, "not merged because", "nothing else was under way"), 8.0);
            assert!(said.contains("8 of them because nothing else was under way"), "{said}");
            let (elsewhere, _) = reasons(random);
            let most = value(&elsewhere, "not merged because", "what was under way is elsewhere");
            assert!(most > 0.9 * elsewhere.counters.ios as f64, "{most}");
            let (deep, _) = reasons(deep);
            assert!(deep.counters.chances.goes_on == 31, "{:?}", deep.counters.chances);
        }
    }
}

#[test]
fn a_pause_says_why_nothing_is_continued() {
    let options = "rw=read bs=64k io_size=1M ioengine=psync thinktime=5000";
    let reason = |setting, name| {
        let why = why("stream-rtsx", setting, options);
        let facts = why::facts(&why);
        let fact = facts.iter().find(|fact| fact.group == "not continued because");
        let fact = fact.unwrap_or_else(|| panic!("{facts:?}"));
        assert_eq!((fact.name.as_str(), fact.value), (name, 15.0));
        fact.rates[1].0
    };
    // The pause is the job's own 5 ms, plus the time to wake up and submit.
    let pause_us = reason(Setting::Close, "each transfer is closed at once");
    assert!((5000.0..5200.0).contains(&pause_us), "{pause_us}");
    let patch = why("stream-rtsx", Setting::Patch, options);
    assert_eq!(value(&patch, "queue", "continued"), 15.0);
    let none = why("hsq-sprd", Setting::Mmcq, options);
    assert_eq!(value(&none, "not continued because", "the host cannot go on without a command"), 15.0);
}

#[test]
fn the_slowest_request_says_where_it_was() {
    let eight = "rw=randread bs=4k io_size=4M numjobs=8 thread";
    let why = why("fifo-allwinner", Setting::HsqTag, eight);
    let said = why::text(&why);
    assert!(
        said.contains("younger ones went first") && said.contains("the queue takes the next tag"),
        "{said}"
    );
    let requests = why.requests.as_ref().unwrap();
    let longest = |at: usize| requests.spans[at].2;
    assert!(longest(1) > 10 * longest(0) && longest(1) > 100 * longest(2), "{requests:?}");
}

#[test]
fn what_the_submitter_thinks_is_waiting_and_what_the_stack_does_is_not() {
    // One thread waits 200 us between reads, with no CPU costs: the rest of the time is wire and
    // card.
    let why = why("hsq-sprd", Setting::Limit, "rw=randread bs=4k io_size=1M thinktime=200 ioengine=psync");
    let phases = Phases::of(&why.counters);
    let each = |ns: u64| ns as f64 / why.counters.ios as f64 / 1e3;
    assert!((each(phases.waiting_ns) - 200.0).abs() < 2.0, "{phases:?}");
    assert!(each(phases.cpu_ns) < 0.1, "{phases:?}");
}

#[test]
fn a_thinking_submitter_is_named_with_what_depth_2_gives() {
    let slow = "rw=randread bs=4k io_size=1M ioengine=psync";
    let platform = Platform::load_with("hsq-sprd", &["cost.user_us=100".to_owned()]).unwrap();
    let text = format!("[t]\nfilename=/dev/mmcblk0\ndirect=1\nsize=1G\n{}\n", slow.replace(' ', "\n"));
    let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    let run = Run { workers: &workers, platform: &platform, card: None, setting: Setting::MmcqOwn, seed: 1 };
    let why = Why::new(&run).unwrap();
    let deeper = why.deeper.as_ref().unwrap();
    assert!(mib_per_s(deeper) > 1.3 * mib_per_s(&why.counters));
    let line = why.conclusion();
    assert!(line.contains("the submitter thinks") && line.contains("depth 2 hides it"), "{line}");
}

#[test]
fn other_losses_are_named_for_what_they_are() {
    let cpu = why("hsq-sprd", Setting::None, "rw=randread bs=4k io_size=1M").conclusion();
    assert!(cpu.contains("software takes") && cpu.contains("context switches"), "{cpu}");
    let none = why("stream-rtsx", Setting::Mmcq, "rw=write bs=64k io_size=8M").conclusion();
    assert!(none.contains("nothing worth naming"), "{none}");
}

#[test]
fn flash_that_is_read_in_a_queue_is_the_cards_and_not_the_cpus() {
    let platform = Platform::load("intel-jsl").unwrap();
    let text =
        "[t]\nfilename=/dev/mmcblk0\ndirect=1\nrw=randread\nbs=4k\nsize=64m\nioengine=libaio\niodepth=32\n";
    let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    let of = |setting| {
        let (platform, card) = (&platform, Some("emmc-queue"));
        Why::new(&Run { workers: &workers, platform, card, setting, seed: 1 }).unwrap()
    };
    // Software that polls for ready tasks keeps the CPU busy; a queue engine or the limit does not.
    for (setting, least_percent, cpu_percent) in
        [(Setting::Cqe, 50.0, 2.0), (Setting::Tasks, 20.0, 45.0), (Setting::Limit, 50.0, 0.5)]
    {
        let why = of(setting);
        let phases = Phases::of(&why.counters);
        let share = |ns: u64| 100.0 * ns as f64 / why.counters.elapsed_ns as f64;
        let at = format!("{}: {phases:?}", setting.name());
        assert!(share(phases.fetching_ns) > least_percent, "{at}");
        assert!(share(phases.cpu_ns) < cpu_percent, "{at}");
        assert!(why::text(&why).contains("card, fetching"), "{at}");
    }
    // Without a command queue, no command waits in the card.
    assert_eq!(Phases::of(&of(Setting::Mmcq).counters).fetching_ns, 0);
}

#[test]
fn lost_merging_is_a_loss() {
    // The board's own change switches merging off, so each request goes out alone.
    let changes = ["stack.merging=off".to_owned()];
    let platform = Platform::load_with("generic", &changes).unwrap();
    let text =
        "[t]\nfilename=/dev/mmcblk0\ndirect=1\nrw=write\nbs=4k\nioengine=libaio\niodepth=8\nio_size=2M\n";
    let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    let (platform, setting) = (&platform, Setting::Mmcq);
    let why = Why::new(&Run { workers: &workers, platform, card: None, setting, seed: 1 }).unwrap();
    let line = why.conclusion();
    assert!(line.contains("most of the loss: merging"), "{line}");
    assert!(line.contains("(1.00 requests a transfer, 8.00 at the limit)"), "{line}");
    assert!(why.share_percent() < 25.0, "{line}");
}

#[test]
fn starts_that_are_held_are_counted_with_their_price() {
    let load = "rw=write bs=4k io_size=4M iodepth=8 ioengine=libaio";
    let held = why("generic", Setting::MmcqOwn, load);
    let of = |name| value(&held, "held for the tail", name);
    let count = value(&held, "queue", "held for the tail");
    assert!(count >= 50.0 && of("the tail came") > 0.9 * count, "{count}");
    let (waited, gained) = (of("time held"), of("gained"));
    assert!(waited > 0.0 && gained > waited, "{waited} us held, {gained} us gained");
    let line = format!("held for the tail: {count} times, {waited:.0} us, gained {gained:.0} us");
    for (kind, all) in [("text", why::text(&held)), ("JSON", why::json_lines(&held))] {
        assert_eq!(all.matches(&line).count(), 1, "{kind}: {all}");
    }
    let merged = value(&held, "queue", "transfers out");
    assert!(count <= merged, "{count} holds of {merged} transfers");

    // With a random load no start is held, and the text does not mention holds.
    let random = why("generic", Setting::MmcqOwn, &load.replace("rw=write", "rw=randwrite"));
    assert_eq!(value(&random, "queue", "held for the tail"), 0.0);
    assert!(!why::text(&random).contains("held for the tail: "));
}

#[test]
fn requests_transfers_and_commands_agree() {
    let merged = why("hsq-sprd", Setting::Mmcq, "rw=read bs=4k io_size=4M iodepth=32 ioengine=libaio");
    let of = |name| value(&merged, "queue", name);
    assert_eq!(of("requests in"), 1024.0);
    assert_eq!(of("requests in"), of("transfers out") + of("merged"));
    assert_eq!(value(&merged, "commands", "CMD18 READ_MULTIPLE_BLOCK"), of("transfers out"));
    // The host sends CMD23 by itself: as many CMD23 as CMD18, and no other commands.
    assert_eq!(value(&merged, "commands", "in all"), 2.0 * of("transfers out"));

    let open = why("stream-rtsx", Setting::Mmcq, "rw=write bs=64k io_size=4M");
    let of = |name| value(&open, "queue", name);
    assert_eq!((of("requests in"), of("transfers out")), (64.0, 64.0));
    assert!(of("continued") >= 60.0);
    assert_eq!(of("transfers out") - of("continued"), value(&open, "commands", "CMD25 WRITE_MULTIPLE_BLOCK"));
    assert_eq!(of("CMD13 for a write's status"), value(&open, "commands", "CMD13 SEND_STATUS"));

    // A flush closes an open transfer. An ordinary transfer that CMD12 ends was never open, so it
    // does not count.
    let flushed = why("stream-rtsx", Setting::Mmcq, "rw=write bs=64k io_size=4M fsync=16");
    let of = |name| value(&flushed, "queue", name);
    let reasons: f64 =
        why::facts(&flushed).iter().filter(|f| f.group == "closed because").map(|f| f.value).sum();
    assert!(reasons >= 3.0, "{reasons}");
    assert_eq!(of("open transfers closed"), reasons);

    let patch = why("stream-rtsx", Setting::Patch, "rw=write bs=64k io_size=4M");
    let (out, continued) = (value(&patch, "queue", "transfers out"), value(&patch, "queue", "continued"));
    assert_eq!((out, continued), (64.0, 63.0));
}

#[test]
fn a_host_that_cannot_continue_after_all_is_said_once() {
    let mut open = why("stream-rtsx", Setting::Mmcq, "rw=write bs=64k io_size=1M");
    let says = |why: &Why| why::text(why).matches("claims to continue data").count();
    assert_eq!(says(&open), 0);
    open.counters.stack.continue_lost = true;
    assert_eq!(says(&open), 1);
    assert_eq!(why::json_lines(&open).matches("claims to continue data").count(), 1);
}

fn mmcq(line: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    let output = command.current_dir(folder.path()).args(line.split_whitespace()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const JOB: &str = "-- -filename=/dev/mmcblk0 -rw=randrw -bs=8k -size=1M -name=t";

#[test]
fn the_command_prints_an_aligned_table_or_one_object_a_line() {
    let (code, table, _) = mmcq(&format!("why --platform stream-rtsx {JOB}"));
    assert_eq!(code, 0);
    let lines: Vec<&str> = table.lines().filter(|line| line.contains("each request")).collect();
    let units = lines.iter().filter(|l| !l.contains(" us ")).map(|l| l.find("each request").unwrap());
    let units: Vec<usize> = units.collect();
    assert!(units.len() > 5 && units.iter().all(|&at| at == units[0]), "{table}");
    let (code, lines, _) = mmcq(&format!("why --json --platform stream-rtsx {JOB}"));
    assert_eq!(code, 0);
    let objects: Vec<serde_json::Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let percent = |o: &serde_json::Value| o["percent"].as_f64().unwrap();
    let phases: Vec<_> = objects.iter().filter(|o| o["group"] == "time" && o["name"] != "in all").collect();
    assert_eq!(phases.len(), Phases::COUNT);
    assert!((phases.into_iter().map(percent).sum::<f64>() - 100.0).abs() < 1e-6);
    assert_eq!(objects.last().unwrap()["group"], "remark");
}

#[test]
fn bad_input_is_one_line() {
    for (line, part) in [
        (format!("why --setting fast {JOB}"), "fast"),
        (format!("why --platform hsq-spr {JOB}"), "hsq-sprd"),
        (format!("why --setting patch {JOB}"), "cannot continue"),
        ("why absent.fio".to_owned(), "absent.fio"),
    ] {
        let (code, out, error) = mmcq(&line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(error.contains(part), "{line}: {error}");
    }
}

/// Checks that the limit is not slower than any setting even in a short run, of which start and end
/// are a large part.
#[test]
fn no_setting_passes_the_limit_however_short_the_run_is() {
    let boards = [
        ("mshc-pci", &[Setting::None, Setting::HsqTag, Setting::Mmcq][..]),
        ("fifo-allwinner", &[Setting::HsqTag, Setting::HsqFifo, Setting::Mmcq]),
        ("hsq-sprd", &[Setting::None, Setting::HsqTag, Setting::Mmcq, Setting::MmcqOwn]),
        ("stm32h7-sdmmc", &[Setting::Mmcq, Setting::MmcqOwn]),
        ("stream-rtsx", &[Setting::Close, Setting::Patch, Setting::Mmcq, Setting::MmcqEarly]),
    ];
    for (board, settings) in boards {
        for rw in ["write bs=64k iodepth=4", "write bs=512k iodepth=1", "randwrite bs=64k iodepth=4"] {
            for ms in [10, 100] {
                let options = format!("rw={rw} ioengine=libaio runtime={ms}ms time_based");
                for &setting in settings {
                    let why = why(board, setting, &options);
                    let share = why.share_percent();
                    let at = format!("{board}, {}, {options}", setting.name());
                    assert!(share > 20.0 && share <= 100.0, "{share}: {at}");
                    let rate = value(&why, "rate", "this run") / value(&why, "rate", "physical limit");
                    assert!((100.0 * rate - share).abs() < 1e-6, "{rate}: {at}");
                }
            }
        }
    }
}

#[test]
fn a_request_that_others_always_pass_is_named() {
    let load = "rw=randread bs=4k size=64M iodepth=4 ioengine=libaio runtime=1s time_based";
    let said = |setting| why::text(&why("hsq-sprd", setting, load));
    let tag = said(Setting::HsqTag);
    assert!(tag.contains("starved: 1 of "), "{tag}");
    let fifo = said(Setting::HsqFifo);
    assert!(!fifo.contains("starved: "), "{fifo}");
}

#[test]
fn a_limit_by_the_cards_queue_says_so() {
    let text = "[t]\nfilename=/dev/mmcblk0\ndirect=1\nsize=1G\nrw=randread\nbs=4k\nio_size=1M\niodepth=8\n\
                ioengine=libaio\n";
    let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    let said = |platform: &str, card: &str| {
        let platform = Platform::load(platform).unwrap();
        let (card, setting) = (Some(card), Setting::Mmcq);
        let run = Run { workers: &workers, platform: &platform, card, setting, seed: 1 };
        why::text(&Why::new(&run).unwrap())
    };
    assert!(
        said("intel-jsl", "emmc-queue").contains("the physical limit goes by the card's command queue\n")
    );
    assert!(!said("hsq-sprd", "hbg4a2").contains("the physical limit goes by"));
}
