//! Identification: finds out which kind of card is in the slot [SD 4.2], [eMMC 6.4].

use super::found::Found;
use super::link::Link;
use super::session::{Failed, Line, Session};
use super::{Card, Options, emmc, sd};
use crate::engine::{Breach, CardParams, Error};
use crate::host::{BusOp, Host, Timing, Width};
use crate::spec::command;
use crate::spec::response::Ocr;
use crate::spec::timing;
use core::future::Future;
use core::marker::PhantomData;

/// Time without power, in nanoseconds. The supply must have fallen before it rises again, or a card
/// keeps 1.8 V on its signal lines.
const POWER_OFF_NS: u32 = 2 * timing::sd::POWER_OFF_NS as u32;
/// Time for the supply to rise, in nanoseconds: twice the time of the standard, as a margin.
const POWER_UP_NS: u32 = 2 * timing::sd::POWER_UP_NS as u32;
/// Time for 74 clocks at 400 kHz, in nanoseconds, with a margin.
const CLOCKS_74_NS: u32 = 500_000;
/// The check pattern of CMD8, which the card echoes.
const PATTERN: u8 = 0xaa;
/// CMD8's code for a supply of 2.7 to 3.6 V.
const SUPPLY_3V3: u8 = 1;

/// Number of tries of CMD8, and of ACMD41 to a card that has not responded to CMD8, since a single
/// lost response proves nothing.
const QUESTIONS: u32 = 2;
/// Largest number of ACMD41 without a response from a card that has responded to CMD8: a cold card
/// sometimes does not respond to CMD55 for its first 30 ms.
const COLD_QUESTIONS: u32 = 6;
/// Pause after each ACMD41 without a response, in nanoseconds.
const COLD_PAUSE_NS: u64 = 10_000_000;

/// The card families that a slot accepts. The choice is a type, so that code for other families is
/// not linked.
#[allow(async_fn_in_trait, reason = "nothing outside of the crate implements it")]
pub trait Families {
    /// Whether the slot accepts SD memory cards.
    const SD: bool;
    /// Whether the slot accepts eMMC devices.
    const EMMC: bool;

    /// The result of a successful bring-up.
    type Found;

    /// Returns the card's parameters for the engine; `None` if the card has no blocks.
    fn target(found: &Self::Found) -> Option<CardParams>;

    /// Returns a number that distinguishes the card from others, as far as possible.
    fn identity(found: &Self::Found) -> u32;

    /// Brings the card from `idle` to `tran`. On failure `tried` is the timing whose switch failed,
    /// if there was one.
    async fn identify<L: Link>(
        session: &mut Session<L>,
        options: &Options,
        tried: &mut Option<Timing>,
    ) -> Result<Self::Found, Failed>;
}

/// The slot accepts SD memory cards and eMMC.
#[derive(Debug)]
pub struct OfAny<R = Card>(PhantomData<R>);
/// The slot accepts only SD memory cards.
#[derive(Debug)]
pub struct OfSd<R = Card>(PhantomData<R>);
/// The slot accepts only eMMC.
#[derive(Debug)]
pub struct OfEmmc<R = Card>(PhantomData<R>);

impl<R: Found> Families for OfAny<R> {
    const SD: bool = true;
    const EMMC: bool = true;
    type Found = R;

    fn target(found: &R) -> Option<CardParams> {
        Some(found.params())
    }

    fn identity(found: &R) -> u32 {
        found.number()
    }

    async fn identify<L: Link>(
        session: &mut Session<L>,
        options: &Options,
        tried: &mut Option<Timing>,
    ) -> Result<R, Failed> {
        if let Some((v2, ocr)) = ask_sd(session).await? {
            return sd::bring_up(session, options, v2, ocr, tried).await.map(R::of);
        }
        session.command(command::go_idle_state()).await?;
        emmc::bring_up(session, options, tried).await.map(R::of)
    }
}

impl<R: Found> Families for OfSd<R> {
    const SD: bool = true;
    const EMMC: bool = false;
    type Found = R;

    fn target(found: &R) -> Option<CardParams> {
        Some(found.params())
    }

    fn identity(found: &R) -> u32 {
        found.number()
    }

    async fn identify<L: Link>(
        session: &mut Session<L>,
        options: &Options,
        tried: &mut Option<Timing>,
    ) -> Result<R, Failed> {
        match ask_sd(session).await? {
            Some((v2, ocr)) => sd::bring_up(session, options, v2, ocr, tried).await.map(R::of),
            None => session.fail(Error::NoCard),
        }
    }
}

impl<R: Found> Families for OfEmmc<R> {
    const SD: bool = false;
    const EMMC: bool = true;
    type Found = R;

