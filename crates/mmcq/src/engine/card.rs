//! What the engine was told of the card, and what it knows of the way to it: parameters, abilities,
//! bus, interrupt.

use super::functions::Functions;
use super::wire::Wire;
use super::{Abilities, CardParams};

/// The card. Bus and functions have files of their own.
#[derive(Debug)]
pub(super) struct Card {
    target: Option<CardParams>,
    wire: Wire,
    functions: Functions,
    abilities: Abilities,
}

impl Card {
    pub const fn none() -> Card {
        Card { target: None, wire: Wire::UNSET, functions: Functions::none(), abilities: Abilities::UNKNOWN }
    }

    /// Its parameters; `None`: there is no card, or it is not known yet.
    #[inline(always)]
    pub fn target(&self) -> &Option<CardParams> {
        &self.target
    }

    #[inline(always)]
    pub fn set_target(&mut self, target: Option<CardParams>) {
        self.target = target;
    }

    /// It says that it knows CMD23, or the controller does, and that is not so.
    pub fn do_not_count(&mut self) {
        if let Some(target) = &mut self.target {
            target.count = false;
        }
    }

    /// What it can besides reading and writing.
    #[inline(always)]
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    pub fn set_abilities(&mut self, abilities: Abilities) {
        self.abilities = abilities;
    }

    #[inline(always)]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    #[inline(always)]
    pub fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
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
