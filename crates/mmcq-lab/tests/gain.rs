//! Tests the gains of other stacks on a board: the interval contains the gain, its ends are gains
//! of real runs, the deciding value is the right one, and all output formats agree.

use crate::job_folder::JobFolder;
use mmcq_lab::gain::{Answer, Basis, Cell, Decides, Gain, Question, Uncertain, load};
use mmcq_lab::runner::Setting;
use serde_json::Value;
use std::process::{Command, Output};

fn question(platform: &str, card: Option<&str>, depths: &[u32], settings: &[Setting]) -> Question {
    Question {
        platform: platform.to_owned(),
        card: card.map(str::to_owned),
        set: Vec::new(),
        seed: 1,
        settings: settings.to_vec(),
        loads: load::usual(depths, 300).unwrap(),
        given: Vec::new(),
        has_intervals: true,
        threads: 2,
    }
}

fn ask(question: &Question) -> Answer {
    question.ask(&mut |_, _| ()).unwrap()
}

fn gain(cell: &Cell, setting: Setting) -> &Gain {
    cell.gains.iter().find(|gain| gain.setting == setting).unwrap()
}

/// Returns the value that decides this gain.
fn decides<'a>(gain: &Gain, answer: &'a Answer) -> &'a Uncertain {
    match gain.decides(answer) {
        Some(Decides::Value(value)) => value,
        other => panic!("{other:?}"),
    }
}

const STACKS: [Setting; 3] = [Setting::None, Setting::HsqTag, Setting::MmcqOwn];

#[test]
fn the_interval_has_the_gain_and_its_ends_are_runs() {
    let mut question = question("hsq-sprd", None, &[4], &STACKS);
    question.loads.retain(|load| !load.is_durable);
    let answer = ask(&question);
    assert_eq!(answer.cells.len(), 2);
    let mut moved = 0;
    for cell in &answer.cells {
        assert_eq!((cell.gains[0].percent, cell.gains[0].ends), (0.0, [0.0; 2]), "against itself");
        for gain in &cell.gains[1..] {
            assert!(gain.percent > 5.0 && gain.ends[0] < gain.percent && gain.percent < gain.ends[1]);
            let widths: Vec<f64> = gain.effects.iter().map(|effect| effect.width_percent).collect();
            assert!(widths.is_sorted_by(|a, b| a >= b), "{widths:?}");
            moved += gain.effects.len();
        }
    }
    assert!(moved > 10, "{moved}");
    // Runs with the deciding value set to each end of its range must give the same gains.
    let first = gain(&answer.cells[0], Setting::HsqTag);
    let (effect, value) = (first.effects[0], decides(first, &answer));
    for end in [0, 1] {
        let set = vec![value.change(value.ends[end])];
        let alone = ask(&Question { set, has_intervals: false, ..question.clone() });
        let percent = gain(&alone.cells[0], Setting::HsqTag).percent;
        assert_eq!(Some(percent), effect.percent[end], "{}", value.key);
        assert_ne!(percent, first.percent);
        assert_eq!(gain(&alone.cells[0], Setting::HsqTag).ends, [percent; 2]);
    }
    // The answer does not depend on the number of threads.
    assert_eq!(ask(&Question { threads: 1, ..question }), answer);
}

#[test]
fn the_value_that_was_made_to_decide_is_named() {
    let settings = [Setting::None, Setting::LinuxCqe, Setting::Auto];
    let mut reads = question("intel-jsl", Some("emmc-queue"), &[32], &settings);
    reads.loads.truncate(1);
    let answer = ask(&reads);
    for setting in [Setting::LinuxCqe, Setting::Auto] {
        let gain = gain(&answer.cells[0], setting);
        let decides = decides(gain, &answer);
        // A count varies by one to both sides.
        assert_eq!((decides.key.as_str(), decides.ends), ("card.queue.units", [2.0, 4.0]));
        assert!(gain.ends[1] - gain.ends[0] > 100.0, "{:?}", gain.ends);
    }
    // If the number of units is not known at all, the interval becomes wider. If it is known
    // exactly, it decides nothing.
    let given = vec!["card.queue.units=1..4".parse().unwrap()];
    let wide = ask(&Question { given, ..reads.clone() });
    let (wide, before) = (gain(&wide.cells[0], Setting::Auto), gain(&answer.cells[0], Setting::Auto));
    assert!(wide.ends[0] < before.ends[0] && wide.ends[1] == before.ends[1]);
    let known = ask(&Question { set: vec!["card.queue.units=3".to_owned()], ..reads.clone() });
    assert!(!known.values.iter().any(|value| value.key == "card.queue.units"));
    assert!(gain(&known.cells[0], Setting::Auto).ends[1] < before.percent * 1.2);
    // If the wake-up time is not known, it decides the gain of a queue that needs no wake-ups.
    let mut writes = question("hsq-sprd", None, &[8], &STACKS);
    writes.loads.retain(|load| load.name == "random writes of 4 KiB");
    writes.given = vec!["cost.wake_us=1..200".parse().unwrap()];
    let answer = ask(&writes);
    let decides = decides(gain(&answer.cells[0], Setting::HsqTag), &answer);
    assert_eq!((decides.key.as_str(), decides.basis), ("cost.wake_us", Basis::Given));
}

