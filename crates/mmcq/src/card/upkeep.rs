//! The supervisor's upkeep of a card without a fault. The supervisor reads what the exception bit
//! means, and gives the card time for background operations [eMMC 6.6.20, 6.6.25]. It sets the
//! interval of tunings. After a new initialisation it restores the settings that the initialisation
//! has reset.

use super::identify::Families;
use super::link::Queued;
use super::maintain::{BKOPS_NS, Urgency};
use super::quirk::Quirks;
use super::rest::Rest;
use super::session::Failed;
use super::{Card, Family, Options, emmc, extension, packed};
use crate::engine::{DmaBuf, Error, FlushBy, Kind, Request};
use crate::host::{Phase, Timing};
use crate::sched::Profile;
use crate::spec::command::{self, Command, Resp, emmc as cmd};
use crate::spec::ext_csd::{ExtCsd, Hpi, index};
use crate::spec::response::State;
use crate::spec::timing::emmc as limits;
use crate::task::{Platform, Stack};

/// Settings for the [supervisor](super::supervise)'s work on a card without a fault
/// ([`Options::upkeep`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upkeep {
    /// Whether an eMMC (4.5 and later) also reports two more events: it requests the release of
    /// dynamic capacity, or its pool of system blocks is used up.
    /// [`Event::Exception`](super::Event::Exception) reports them to the program. Urgent background
    /// operations are always reported.
    pub exceptions: bool,
    /// Longest time between two tunings in SDR104, HS200 and HS400 while the card is used, in
    /// nanoseconds. After seven eighths of it, the supervisor tunes at the first moment in which no
    /// request waits. `Some(0)`: it tunes only when the controller requests it, or after damaged
    /// data. `None`: the controller's own value
    /// ([`Host::retune_ns`](crate::host::Host::retune_ns)).
    pub retune_every_ns: Option<u64>,
    /// Whether only the same card is accepted. The supervisor then brings up no other card, and no
    /// card that is inserted after a removal, since it might have been changed in another machine.
    /// The engine has no card until the program calls [`bring_up`](super::bring_up).
    pub same_card: bool,
    /// How an unused card saves power.
    pub rest: Rest,
}

setters!(Upkeep { exceptions: bool, retune_every_ns: Option<u64>, same_card: bool, rest: Rest });

impl Upkeep {
    /// Default settings: urgent background operations are started, tuning is repeated as often as
    /// the controller declares, and cards may be exchanged.
    pub const DEFAULT: Upkeep =
        Upkeep { exceptions: false, retune_every_ns: None, same_card: false, rest: Rest::Never };
}

impl Default for Upkeep {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Who starts a device's background operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// The supervisor (BKOPS_EN: MANUAL_EN), in moments in which no request uses the card.
    Supervisor,
    /// The device itself (AUTO_EN), in moments in which no request uses it.
    Device,
    /// Background operations are not started: no mode is enabled, or the device could not interrupt
    /// them and does not need them urgently yet.
    None,
}

/// The events that an eMMC reported by its exception bit [eMMC 6.6.25].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exception {
    /// Value of EXCEPTION_EVENTS_STATUS, bytes 55:54 of EXT_CSD.
    pub events: u16,
    /// Urgency of background operations.
    pub urgency: Urgency,
    /// Who starts the background operations.
    pub worker: Worker,
}

impl Exception {
    /// Bit of `events`: background operations are urgent.
    pub const BACKGROUND: u16 = 1 << 0;
    /// Bit of `events`: the device requests the release of dynamic capacity
    /// ([`Upkeep::exceptions`]).
    pub const CAPACITY: u16 = 1 << 1;
    /// Bit of `events`: the pool of blocks for system data is used up ([`Upkeep::exceptions`]).
    pub const POOL: u16 = 1 << 2;
    /// Bit of `events`: a packed command failed.
    pub const PACKED: u16 = 1 << 3;
    /// Bit of `events`: an error of an extended security protocol.
    pub const SECURITY: u16 = 1 << 4;
}

