//! Tests of the exhaustive campaign's programs.

use mmcq_torture::exhaustive::{program, programs};

#[test]
fn programs_are_counted_and_all_different() {
    assert_eq!((programs(1), programs(2), programs(4)), (6, 42, 1554));
    let mut all: Vec<String> = (0..programs(3)).map(|n| format!("{:?}", program(n))).collect();
    assert_eq!(program(5).len(), 1);
    assert_eq!((program(6).len(), program(41).len(), program(42).len()), (2, 2, 3));
    all.sort();
    all.dedup();
    assert_eq!(all.len() as u64, programs(3));
}
