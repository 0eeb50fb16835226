//! Tests of the descriptions of cases.

use mmcq_sim::faults::{Point, Shot, Strike};
use mmcq_torture::case::{Case, Cut, Luck, Visit, Wishes};
use mmcq_torture::describe::{line, run};
use mmcq_torture::machine::Keeps;
use mmcq_torture::workloads::workload;

#[test]
fn a_run_of_a_campaign_is_named_in_one_line() {
    let shots = vec![Shot { point: Point::WriteBlock, nth: 3, strike: Strike::Crc }];
    let case = Case { luck: Luck::Shots(shots), ..workload(5) };
    assert_eq!(line(&case), "sdhc-16g-hs, \"a queue that is joined\"; block written 3: wrong CRC");
    let late = Shot { point: Point::Busy, nth: 1, strike: Strike::Late(50_000) };
    let operations = workload(8).operations[..2].to_vec();
    let case = Case { luck: Luck::Always(late), operations, ..workload(8) };
    let text =
        "emmc-hs200, write durable 0+2; write 1+1 with 4 at a time; busy 1: 50 us late, and all later ones";
    assert_eq!(line(&case), text);
    let cuts = vec![Cut { at: 12, keeps: Keeps::Nothing }];
    let case = Case { cuts, visit: Some((9, Visit::Swap)), ..workload(1) };
    let text = "power cut at event 12: all that was at stake is lost; another card comes at event 9";
    assert!(line(&case).ends_with(text), "{}", line(&case));
}

#[test]
fn a_description_has_no_debug_text_and_short_lines() {
    let wishes = Wishes { faults: 0.01, cuts: 2.0, operations: 20, cards: 5, card: None };
    for seed in 0..200 {
        let text = run(&Case::draw(seed, &wishes));
        for line in text.lines() {
            assert!(line.len() <= 110, "{line}");
            assert!(!line.contains(['{', '}', '[', ']']) && !line.contains("::"), "{line}");
        }
    }
}
