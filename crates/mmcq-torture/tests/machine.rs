//! Tests of what a power cut may leave of each sector.

use mmcq_sim::card::{AtStake, Stage};
use mmcq_torture::machine::Keeps;
use std::collections::BTreeSet;

#[test]
fn every_way_of_every_sector_is_among_the_choices() {
    let version = |seq, sector, stage| AtStake { partition: 0, sector, seq, stage, reliable: false };
    let at_stake = [
        version(1, 7, Stage::Cached),
        version(2, 8, Stage::Cached),
        version(3, 7, Stage::Cached),
        version(4, 7, Stage::InFlight),
        version(5, 8, Stage::InFlight),
        version(6, 9, Stage::InFlight),
    ];
    let choices = Keeps::choices(&at_stake);
    assert_eq!((choices, Keeps::choices(&[])), (2 * 2 * 4, 1));
    for (sector, ways) in [(7, 16), (8, 8), (9, 4)] {
        let of = |choice| {
            let own = at_stake.iter().filter(|what| what.sector == sector);
            own.map(|what| Keeps::Choice(choice).of(what, &at_stake)).collect::<Vec<_>>()
        };
        assert_eq!((0..choices).map(of).collect::<BTreeSet<_>>().len(), ways);
    }
}
