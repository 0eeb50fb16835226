//! What bring-up returns: everything about a card, or only what reads and writes need.

use super::Card;
use crate::engine::CardParams;

/// The result of a bring-up. The choice is a type, so that registers that are not kept cost no
/// memory.
pub trait Found: Sized {
    /// Makes the result for this card.
    fn of(card: Card) -> Self;

    /// Returns the card's parameters for reads and writes.
    fn params(&self) -> CardParams;

    /// Returns a number that distinguishes the card from others.
    fn number(&self) -> u32;
}

/// Only what reads and writes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    /// CID of the card.
    pub cid: [u32; 4],
    /// The card's parameters.
    pub params: CardParams,
}

impl Found for Card {
    #[inline(always)]
    fn of(card: Card) -> Card {
        card
    }

    fn params(&self) -> CardParams {
        self.params
    }

    fn number(&self) -> u32 {
        self.identity()
    }
}

impl Found for Brief {
    #[inline(always)]
    fn of(card: Card) -> Brief {
        Brief { cid: card.cid, params: card.params }
    }

    fn params(&self) -> CardParams {
        self.params
    }

    fn number(&self) -> u32 {
        0
    }
}
