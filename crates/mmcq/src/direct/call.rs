//! A call of the program: its pieces, its failures, and what is done after them.

use super::DirectState;
use crate::card::found::Brief;
use crate::card::identify::Families;
use crate::card::link::Link;
use crate::card::session::{Failed, Session};
use crate::card::{FRESH_STARTS, Options, SCRATCH_BYTES, attempts, emmc};
use crate::engine::{BLOCK_BYTES, CardParams, DmaBuf, Error, FlushBy, Plan};
use crate::host::{Auto, BusOp, Direction, Host, Phase};
use crate::spec::command::{Command, emmc as emmc_command, sd as sd_command};
use crate::spec::ext_csd::ExtCsd;
use crate::spec::response::R1;
use core::mem::replace;
use emmc_command::EmmcErase;
use sd_command::SdErase;

/// Largest number of blocks of one read or write.
const BLOCKS_MAX: u32 = 8 << 11;
/// Largest number of blocks that one command erases.
const ERASE_BLOCKS: u32 = 4 << 11;
/// Longest erase of one piece, in nanoseconds.
const ERASE_NS: u64 = 30_000_000_000;
/// Number of failures of a call after which the card is initialised again; the next failure ends
/// the call.
const FAILURES_UNTIL_INIT: u8 = 3;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    BringUp,
    Read,
    Write,
    Flush,
    Erase,
}

/// A back end of a session that also gives access to the state of a [`DirectCard`](super::DirectCard).
pub trait Access: Link {
    /// The cards that the slot accepts.
    type Cards: Families<Found = Brief>;

    /// Runs `f` with the state. A call from inside another one does nothing, and returns `nested`.
    fn enter<R>(self, nested: R, f: impl FnMut(&mut DirectState<Self::Host>) -> R) -> R;
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Initialise the card.
    Init,
    /// Find out the state of a card that may be in the middle of a transfer, and bring it to
    /// `tran`.
    Settle,
    /// Send the next piece.
    Work,
}

/// A call in progress. If it is dropped before its end, the next call settles the card.
pub(super) struct Call<L: Access> {
    session: Session<L>,
    job: Job,
    /// The next block.
    lba: u64,
    /// Number of blocks that are left.
    left: u32,
    /// Number of blocks that are done.
    done: u32,
    /// Whether the card may be in the middle of a transfer.
    doubted: bool,
}

impl<L: Access> Drop for Call<L> {
    fn drop(&mut self) {
        let doubted = self.doubted;
        self.session.link.enter((), |state| (state.taken, state.doubted) = (false, doubted));
    }
}

impl<H: Host> DirectState<H> {
    /// Lets a call begin. Returns the card's RCA, and whether the card must be settled.
    fn admit(&mut self, job: Job, lba: u64, blocks: u32) -> Result<(u16, bool), Error> {
        if self.taken {
            return Err(Error::Full);
        }
        let card = match &self.card {
            Some(card) => &card.params,
            None if job == Job::BringUp => return Ok(self.take(0)),
            None => return Err(Error::NoCard),
        };
        let sectors = card.sectors;
        if matches!(job, Job::Read | Job::Write | Job::Erase) {
            if blocks == 0 || lba >= sectors || sectors - lba < blocks.into() {
                return Err(Error::OutOfRange { lba, sectors });
            }
            if job != Job::Read && card.protected {
                return Err(Error::Protected);
            }
            if job != Job::Erase && blocks > BLOCKS_MAX {
                return Err(Error::Unsupported);
            }
        }
        let rca = card.rca;
        Ok(self.take(rca))
    }

    fn take(&mut self, rca: u16) -> (u16, bool) {
        self.taken = true;
        (rca, self.doubted)
    }

    fn params(&self) -> &CardParams {
        self.card.as_ref().map_or(&CardParams::NONE, |card| &card.params)
    }

