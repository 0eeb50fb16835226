//! Random cases on a card in SPI mode. Bits on either data line flip, bytes are lost, and the card
//! sees a clock too many or too few. Transfers stay open as on a card reader.
//!
//! Faults of the medium, dips of the supply, and false bits in the card's status are left out:
//! [`streams`] says why. Cards are not removed or inserted, since an SPI bus has no card detection.

use super::case::{Case, Host, Luck};
use super::score::Score;
use super::spread::{Share, until};
use super::streams;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Faults that strike single bytes on the bus.
const STRIKES: [Strike; 5] =
    [Strike::Flip(3), Strike::Flip(11), Strike::Lost, Strike::Astray(1), Strike::Astray(-1)];
/// Divisor of the probability of faults of single bytes, since a block has some 520 bytes and each
/// can be struck.
const SELDOM: f64 = 300.0;
/// Share of the cases in which faults strike single bytes.
const SHARE: f64 = 0.5;

/// Executes random cases with a card in SPI mode, until they have had the wanted number of
/// requests, or until the stack has broken too many promises (its guarantees about data and
/// answers). Calls `progress` with the number of requests of each case.
pub fn spi(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the random case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let mut case = streams::draw_on(Host::Spi, seed);
    let random = &mut Stream::new(seed, "spi");
    case.setup.access_ns = 0;
    case.visit = None;
    if let Luck::Chances(_, chances) = &mut case.luck
        && random.chance(SHARE)
    {
        let strike = STRIKES[random.below(STRIKES.len() as u64) as usize];
        chances.push((Point::Exchange, strike, streams::FAULTS / SELDOM));
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CARDS;

    #[test]
    fn every_card_has_an_spi_mode_and_stays() {
        let cases: Vec<_> = (0..200).map(draw).collect();
        assert!(cases.iter().all(|case| case.visit.is_none()));
        let cards: Vec<_> = cases.iter().map(|case| CARDS[case.setup.card]).collect();
        assert!(cards.iter().all(|card| card.starts_with("sd")), "{cards:?}");
        assert!(cards.contains(&"sdsc-1g") && cards.contains(&"sdhc-16g-hs"));
    }
}
