//! One fault never ends a bring-up.

use mmcq_torture::bring_up::{SLOTS, sweeps, table};

/// On every controller, each command, response, block and byte of a bring-up is lost, damaged or
/// late once.
#[test]
fn one_fault_ends_no_bring_up() {
    let rows = sweeps(&SLOTS, 2, &|_| {});
    let first: Vec<_> = rows.iter().flat_map(|(_, row)| &row.first).collect();
    let broken: u64 = rows.iter().map(|(_, row)| row.broken()).sum();
    assert_eq!(broken, 0, "{first:#?}\n{}", table(&rows));
    assert!(rows.iter().all(|(_, row)| row.runs > 100), "{}", table(&rows));
}
