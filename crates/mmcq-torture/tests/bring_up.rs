//! Tests of bring-ups with faults: a single fault must not prevent a bring-up, and two faults must
//! not prevent the next one.

use crate::campaigns::tried;
use mmcq_torture::bring_up::table;

/// Checks bring-ups on every controller. Each command, response and block, and one byte in seven on
/// an SPI bus, is lost, damaged or late in one of the bring-ups. Then random pairs of such faults
/// strike, after which the next bring-up must find the card.
#[test]
fn one_fault_ends_no_bring_up_and_two_do_not_end_the_next() {
    let rows = &tried().bring_ups;
    let first: Vec<_> = rows.iter().flat_map(|(_, row)| &row.first).collect();
    let broken: u64 = rows.iter().map(|(_, row)| row.broken()).sum();
    assert_eq!(broken, 0, "{first:#?}\n{}", table(rows));
    assert!(rows.iter().all(|(_, row)| row.runs > 100 && row.pairs > 100), "{}", table(rows));
}
