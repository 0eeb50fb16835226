//! Tests that follow requests of several steps: each result that comes in, and the step that
//! follows.

extern crate std;
use super::super::card::Card;
use super::super::{CardParams, Erase, Erasing, FlushBy, Kind, PartitionAccess};
use super::*;
use crate::host::Caps;
use crate::spec::command::sd::Extension;
use std::format;
use std::string::String;

fn card(params: CardParams, erase: Erasing) -> Card {
    let mut card = Card::new();
    card.set_target(Some(params), &Caps::NONE);
    card.set_abilities(Abilities { erase, ..Abilities::UNKNOWN });
    card
}

fn slot(kind: Kind) -> Slot {
    let mut slot = Slot::NEW;
    slot.set_kind(kind);
    slot
}

/// Returns a step as a short text, which the tests compare.
fn said(next: &Next) -> String {
    match next {
        Next::Command(place, command) => format!("{place:?}: CMD{} {:#x}", command.index, command.arg),
        Next::Order(place, command, ns) => {
            format!("{place:?}: CMD{} {:#x}, {} ms", command.index, command.arg, ns / 1_000_000)
        }
        Next::Data { place, command, data, changes, .. } => {
            let changes = if *changes { ", changes" } else { "" };
            format!("{place:?}: CMD{} {:#x}, {} blocks{changes}", command.index, command.arg, data.blocks)
        }
        Next::Pause(place, ns) => format!("{place:?}: pause of {} ms", ns / 1_000_000),
        other => format!("{other:?}"),
    }
}

#[test]
fn an_erase_goes_in_pieces_that_grow_while_they_are_quick() {
    const BUDGET_NS: u64 = 100_000_000;
    let erase = Erasing { kinds: 1, unit_blocks: 8, erase_ms: 100, ..Erasing::NONE };
    let card = card(CardParams::sd(1, 1 << 20), erase);
    let mut slot = slot(Kind::Erase { lba: 4, blocks: 40, how: Erase::Erase });
    let mut round = Round::NONE;
    assert_eq!(said(&round.begin(&slot, &card, BUDGET_NS)), "EraseStart: CMD32 0x4");
    assert_eq!(said(&round.reached(Place::EraseStart, 0, &slot, &card)), "EraseEnd: CMD33 0x7");
    assert_eq!(said(&round.reached(Place::EraseEnd, 0, &slot, &card)), "Erase: CMD38 0x0, 1000 ms");
    assert_eq!(said(&round.reached(Place::Erase, 0, &slot, &card)), "Erased");
    slot.set_moved(round.learn(BUDGET_NS / 10, BUDGET_NS));
    // Two units from now on.
    assert_eq!(said(&round.begin(&slot, &card, BUDGET_NS)), "EraseStart: CMD32 0x8");
    assert_eq!(said(&round.reached(Place::EraseStart, 0, &slot, &card)), "EraseEnd: CMD33 0x17");
    assert_eq!(said(&round.reached(Place::EraseEnd, R1::WP_VIOLATION, &slot, &card)), "End(Err(Protected))");
    slot.set_moved(40);
    assert_eq!(
        said(&round.begin(&slot, &card, BUDGET_NS)),
        format!("{:?}", Next::End(Ok(Output { bytes: 40 * 512, ..Output::default() })))
    );
}