/// Time for which performance may suffer before background operations begin although requests wait,
/// in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Time for which background operations run while requests wait for them, in nanoseconds.
const SLICE_NS: u64 = 500_000_000;
/// Time between two polls for the end of background operations, in nanoseconds.
const ASK_NS: u64 = 2_000_000;
/// Shortest time limit for the device to stop after HPI, in nanoseconds.
const HPI_NS_MIN: u64 = 50_000_000;
/// Value of EXCEPTION_EVENTS_CTRL for [`Upkeep::exceptions`].
pub(super) const EVENTS_ENABLED: u8 = (Exception::CAPACITY | Exception::POOL) as u8;

/// Tells the engine when to request upkeep of the card from the supervisor: a new tuning, a read of
/// the exception events, and saving power while the card is unused. Called when the supervisor
/// begins, and after each new initialisation of the card.
pub(super) fn begin<B: Platform, const N: usize>(session: &Queued<'_, B, N>, options: &Options, card: &Card) {
    let stack = session.link;
    let now_ns = stack.now_ns();
    // SDR50 is left out: some cards do not support tuning there, and work without it.
    let tuned = matches!(card.timing, Timing::Sdr104 | Timing::Hs200 | Timing::Hs400);
    stack.with(|engine| {
        let every_ns = match options.upkeep.retune_every_ns {
            _ if !tuned => 0,
            Some(ns) => ns,
            None => engine.retune_ns(),
        };
        let rest_after_ns = options.upkeep.rest.after_ns();
        engine.look_after(matches!(card.family, Family::Emmc(_)), every_ns, rest_after_ns, now_ns);
    });
    // The time of the next upkeep may have changed, so set the engine's timer again.
    stack.poll();
}

/// Reads EXT_CSD of a device whose status has the exception bit. Returns the exception event;
/// `None` if the supervisor has already seen the same events.
pub(super) async fn look<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    quirks: Quirks,
) -> Result<Option<Exception>, Failed> {
    session.register(cmd::send_ext_csd(), false, 512).await?;
    let found = ExtCsd::parse(session.bytes()?).map(|ext| {
        let urgency = Urgency::of(&ext);
        let stops = interrupt(&ext, quirks).is_some() || urgency == Urgency::Critical;
        let worker = match ext.bkops_en() {
            enabled if enabled & 1 != 0 && stops => Worker::Supervisor,
            enabled if enabled & 2 != 0 => Worker::Device,
            _ => Worker::None,
        };
        Exception { events: ext.exception_events_status(), urgency, worker }
    });
    let found = session.parsed(found)?;
    let now_ns = session.link.now_ns();
    let patience_ns = match found.urgency {
        Urgency::Critical => Some(0),
        Urgency::Impacted => Some(PATIENCE_NS),
        _ => None,
    };
    let new = session.link.with(|engine| {
        if found.worker == Worker::Supervisor
            && let Some(patience_ns) = patience_ns
        {
            engine.work_waits(Some(now_ns.saturating_add(patience_ns)), now_ns);
        }
        engine.note_exceptions(found.events, now_ns)
    });
    Ok(new.then_some(found))
}

/// Returns the command that interrupts background operations; `None` if they cannot be interrupted.
fn interrupt(ext: &ExtCsd<'_>, quirks: Quirks) -> Option<Hpi> {
    ext.hpi().filter(|_| !quirks.has(Quirks::NO_HPI))
}

/// Guard of background operations in progress. A future that is dropped before their end drops the
/// guard, which then interrupts them; otherwise the card would be busy for minutes.
struct Working<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    interrupt: Option<Command>,
}

impl<B: Platform, const N: usize> Drop for Working<'_, B, N> {
    fn drop(&mut self) {
        let Some(command) = self.interrupt else { return };
        let phase = Phase::of(command);
        let kind = Kind::Raw { prefix: None, phase, timeout_ns: HPI_NS_MIN };
        self.stack.send(Request { urgent: B::Profile::RECOVERS, ..Request::new(kind, DmaBuf::EMPTY) });
    }
}