    fn target(found: &R) -> Option<CardParams> {
        Some(found.params())
    }

    fn identity(found: &R) -> u32 {
        found.number()
    }

    async fn identify<L: Link>(
        session: &mut Session<L>,
        options: &Options,
        tried: &mut Option<Timing>,
    ) -> Result<R, Failed> {
        emmc::bring_up(session, options, tried).await.map(R::of)
    }
}

/// Makes one try to bring up the card, from power-up on.
pub(super) async fn once<F: Families, L: Link>(
    session: &mut Session<L>,
    options: &Options,
    tried: &mut Option<Timing>,
) -> Result<F::Found, Failed> {
    power_cycle(session).await?;
    session.command(command::go_idle_state()).await?;
    F::identify(session, options, tried).await
}

/// Returns whether the card is an SD card; if so, whether it supports CMD8, and its OCR.
async fn ask_sd<L: Link>(session: &mut Session<L>) -> Result<Option<(bool, Ocr)>, Failed> {
    let v2 = knows_cmd8(session).await?;
    match ask_memory(session, v2).await? {
        Some(ocr) => Ok(Some((v2, ocr))),
        // The card responded to CMD8, so it is no eMMC.
        None if v2 => Err(Failed),
        None => Ok(None),
    }
}

/// Sends CMD8. Returns whether the card responds, so that it has version 2.00 or later.
pub(super) async fn knows_cmd8<L: Link>(session: &mut Session<L>) -> Result<bool, Failed> {
    for _ in 0..QUESTIONS {
        match session.command(command::sd::send_if_cond(SUPPLY_3V3, PATTERN)).await {
            Ok(response) => {
                // Not every card echoes the supply voltage, so only the pattern is checked; ACMD41
                // checks the voltage.
                if response.r7().pattern() != PATTERN {
                    return session.refuse(Breach::Echo);
                }
                return Ok(true);
            }
            Err(Failed) if session.unanswered() => {}
            Err(Failed) => return Err(Failed),
        }
        // A card of version 1 reports CMD8 as illegal in its next status. CMD0 clears that, and
        // resets a card that was not reset before.
        session.command(command::go_idle_state()).await?;
    }
    Ok(false)
}

/// Sends an ACMD41 that only inquires. Returns the OCR of the card's memory, or `None` if no memory
/// responds. `known`: the card has responded to CMD8.
pub(super) async fn ask_memory<L: Link>(
    session: &mut Session<L>,
    known: bool,
) -> Result<Option<Ocr>, Failed> {
    let inquiry = command::sd::sd_send_op_cond(command::sd::OcrRequest::INQUIRY);
    let (questions, pause_ns) = if known { (COLD_QUESTIONS, COLD_PAUSE_NS) } else { (QUESTIONS, 0) };
    for _ in 0..questions {
        match session.app_command(inquiry).await {
            Ok(response) => return Ok(Some(response.ocr())),
            Err(Failed) if session.unanswered() => _ = session.pause(pause_ns).await?,
            Err(Failed) => return Err(Failed),
        }
    }
    Ok(None)
}

/// Switches power off and on (unless the session keeps the power on), and sets the bus for a card
/// in its initial state. An empty slot stays without supply, which is no card.
pub(super) fn power_cycle<L: Link>(
    session: &mut Session<L>,
) -> L::Stage<impl Future<Output = Result<(), Failed>>> {
    L::stage(move || power_cycle_steps(session))
}

async fn power_cycle_steps<L: Link>(session: &mut Session<L>) -> Result<(), Failed> {
    let is_empty = session.asked(0, |host| host.present().into()) == 0;
    let slowest_hz = session.slowest_hz();
    let low = session.asked(0, |host| host.caps().signal18_fixed.into()) != 0;
    session.rca = 0;
    let warm = L::RECOVERS && core::mem::take(&mut session.warm);
    if is_empty || !warm {
        let cold = [
            Line::Set(BusOp::PowerOff),
            Line::Pause(POWER_OFF_NS),
            Line::Set(BusOp::PowerOn),
            Line::Set(BusOp::Signal18(low)),
        ];
        // The first of them switches on the interrupts of the slot, which tell of a card that comes.
        session.lines(if is_empty { &cold[..1] } else { &cold }).await?;
    }
    if is_empty {
        return session.fail(Error::NoCard);
    }
    let fresh = [
        Line::Set(BusOp::Width(Width::W1)),
        Line::Set(BusOp::Timing(Timing::Legacy)),
        Line::Pause(POWER_UP_NS),
        Line::Set(BusOp::Clock(timing::sd::IDENTIFY_MAX_HZ.max(slowest_hz))),
        Line::Pause(CLOCKS_74_NS),
    ];
    session.lines(&fresh).await
}