#[test]
fn linux_by_the_queue_engine_gains_what_the_guest_says() {
    // Figures of unmodified Linux in docs/original.md, "A card with a queue of its own": random
    // reads in us per 4 KiB, and writes with fdatasync per second. Each pair has the depth, and the
    // gain of the queue engine over Linux without it.
    let reads = [(1, 205.5 / 199.3), (8, 174.3 / 52.3), (32, 169.7 / 50.1)];
    let durable = [(1, 1748.0 / 1461.0), (8, 5040.0 / 3475.0), (32, 11871.0 / 6319.0)];
    let settings = [Setting::None, Setting::LinuxCqe];
    let mut asked = question("intel-jsl", Some("emmc-queue"), &[1, 8, 32], &settings);
    asked.loads = load::usual(&[1, 8, 32], 1500).unwrap();
    asked.loads.retain(|load| load.is_durable || load.name == "random reads of 4 KiB");
    asked.has_intervals = false;
    let answer = ask(&asked);
    for (cell, (depth, of_guest)) in answer.cells.iter().zip(reads.into_iter().chain(durable)) {
        let gain = 1.0 + gain(cell, Setting::LinuxCqe).percent / 100.0;
        assert_eq!(cell.depth, Some(depth));
        assert!((gain / of_guest - 1.0).abs() < 0.15, "{}: {gain:.3}, {of_guest:.3}", cell.title);
    }
}

#[test]
fn the_interval_has_what_linux_itself_gains() {
    // Rates of unmodified Linux in docs/original.md. Through its software queue, 32 jobs do 4540
    // flushes per second.
    let settings = [Setting::None, Setting::HsqTag, Setting::LinuxCqe];
    let mut asked = question("intel-jsl", Some("emmc-queue"), &[32], &settings);
    asked.loads = load::usual(&[32], 1500).unwrap();
    asked.loads.retain(|load| load.is_durable);
    // A single value is varied, and only very little.
    asked.given = vec!["cost.job_wake_us=20..20.1".parse().unwrap()];
    asked.set = known(&ask(&Question { has_intervals: true, ..asked.clone() }));
    let answer = ask(&asked);
    for (setting, itself) in [(Setting::HsqTag, 4540.0 / 6319.0), (Setting::LinuxCqe, 11871.0 / 6319.0)] {
        let gain = gain(&answer.cells[0], setting);
        let itself = 100.0 * (itself - 1.0);
        assert!(matches!(gain.decides(&answer), Some(Decides::StandIn)), "{:?}", gain.effects);
        let [low, high] = gain.ends;
        // The model is off by 1 % of its own since the figure was taken.
        assert!(low - 1.0 < itself && itself < high + 1.0, "{setting:?}: {itself} in {low} to {high}");
        assert!(high - low > 15.0);
    }
}

/// Returns changes that make all values known except the value whose range the user gave.
fn known(answer: &Answer) -> Vec<String> {
    let others = answer.values.iter().filter(|value| value.basis != Basis::Given);
    others.map(|value| value.change(value.value)).collect()
}

struct Folder(JobFolder);

impl Folder {
    fn new() -> Self {
        let job =
            "[mine]\nfilename=/dev/mmcblk0\nrw=randwrite\nbs=4k\nsize=512k\ndirect=1\nioengine=libaio\n";
        Folder(JobFolder::new(job))
    }

