//! Random writes, flushes and power cuts against a list of permitted versions of each sector. The
//! list follows the standards' contract for power cuts and does not use the model.

use std::collections::{BTreeMap, BTreeSet};

use super::emmc::card as emmc;
use super::extension;
use super::host::Host;
use super::pages::fast;
use crate::card::{Card, Kept, Stage};
use crate::faults::Faults;

type Choice = arbtest::arbitrary::Result<()>;

/// Versions that each sector may have after a power cut; `None` is a torn sector.
#[derive(Clone, Debug, Default)]
struct Permitted(BTreeMap<u64, BTreeSet<Option<u8>>>);

impl Permitted {
    /// Adds a version that the card has acknowledged and that may be only in the cache.
    fn add(&mut self, sector: u64, value: u8) {
        self.0.entry(sector).or_insert_with(|| [Some(0)].into()).insert(Some(value));
    }

    fn durable(&mut self, sector: u64, value: u8) {
        self.0.insert(sector, [Some(value)].into());
    }
}

/// Executes one random sequence of two kinds of writes and of flushes, with a power cut at any
/// time.
fn run<C: Card>(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
    make: &dyn Fn() -> Host<C>,
    flush: &dyn Fn(&mut Host<C>),
    again: &dyn Fn(&mut Host<C>),
    reliable: bool,
) -> Choice {
    let mut host = make();
    let mut permitted = Permitted::default();
    let mut last: BTreeMap<u64, u8> = BTreeMap::new();
    for sector in 0..8 {
        host.ok(24, sector);
        host.transmit(&[0; 512]);
        permitted.durable(sector.into(), 0);
        last.insert(sector.into(), 0);
    }
    flush(&mut host);
    let mut value = 0u8;
    for _ in 0..u.int_in_range(1..=12)? {
        value = value.wrapping_add(1).max(1);
        let sector = u64::from(u.int_in_range(0..=5u8)?);
        match u.int_in_range(0..=4)? {
            0 | 1 => {
                host.ok(23, 2);
                host.ok(25, sector as u32);
                host.transmit(&[value; 1024]);
                for sector in [sector, sector + 1] {
                    permitted.add(sector, value);
                    last.insert(sector, value);
                }
            }
            2 if reliable => {
                host.ok(23, 1 << 31 | 1);
                host.ok(25, sector as u32);
                host.transmit(&[value; 512]);
                permitted.durable(sector, value);
                last.insert(sector, value);
            }
            2 | 3 => {
                flush(&mut host);
                for (&sector, &value) in &last {
                    permitted.durable(sector, value);
                }
            }
            _ => host.wait(u.int_in_range(0..=30_000_000)?),
        }
    }
    // The power cut, perhaps in the middle of a write.
    if u.arbitrary()? {
        value = value.wrapping_add(1).max(1);
        host.ok(23, 2);
        host.ok(25, 3);
        host.give(&[value; 512]);
        permitted.add(3, value);
        permitted.0.entry(3).or_default().insert(None);
    }
    let mut choices = Vec::new();
    let stake = host.card.at_stake(host.now_ns);
    for what in &stake {
        choices.push(match u.int_in_range(0..=3)? {
            0 => Kept::New,
            1 if what.stage == Stage::InFlight => Kept::Torn,
            2 if what.stage == Stage::InFlight => Kept::Mixed,
            _ => Kept::Old,
        });
    }
    let mut asked = stake.iter().zip(&choices);
    host.card.cut(host.now_ns, &mut |what| {
        let (expected, choice) = asked.next().expect("no more than were at stake");
        assert_eq!(what, expected);
        *choice
    });
    assert!(asked.next().is_none(), "all were asked for");
    again(&mut host);
    for sector in 0..8u64 {
        let mut block = [0; 512];
        let read = host.card.peek(sector * 512, &mut block);
        let whole = block.iter().all(|byte| *byte == block[0]);
        let found = (read.is_ok() && whole).then_some(block[0]);
        let allowed = &permitted.0[&sector];
        assert!(allowed.contains(&found), "sector {sector}: {found:?}, permitted {allowed:?}");
    }
    Ok(())
}

#[test]
fn an_emmc_with_its_cache_on() {
    let make = || {
        let mut host = emmc("emmc-51-full");
        host.card.set_faults(Faults::none());
        assert!(host.ext_write(33, 1));
        host
    };
    crate::fuzz::fuzz("an_emmc_with_its_cache_on", 1500, |u| {
        run(
            u,
            &make,
            &|host| assert!(host.ext_write(32, 1)),
            &|host| {
                host.power_off();
                host.power_up();
                host.bring_up_emmc();
            },
            true,
        )
    });
}

#[test]
fn an_sd_card_with_its_cache_on() {
    let make = || {
        let mut host = fast("sdxc-64g-a2");
        host.card.set_faults(Faults::none());
        extension::write(&mut host, 2, 260, 1);
        host
    };
    crate::fuzz::fuzz("an_sd_card_with_its_cache_on", 1500, |u| {
        run(
            u,
            &make,
            &|host| {
                extension::write(host, 2, 261, 1);
            },
            &|host| {
                host.power_off();
                host.power_up();
                host.bring_up_sd(true);
            },
            false,
        )
    });
}

#[test]
fn without_a_cache_every_write_is_safe() {
    let make = || {
        let mut host = emmc("hbg4a2");
        host.card.set_faults(Faults::none());
        host
    };
    crate::fuzz::fuzz("without_a_cache_every_write_is_safe", 500, |u| {
        let mut host = make();
        let mut last = [0u8; 4];
        for n in 1..=u.int_in_range(1..=10u8)? {
            let sector = u.int_in_range(0..=3u32)?;
            host.ok(24, sector);
            host.transmit(&[n; 512]);
            last[sector as usize] = n;
        }
        assert!(host.card.at_stake(host.now_ns).is_empty());
        host.card.cut(host.now_ns, &mut |_| unreachable!("nothing is at stake"));
        for (sector, value) in last.iter().enumerate().filter(|(_, value)| **value > 0) {
            let mut block = [0; 512];
            host.card.peek(sector as u64 * 512, &mut block).unwrap();
            assert_eq!(block, [*value; 512]);
        }
        Ok(())
    });
}