#[test]
fn a_secure_trim_has_two_rounds_and_each_begins_with_its_argument() {
    let erase = Erasing {
        kinds: Erasing::SECURE_TRIM,
        emmc: true,
        unit_blocks: 8,
        argument_byte: 95,
        secure_trim_ms: 50,
        ..Erasing::NONE
    };
    let params = CardParams { emmc: true, ..CardParams::sd(1, 1 << 20) };
    let (card, how) = (
        card(params, erase),
        Erase::SecureTrim(super::super::Irreversible::i_know_that_this_cannot_be_undone()),
    );
    let slot = slot(Kind::Erase { lba: 0, blocks: 8, how });
    let mut round = Round::NONE;
    let mut next = round.begin(&slot, &card, 0);
    for argument in [0x8000_0001_u32, 0x8000_8000] {
        assert!(said(&next).starts_with("EraseArgument: CMD6 0x35f"), "{}", said(&next));
        for (place, expected) in
            [(Place::EraseArgument, "EraseStart: CMD35 0x0"), (Place::EraseStart, "EraseEnd: CMD36 0x7")]
        {
            assert_eq!(said(&round.reached(place, 0, &slot, &card)), expected);
        }
        let erases = said(&round.reached(Place::EraseEnd, 0, &slot, &card));
        assert_eq!(erases, format!("Erase: CMD38 {argument:#x}, 1000 ms"));
        next = round.reached(Place::Erase, 0, &slot, &card);
    }
    assert_eq!(said(&next), "Erased");
}

#[test]
fn an_access_switches_counts_and_moves_until_its_transfers_are_done() {
    let card = card(CardParams { emmc: true, ..CardParams::sd(1, 1 << 20) }, Erasing::NONE);
    let visit = PartitionAccess {
        config: 0x0b,
        switch_ns: 30_000_000,
        lba: 0,
        out: 1,
        reliable: true,
        ask: true,
        back: 1,
    };
    let slot = slot(Kind::PartitionAccess(visit));
    let caps = Caps { no_count: false, max_blocks: 8, max_bytes: 4096, ..Caps::NONE };
    let mut memory = Memory::new();
    assert_eq!(said(&memory.begin_visit(visit, &card, &caps)), "Enter: CMD6 0x3b30b00, 30 ms");
    assert!(!memory.area().is_user());
    for (place, expected) in [
        (Place::Enter, "Count: CMD23 0x80000001"),
        (Place::Count, "Move: CMD25 0x0, 1 blocks"),
        (Place::Move, "Count: CMD23 0x1"),
        (Place::Count, "Move: CMD25 0x0, 1 blocks"),
        (Place::Move, "Count: CMD23 0x1"),
        (Place::Count, "Move: CMD18 0x0, 1 blocks"),
    ] {
        assert_eq!(said(&memory.visit_reached(place, 0, &slot, card.plan())), expected);
    }
    let bytes = 3 * 512;
    let end = Next::End(Ok(Output { bytes, ..Output::default() }));
    assert_eq!(said(&memory.visit_reached(Place::Move, 0, &slot, card.plan())), format!("{end:?}"));
    // The card is still in the partition: the next access does not switch.
    assert_eq!(said(&memory.begin_visit(visit, &card, &caps)), "Count: CMD23 0x80000001");
    assert_eq!(said(&memory.area_mut().return_to_user()), "Return: CMD6 0x3b30800, 30 ms");
}

#[test]
fn a_flush_by_register_asks_until_its_time_is_over() {
    const LIMIT_NS: u64 = 1_000_000_000;
    let at = Extension { io: false, function: 2, page: 0, offset: 260 };
    let flush = FlushBy::SdCache { at, timeout_ns: LIMIT_NS };
    let card = card(CardParams { flush, ..CardParams::sd(1, 1 << 20) }, Erasing::NONE);
    let mut memory = Memory::new();
    // The engine has no page.
    let begun = memory.begin_register_flush(at, 7);
    assert_eq!(said(&begun), "End(Err(Buffer { needed: 512, given: 0 }))");
    let reached = |place, status, now_ns| said(&memory.register_flush_reached(place, status, &card, now_ns));
    assert_eq!(reached(Place::FlushAsk, 0, 8), "FlushAsk: pause of 1 ms");
    assert_eq!(reached(Place::FlushAsk, R1::ERROR, 8), format!("Flushed({})", R1::ERROR));
    assert_eq!(reached(Place::FlushAsk, 0, 6 + LIMIT_NS), "FlushAsk: pause of 1 ms");
    assert_eq!(reached(Place::FlushAsk, 0, 7 + LIMIT_NS), "End(Err(Protocol(FlushNeverEnds)))");
}