    fn mmcq(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.folder()).args(line.split_whitespace()).output().unwrap()
    }

    fn well(&self, line: &str) -> String {
        let output = self.mmcq(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, line: &str, part: &str) {
        let output = self.mmcq(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
        assert!(said.contains(part) && output.stdout.is_empty(), "{line}: {said}");
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn table_json_and_page_say_the_same() {
    let folder = Folder::new();
    let line = "compare --platform hsq-sprd --load job.fio --settings none,mmcq,cqe -q";
    let text = folder.well(&format!("{line} --report answer.html"));
    let rows = lines(&folder.well(&format!("{line} --json")));
    let page = std::fs::read_to_string(folder.0.path("answer.html")).unwrap();
    let of = |what: &str| rows.iter().filter(|row| row["what"] == what).cloned().collect::<Vec<_>>();
    let gains = of("gain");
    // The job as it is, and with a flush after each write, each with two settings.
    assert_eq!(gains.len(), 4);
    assert_eq!(
        gains.iter().map(|row| row["durable"] == true).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    for row in gains.iter().filter(|row| row["setting"] == "mmcq") {
        let number = |name: &str| row[name].as_f64().unwrap();
        let (low, percent, high) = (number("low_percent"), number("gain_percent"), number("high_percent"));
        assert!(low <= percent && percent <= high && low < high, "{row}");
        assert!(number("p99_us") > 0.0 && number("cpu_us_per_io") > 0.0 && number("cpu_share") < 1.0);
        let key = row["decided_by"].as_str().unwrap();
        let said = [
            format!("{percent:+.1} %"),
            format!("{low:+.1} to {high:+.1} %"),
            key.rsplit(['.', ' ']).next().unwrap().to_owned(),
            format!("{:.0}", number("iops")),
        ];
        for part in &said {
            assert!(text.contains(part) && page.contains(part), "{part}: {text}");
        }
        // Values on which the gain depends, with their ranges.
        let effects = of("effect");
        let widest = effects.iter().find(|e| e["load"] == row["load"] && e["setting"] == "mmcq").unwrap();
        if key == "the stand-in" {
            assert!(
                row["durable"] == true
                    && number("stand_in_percent") > widest["width_percent"].as_f64().unwrap()
            );
            continue;
        }
        assert_eq!(widest["key"], row["decided_by"]);
        let value = of("value").into_iter().find(|value| value["key"] == row["decided_by"]).unwrap();
        assert_eq!((&value["low"], &value["high"]), (&widest["low"], &widest["high"]));
        assert_eq!(value["is_prior"], widest["is_prior"]);
        let priors = effects
            .iter()
            .any(|e| e["load"] == row["load"] && e["setting"] == "mmcq" && e["is_prior"] == true);
        assert_eq!(row["hangs_on_priors"], priors);
    }
    // A setting that cannot run has a reason.
    let refused = of("not run");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0]["why"].as_str().unwrap().starts_with("cqe: card hbg4a2: no command queue"));
    assert!(text.contains("not run: cqe: ") && page.contains("not run: cqe: "));
    assert!(text.contains("Linux without a request queue for cards, as 6.1"));
    assert!(text.lines().all(|line| line.chars().count() <= 100 || line.starts_with("not run")), "{text}");
    assert!(page.len() < 500_000 && page.matches("<script").count() == 1);
}

#[test]
fn what_is_wrong_is_one_line() {
    let folder = Folder::new();
    let expected = "expected KEY=LEAST..MOST, the least below the most";
    folder.refused("compare --platform hsq-sprd --range cost.irq_us=9..3", "9 is not below 3");
    folder.refused("compare --platform hsq-sprd --range cost.irq_us=x", expected);
    folder.refused(
        "compare --platform hsq-sprd --range cost.irk_us=1..3",
        "--range cost.irk_us=1..3: no such key; the nearest is cost.irq_us",
    );
    folder.refused("compare --platform hsq-sprd --range busy=1..3", "busy is no number");
    folder.refused("compare --platform nothing", "platform nothing: unknown");
    folder.refused("compare --platform hsq-sprd --card nothing", "card nothing: unknown");
    folder.refused("compare --platform hsq-sprd --depth 0", "expected a whole number from 1 to 1024");
    folder.refused("compare --platform hsq-sprd --settings no", "setting no: unknown");
    folder.refused("compare --platform hsq-sprd --settings cqe", "no command queue");
    folder.refused("compare", "expected two reports, A and B, or --platform BOARD");
    folder.refused("compare a.json", "required");
    folder.refused("compare a.json b.json --platform hsq-sprd", "cannot be used with");
    folder.refused("compare a.json b.json --depth 8", "cannot be used with");
    let board = |name: &str, part: &str| {
        let text = format!(
            "description = \"x\"\nextends = \"hsq-sprd\"\n[cost]\n\
             irq_us = {{ value = 2, kind = \"prior\", source = \"x\", {part} }}\n"
        );
        std::fs::write(folder.0.path(name), text).unwrap();
    };
    board("range.toml", "range = [5, 3]");
    board("interval.toml", "interval = [5, 3]");
    // The value, 2, is in neither.
    board("outside.toml", "range = [5, 6]");
    board("beyond.toml", "interval = [0.5, 1]");
    folder
        .refused("compare --platform range.toml", "irq_us: range = [5, 3]; expected the least and the most");
    folder.refused("compare --platform interval.toml", "irq_us: interval = [5, 3]; expected the least");
    folder.refused(
        "compare --platform outside.toml",
        "irq_us: range = [5, 6]; expected the least and the most, with 2",
    );
    folder.refused(
        "compare --platform beyond.toml",
        "irq_us: interval = [0.5, 1]; expected the least and the most",
    );
}

fn own(job: &str, depths: &[u32]) -> Vec<load::Load> {
    let text = format!("[a]\nfilename=/dev/mmcblk0\nbs=4k\nsize=64k\ndirect=1\n{job}\n");
    let file = mmcq_lab::fio::parse_text("own", text.as_bytes(), &mmcq_lab::fio::System).unwrap();
    load::own("own", &file, &[], depths).unwrap()
}

#[test]
fn a_load_whose_writes_are_synchronous_gets_no_second_flush() {
    let loads = own("rw=randwrite\nsync=1", &[]);
    assert_eq!((loads.len(), loads[0].is_durable), (1, true), "{:?}", loads[0].title());
    assert_eq!(loads[0].kind(), mmcq_lab::gain::Kind::Flushes);
    assert_eq!(own("rw=randwrite", &[]).len(), 2);
}

#[test]
fn the_interval_of_an_own_load_is_that_of_its_depth() {
    // Unmodified Linux differs from the stand-in by another share at 32 flushed jobs than at one.
    let ask_own = |job: &str, depths: &[u32]| {
        let mut question = question("intel-jsl", Some("emmc-queue"), &[], &[Setting::None, Setting::HsqTag]);
        question.loads = own(job, depths);
        question.given = vec!["cost.job_wake_us=20..20.1".parse().unwrap()];
        question.set = known(&ask(&question));
        gain(&ask(&question).cells[0], Setting::HsqTag).clone()
    };
    let of_job = ask_own("rw=randwrite\nfsync=1\nnumjobs=32", &[]);
    let of_depth = ask_own("rw=randwrite\nfsync=1", &[32]);
    assert_eq!((of_job.percent, of_job.ends), (of_depth.percent, of_depth.ends));
    assert_eq!(of_job.stand_in_percent, of_depth.stand_in_percent);
    let in_turn = ask_own(
        "rw=randwrite\nfsync=1\nstonewall\n[b]\nrw=randwrite\nbs=4k\nsize=64k\nstonewall\nfsync=1",
        &[],
    );
    let ratio = |gain: &Gain| 1.0 + gain.stand_in_percent / (100.0 + gain.percent);
    assert!(ratio(&of_job) > 1.3 && ratio(&in_turn) < 1.1, "{} {}", ratio(&of_job), ratio(&in_turn));
}

#[test]
fn a_depth_that_did_not_run_is_named() {
    let folder = Folder::new();
    let job = std::fs::read_to_string(folder.0.path("job.fio")).unwrap();
    std::fs::write(folder.0.path("waits.fio"), job.replace("ioengine=libaio\n", "rw=randread\n")).unwrap();
    let line = "compare --platform hsq-sprd --settings none,mmcq --no-interval --depth 1,8 --load";
    let said = |file: &str| String::from_utf8(folder.mmcq(&format!("{line} {file}")).stderr).unwrap();
    let text = said("waits.fio");
    assert_eq!(
        (text.lines().count(), text.contains("job 'mine': iodepth=8 has no effect")),
        (1, true),
        "{text}"
    );
    assert_eq!(said("job.fio"), "");
}

#[test]
fn a_change_of_a_usual_load_that_would_not_be_what_its_name_says_is_refused() {
    let folder = Folder::new();
    for change in ["rw=write", "bs=64k", "iodepth=4", "numjobs=2", "sync=1", "fsync=1", "readwrite=read"] {
        let line = format!("compare --platform hsq-sprd --no-interval --set job.{change}");
        folder.refused(&line, &format!("--set job.{change}: the usual loads are named by their "));
        folder.refused(&line, "expected --load JOB.fio");
    }
}

#[test]
fn a_changed_load_of_the_user_is_named_by_what_runs() {
    let folder = Folder::new();
    let line = "compare --platform hsq-sprd --card emmc-queue --settings none,mmcq --no-interval --json -q";
    let job =
        "--name=a --filename=/dev/mmcblk0 --rw=randwrite --bs=4k --size=256k --direct=1 --ioengine=libaio";
    let gains = |more: &str| -> Vec<Value> {
        let rows = lines(&folder.well(&format!("{line} {more} -- {job}")));
        rows.into_iter().filter(|row| row["what"] == "gain" && row["setting"] == "mmcq").collect()
    };
    // With a flush after each write, there is no second load with one.
    let flushed = gains("--set job.fsync=1");
    assert_eq!(flushed.iter().map(|row| row["durable"] == true).collect::<Vec<_>>(), [true]);
    // A depth that is asked for is the one that runs.
    let [deep, _] = &gains("--set job.iodepth=1 --depth 8")[..] else { panic!("two loads") };
    let [same, _] = &gains("--depth 8")[..] else { panic!("two loads") };
    assert_eq!(deep["iops"], same["iops"]);
}
