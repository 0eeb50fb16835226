//! One fault never ends a bring-up, and two end this one at most.

use mmcq_torture::bring_up::{SLOTS, sweeps, table};

/// On every controller, each command, response, block and byte of a bring-up is lost, damaged or
/// late once; then two of these at random, after which the next bring-up finds the card.
#[test]
fn one_fault_ends_no_bring_up_and_two_do_not_end_the_next() {
    let rows = sweeps(&SLOTS, 2, &|_| {});
    let first: Vec<_> = rows.iter().flat_map(|(_, row)| &row.first).collect();
    let broken: u64 = rows.iter().map(|(_, row)| row.broken()).sum();
    assert_eq!(broken, 0, "{first:#?}\n{}", table(&rows));
    assert!(rows.iter().all(|(_, row)| row.runs > 100 && row.pairs > 100), "{}", table(&rows));
}