    /// Returns the next piece of a transfer: its phase, the card's longest wait, and its blocks.
    #[inline(never)]
    fn piece(&mut self, write: bool, lba: u64, left: u32) -> (Phase, u64, u32) {
        let caps = self.machine.host().caps();
        let plan = Plan::of(self.params(), caps);
        let blocks = left.min(caps.blocks_in_one_piece().into());
        let direction = if write { Direction::Write } else { Direction::Read };
        let auto = if blocks == 1 { Auto::None } else { plan.auto(blocks) };
        let transfer = plan.transfer((direction, lba, blocks), blocks == 1, auto, 0);
        self.dirty |= write && self.params().flush != FlushBy::Status;
        (transfer.phase, transfer.timeout_ns, blocks)
    }

    /// Returns the commands that erase these blocks; `None` if the card cannot.
    fn erase(&self, by_trim: bool, lba: u64, blocks: u32) -> Option<[Command; 3]> {
        let plan = Plan::of(self.params(), self.machine.host().caps());
        let first = plan.address(lba);
        let last = plan.address(lba.wrapping_add(u64::from(blocks) - 1));
        match (by_trim, self.trims) {
            (true, false) => None,
            (true, true) => Some([
                emmc_command::erase_group_start(first),
                emmc_command::erase_group_end(last),
                emmc_command::erase(EmmcErase::Trim),
            ]),
            (false, _) => Some([
                sd_command::erase_wr_blk_start(first),
                sd_command::erase_wr_blk_end(last),
                sd_command::erase(SdErase::Erase),
            ]),
        }
    }
}

impl<L: Access> Call<L> {
    /// Begins a call with the memory `buf`. If it is refused, returns the memory.
    pub fn begin(
        direct: L,
        job: Job,
        (lba, blocks): (u64, u32),
        buf: DmaBuf,
    ) -> Result<Self, (Error, DmaBuf)> {
        match direct.enter(Err(Error::Reentered), |state| state.admit(job, lba, blocks)) {
            Ok((rca, doubted)) => {
                let mut session = Session::new(direct, buf);
                session.rca = rca;
                Ok(Call { session, job, lba, left: blocks, done: 0, doubted })
            }
            Err(error) => Err((error, buf)),
        }
    }

    /// Ends the call. Returns its memory.
    pub fn end(mut self) -> DmaBuf {
        self.session.take_scratch().whole()
    }

    /// Carries the call out, with further tries after failures. Each failure of a piece counts, and
    /// the last one ends the call, so the number of turns is bounded by failures and pieces.
    pub async fn run(&mut self) -> Result<(), Error> {
        let mut failures = 0;
        let mut mode = match replace(&mut self.doubted, true) {
            _ if self.job == Job::BringUp => Mode::Init,
            true => Mode::Settle,
            false => Mode::Work,
        };
        loop {
            let result = match mode {
                Mode::Init => L::stage(|| self.initialise()).await,
                Mode::Settle => L::stage(|| self.settle()).await,
                Mode::Work => L::stage(|| self.piece()).await,
            };
            mode = match (mode, result) {
                (Mode::Work, Ok(())) if self.left == 0 => break,
                (_, Ok(())) => Mode::Work,
                (Mode::Settle, Err(Failed)) => Mode::Init,
                (Mode::Work, Err(Failed)) if failures < FAILURES_UNTIL_INIT && self.may_pass() => {
                    failures += 1;
                    if failures < FAILURES_UNTIL_INIT { Mode::Settle } else { Mode::Init }
                }
                (_, Err(Failed)) => return Err(self.session.error),
            }
        }
        self.doubted = false;
        Ok(())
    }

    /// Returns whether a further try may succeed after the last failure.
    fn may_pass(&self) -> bool {
        let last = matches!(self.session.error, Error::Dma(_) | Error::Dead | Error::CacheLost)
            || matches!(self.session.error, Error::Card(status) if status & R1::WP_VIOLATION != 0);
        !last && self.session.is_passing()
    }

    /// Resets the lines, ends a transfer that may be open on the card, and waits until the card is
    /// in the state `tran`.
    async fn settle(&mut self) -> Result<(), Failed> {
        self.session.bus(BusOp::ResetLines).await?;
        self.session.stop().await;
        let timeout_ns = self.session.link.enter(0, |state| state.params().write_timeout_ns);
        self.session.wait_ready(timeout_ns).await
    }

