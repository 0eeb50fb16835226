//! What the engine was told of the card, and what it knows of the way to it: parameters, abilities,
//! bus, interrupt.

use super::functions::Functions;
use super::plan::Plan;
use super::wire::Wire;
use super::{Abilities, CardParams};
use crate::host::Caps;

/// The card. Bus and functions have files of their own.
#[derive(Debug)]
pub(super) struct Card {
    target: Option<CardParams>,
    plan: Plan,
    wire: Wire,
    functions: Functions,
    abilities: Abilities,
}

impl Card {
    pub const fn none() -> Card {
        Card {
            target: None,
            plan: Plan::NONE,
            wire: Wire::UNSET,
            functions: Functions::none(),
            abilities: Abilities::UNKNOWN,
        }
    }

    /// Its parameters; `None`: there is no card, or it is not known yet.
    #[inline(always)]
    pub fn target(&self) -> &Option<CardParams> {
        &self.target
    }

    #[inline(always)]
    pub fn set_target(&mut self, target: Option<CardParams>, caps: &Caps) {
        self.target = target;
        self.plan = self.target.as_ref().map_or(Plan::NONE, |target| Plan::of(target, caps));
    }

    /// What its transfers are to the controller.
    #[inline(always)]
    pub fn plan(&self) -> &Plan {
        &self.plan
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
