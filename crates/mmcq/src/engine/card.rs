//! What the engine knows of the card: parameters, abilities, number, functions, and how to send
//! transfers.

use super::functions::Functions;
use super::plan::Plan;
use super::{Abilities, CardParams, Error, Kind};
use crate::host::Caps;
use crate::spec::quirks::Quirks;

/// Number of a card in a card slot. A request for one card never reaches another.
///
/// The number changes when the card has been taken out, and when bring-up finds a card with another
/// CID or CSD than the one before. A card that only lost contact for a moment, or its power, keeps
/// its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardNumber(u16);

impl CardNumber {
    /// The number that means any card in the card slot.
    pub const ANY: CardNumber = CardNumber(0);
    const FIRST: CardNumber = CardNumber(1);
    /// The number that means no card: requests with this number reach no card.
    const NONE: CardNumber = CardNumber(u16::MAX);

    #[inline(always)]
    fn is_any(self) -> bool {
        self.0 == 0
    }

    fn next(self) -> CardNumber {
        if self.0 >= CardNumber::NONE.0 - 1 { CardNumber::FIRST } else { CardNumber(self.0 + 1) }
    }
}

/// The engine's knowledge of the card. The bus and the functions are in files of their own.
#[derive(Debug)]
pub(super) struct Card {
    target: Option<CardParams>,
    plan: Plan,
    functions: Functions,
    abilities: Abilities,
    number: CardNumber,
    /// Number that stands for the card that was seen last, made from its registers; `None`: no card
    /// was seen.
    identity: Option<u32>,
    /// Whether the card that was seen last has been taken out since.
    left: bool,
}

impl Card {
    pub const fn new() -> Card {
        Card {
            target: None,
            plan: Plan::NONE,
            functions: Functions::new(),
            abilities: Abilities::UNKNOWN,
            number: CardNumber::FIRST,
            identity: None,
            left: false,
        }
    }

    /// Returns the card's parameters; `None`: there is no card, or it is not known yet.
    #[inline(always)]
    pub fn target(&self) -> &Option<CardParams> {
        &self.target
    }

    /// Returns whether each block is written by a command of its own.
    #[inline(always)]
    pub fn writes_singly(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.quirks.has(Quirks::NO_MULTIPLE_WRITE))
    }

    #[inline(always)]
    pub fn set_target(&mut self, target: Option<CardParams>, caps: &Caps) {
        self.target = target;
        self.plan = self.target.as_ref().map_or(Plan::NONE, |target| Plan::of(target, caps));
    }

    #[inline(always)]
    pub fn number(&self) -> CardNumber {
        self.number
    }

    /// Returns whether a request for the card with this number is for the present card.
    #[inline(always)]
    pub fn is_meant(&self, number: CardNumber) -> bool {
        number.is_any() || number == self.number
    }

    /// Returns the reason why a request that is not for the present card is refused.
    #[cold]
    pub fn why_not_meant(&self, kind: &Kind) -> Error {
        // A card without memory has no parameters.
        let away = if matches!(kind, Kind::Io { .. }) { self.left } else { self.target.is_none() };
        if away { Error::NoCard } else { Error::Changed }
    }

    /// Returns the number of the card with this identity, if that card is in the card slot;
    /// otherwise a number that no card has.
    pub fn number_of(&self, identity: u32) -> CardNumber {
        // Without a known identity, a program has brought its card up by its own means.
        let same = self.identity.is_none_or(|seen| seen == identity) && !self.left;
        if same { self.number } else { CardNumber::NONE }
    }

    /// Records that a card with this identity (a number made from its CID and CSD) was brought up
    /// in the slot. If the identity differs from the last one, the card gets a new [`CardNumber`].
    /// Returns whether its number differs from that of the card before.
    pub fn identify(&mut self, identity: u32) -> bool {
        let differs = !self.left && self.identity.is_some_and(|seen| seen != identity);
        let is_next = self.left || differs;
        if differs {
            self.number = self.number.next();
        }
        (self.identity, self.left) = (Some(identity), false);
        // After a bring-up no function may interrupt yet.
        self.functions.hear(false);
        is_next
    }

    /// Notes that the card has been taken out.
    pub fn leave(&mut self) {
        if !self.left && self.identity.is_some() {
            self.number = self.number.next();
            self.left = true;
        }
    }

    /// Returns the plan: how transfers are sent to this card.
    #[inline(always)]
    pub fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns what the card can do in addition to reads and writes.
    #[inline(always)]
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    pub fn set_abilities(&mut self, abilities: Abilities) {
        self.abilities = abilities;
    }

    #[inline(always)]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    #[inline(always)]
    pub fn functions_mut(&mut self) -> &mut Functions {
        &mut self.functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_card_has_another_number() {
        let mut card = Card::new();
        let first = card.number();
        card.identify(7);
        card.identify(7);
        assert!(card.number() == first && card.is_meant(first) && card.is_meant(CardNumber::ANY));
        card.identify(8);
        let second = card.number();
        assert!(second != first && !card.is_meant(first));
        // The same card, but taken out meanwhile: its content may have changed.
        card.leave();
        card.leave();
        let third = card.number();
        card.identify(8);
        assert!(third != second && card.is_meant(third) && !card.is_meant(second));
        assert!(card.number_of(8) == third && !card.is_meant(card.number_of(7)));
    }

    #[test]
    fn no_number_is_any_card_or_none() {
        let last = CardNumber(u16::MAX - 1);
        assert_eq!((last.next(), CardNumber(7).next()), (CardNumber::FIRST, CardNumber(8)));
    }
}