/// Gives a device time for its background operations, until they end or a request needs the card.
/// If performance has suffered for [`PATIENCE_NS`], a request waits up to [`SLICE_NS`] for the
/// operations.
pub(super) async fn work<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    quirks: Quirks,
) -> Result<(), Failed> {
    let stack = session.link;
    session.register(cmd::send_ext_csd(), false, 512).await?;
    let found = ExtCsd::parse(session.bytes()?)
        .map(|ext| (interrupt(&ext, quirks), ext.out_of_interrupt_time_ns(), Urgency::of(&ext)));
    let (hpi, let_go_ns, urgency) = session.parsed(found)?;
    let begin_ns = stack.now_ns();
    if urgency < Urgency::Impacted {
        stack.with(|engine| engine.work_waits(None, begin_ns));
        return Ok(());
    }
    if hpi.is_some() {
        emmc::switch(session, index::HPI_MGMT, 1, limits::SWITCH_NS).await?;
    }
    let late = stack.with(|engine| engine.work_is_late(begin_ns));
    let least_ns = if late { SLICE_NS } else { 0 };
    // Sent as R1, without busy: busy may last longer than the controller's own timer, and HPI could
    // not be sent during the wait.
    let start = cmd::switch(cmd::SwitchMode::WriteByte, index::BKOPS_START, 1, 0);
    let rca = session.rca;
    let hpi = hpi.map(|hpi| match hpi {
        Hpi::Cmd12 => cmd::stop_transmission_hpi(rca),
        Hpi::Cmd13 => cmd::send_status_hpi(rca),
    });
    let working = Working { stack, interrupt: hpi };
    let start = Command::new(start.index, start.arg, Resp::R1);
    worked(session, start, hpi, let_go_ns, least_ns).await?;
    // After an error the operations may still run, and the guard interrupts them.
    core::mem::forget(working);
    Ok(())
}

/// Starts the background operations by the command `start`, and waits for their end. If a request
/// waits, the command `hpi` interrupts the operations, but not before they have lasted `least_ns`.
/// After the interruption the device may be busy for `let_go_ns`.
async fn worked<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    start: Command,
    hpi: Option<Command>,
    let_go_ns: u64,
    least_ns: u64,
) -> Result<(), Failed> {
    let stack = session.link;
    let begin_ns = stack.now_ns();
    session.status_of(start).await?;
    let mut missed = 0;
    loop {
        session.pause(ASK_NS).await?;
        let now_ns = stack.now_ns();
        let waited_ns = now_ns.saturating_sub(begin_ns);
        match session.status_of(command::send_status(session.rca)).await {
            Ok(status) if status.r1().current_state() != State::Prg => {
                stack.with(|engine| engine.work_waits(None, now_ns));
                return Ok(());
            }
            Err(Failed) if !session.asks_again(&mut missed) => return Err(Failed),
            Ok(_) | Err(Failed) => {}
        }
        let wanted = stack.with(|engine| {
            engine.extend_help(now_ns);
            engine.has_waiting()
        });
        let hpi = match hpi {
            Some(hpi) if wanted && waited_ns >= least_ns || waited_ns >= BKOPS_NS => hpi,
            None if waited_ns >= BKOPS_NS => return session.fail(Error::Silent),
            _ => continue,
        };
        // The status that follows shows whether HPI worked.
        let _ = session.command(hpi).await;
        session.wait_ready(let_go_ns.max(HPI_NS_MIN)).await?;
        let now_ns = stack.now_ns();
        stack.with(|engine| engine.work_waits(Some(now_ns.saturating_add(PATIENCE_NS)), now_ns));
        return Ok(());
    }
}

/// Restores the settings that calls after the bring-up have made, such as an enabled cache. Called
/// when the same card was initialised again; bring-up has then restored the settings in its
/// options.
pub(super) async fn restore<F: Families, B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &mut Card,
) {
    let on = session.link.with(|engine| engine.switched_on());
    if F::SD
        && let Some(FlushBy::SdCache { at, timeout_ns }) = on.cache
        && extension::cache_on(session, at).await != extension::Cache::Off
    {
        card.params.flush = FlushBy::SdCache { at, timeout_ns };
    }
    if F::EMMC && on.packs {
        let told = packed::tell_failures(session).await.is_ok();
        session.link.with(|engine| engine.restore_packs(told));
    }
}