    /// Initialises the card, from power-up on. Except at bring-up it must have the CID from before.
    async fn initialise(&mut self) -> Result<(), Failed> {
        // Stops what a dropped call may have left in the controller.
        self.session.bus(BusOp::ResetAll).await?;
        let link = self.session.link;
        let mut before = None;
        let mut options = Options::DEFAULT;
        let scratch = link.enter(DmaBuf::EMPTY, |state| {
            if let Some(card) = state.card.take() {
                before = Some(card.cid);
            }
            options = state.options;
            state.scratch.take()
        });
        let is_new = self.job == Job::BringUp;
        let given = scratch.len_bytes();
        let mut session = Session::new(link, scratch);
        let result = if given >= SCRATCH_BYTES {
            attempts::<L::Cards, _>(&mut session, &mut options, FRESH_STARTS).await
        } else {
            session.fail(Error::Buffer { needed: SCRATCH_BYTES, given })
        };
        let is_same = link.enter(false, |state| {
            if let Ok(card) = &result {
                if L::Cards::EMMC {
                    state.trims =
                        session.bytes().is_ok_and(|bytes| ExtCsd::parse(bytes).is_ok_and(|ext| ext.trim()));
                    state.lost |= replace(&mut state.dirty, false);
                }
                if !is_new && before != Some(card.cid) {
                    return false;
                }
                state.card = Some(*card);
            }
            true
        });
        let mut scratch = session.take_scratch();
        link.enter((), |state| state.scratch = scratch.take());
        match result {
            Ok(_) if !is_same => self.session.fail(Error::Changed),
            Ok(card) => {
                self.session.rca = card.params.rca;
                Ok(())
            }
            Err(Failed) => self.session.fail(session.reason()),
        }
    }

    /// Sends the next piece of the call, and waits until the card has carried it out.
    async fn piece(&mut self) -> Result<(), Failed> {
        let link = self.session.link;
        let lba = self.lba.wrapping_add(self.done.into());
        let (write, left) = (self.job == Job::Write, self.left);
        let session = &mut self.session;
        let extended = link.enter(false, |state| state.params().extended_address);
        let blocks = match self.job {
            Job::Read | Job::Write => {
                let piece = link.enter(None, |state| Some(state.piece(write, lba, left)));
                let Some((phase, timeout_ns, blocks)) = piece else { return session.fail(Error::Reentered) };
                if extended {
                    session.status_of(sd_command::address_extension((lba >> 32) as u8)).await?;
                }
                session.transfer(phase, timeout_ns, self.done * BLOCK_BYTES).await?;
                if blocks > 1 && phase.auto == Auto::None {
                    let stopped = session.stopped(timeout_ns).await?.r1().0 & R1::DEFERRED;
                    if stopped != 0 {
                        return session.fail(Error::Card(stopped));
                    }
                }
                if write || blocks > 1 {
                    session.wait_ready(timeout_ns).await?;
                }
                blocks
            }
            Job::Erase => {
                let blocks = left.min(ERASE_BLOCKS);
                let erase =
                    link.enter(None, |state| state.erase(L::Cards::EMMC && state.params().emmc, lba, blocks));
                let Some([from, to, erase]) = erase else { return session.fail(Error::Unsupported) };
                session.status_of(from).await?;
                session.status_of(to).await?;
                session.busy_command(erase, ERASE_NS).await?;
                blocks
            }
            Job::Flush if L::Cards::EMMC => {
                let flush = link.enter(FlushBy::Status, |state| state.params().flush);
                if let FlushBy::EmmcCache { timeout_ns } = flush {
                    session.busy_command(emmc::flush_command(), timeout_ns).await?;
                }
                let lost = link.enter(true, |state| {
                    state.dirty = false;
                    replace(&mut state.lost, false)
                });
                if lost {
                    return session.fail(Error::CacheLost);
                }
                0
            }
            Job::BringUp | Job::Flush => 0,
        };
        self.done += blocks;
        self.left -= blocks;
        Ok(())
    }
}
