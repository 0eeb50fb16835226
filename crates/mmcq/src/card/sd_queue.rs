//! The command queue of an SD card [SD 4.19].
//!
//! The command queue of some cards on the market returns wrong data without an error, or hangs. So
//! the queue stays disabled unless a table of [quirks](super::quirk) says that the card's queue
//! works ([`Quirks::SD_QUEUE_WORKS`]), or the caller allows any card. A test, which writes nothing,
//! can check the queue before its first use.

use super::extension;
use super::link::Queued;
use super::quirk::Quirks;
use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{BLOCK_BYTES, Breach, DmaBuf, Error, FlushBy};
use crate::sched::SdTaskQueue;
use crate::spec::command;
use crate::spec::command::sd::{self, Extension, SdQueueOp, SdTask};
use crate::task::{Platform, Stack};

/// Largest number of test tasks that the card has at a time.
const TOGETHER: usize = 4;
/// Number of blocks in a test task, if the scratch memory is large enough for them.
const TEST_BLOCKS: u32 = 8;
/// Longest time until a test task is ready, in nanoseconds.
const READY_NS: u64 = 1_000_000_000;
/// Time between two polls for ready tasks, in nanoseconds.
const ASK_NS: u64 = 100_000;
/// Longest time until the queue is switched on or off, in nanoseconds.
const SWITCH_NS: u64 = 12_000_000;

/// Settings for the use of an SD card's command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SdQueue {
    /// Whether to use the queue of every card. If false, the card needs an entry in
    /// [`Options::quirks`](super::Options::quirks) with
    /// [`Quirks::SD_QUEUE_WORKS`](super::quirk::Quirks::SD_QUEUE_WORKS).
    pub any: bool,
    /// Whether the card must execute tasks in the order in which they are sent, instead of an order
    /// of its choice. With true the queue is slower: it saves only the time to send the tasks.
    pub sequential: bool,
    /// Largest number of writes in the queue at a time. Use more than one only for a card that
    /// cannot be removed and whose power does not fail.
    pub writes: u8,
    /// Number of tasks in the test before the queue is used; 0 means no test. The test compares
    /// reads by the queue with reads without it, and writes nothing. If the card has the same data
    /// everywhere, the test proves nothing.
    pub self_test: u16,
}

setters!(SdQueue { any: bool, sequential: bool, writes: u8, self_test: u16 });

impl SdQueue {
    /// Default settings. Only cards that the table of quirks marks as working use their queue. The
    /// card chooses the order of its tasks, at most one task is a write, and no self-test is made.
    pub const DEFAULT: SdQueue = SdQueue { any: false, sequential: false, writes: 1, self_test: 0 };
}

/// Enables the command queue of this SD card for reads and writes. Call it once after each
/// bring-up, before other code uses the card, and after
/// [`extension::enable_cache`](super::extension::enable_cache). The stack's profile must be one
/// that uses a card's queue ([`Queued`](crate::sched::Queued)).
///
/// Returns the number of tasks that the card's queue can hold. 0 means that the queue is not used,
/// and requests work as before. The reasons for 0 are:
/// - the card has no queue or no power-off notification, or its cache is off;
/// - `how` does not allow the card ([`SdQueue::any`]);
/// - the card's addresses have 38 bits (SDUC);
/// - the profile uses no queue.
///
/// [`Engine::task_stats`](crate::engine::Engine::task_stats) counts the tasks.
///
/// `scratch` (at least [`SCRATCH_BYTES`](super::SCRATCH_BYTES)) is returned. With 4096 bytes the
/// test reads tasks of 4 KiB, otherwise single blocks. If this call is dropped during the test, the
/// queue may stay enabled; recovery detects that, and initialises the card again.
///
/// The engine disables the queue for each flush, so the call also works for a card that cannot
/// flush with its queue enabled.
///
/// # Errors
/// An error is returned if the registers cannot be read, or if the test has failed; then
/// [`Error::Protocol`] names the failure. The queue is disabled then, and is not used.
/// [`Error::Changed`]: `card` is no longer in the slot.
pub async fn enable_sd_task_queue<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    how: SdQueue,
) -> (Result<u8, Error>, DmaBuf) {
    let mut session = Session::with(stack, scratch, card);
    let result = enable(&mut session, card, how).await.map_err(|Failed| session.error);
    (result, session.into_scratch())
}

async fn enable<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &Card,
    how: SdQueue,
) -> Result<u8, Failed> {
    let listed = how.any || card.params.quirks.has(Quirks::SD_QUEUE_WORKS);
    let target = session.link.with(|engine| engine.card_params().copied());
    let flush = target.filter(|target| !target.emmc && !target.extended_address).map(|target| target.flush);
    let (Family::Sd(_), Some(FlushBy::SdCache { at, .. }), true) = (&card.family, flush, listed) else {
        return Ok(0);
    };
    let found = extension::read(session, card).await?;
    if found.queue_depth == 0 || !found.power_off || at.offset >= 511 {
        return Ok(0);
    }
    let depth = found.queue_depth;
    if how.self_test > 0 {
        let switch = Extension { offset: at.offset + 1, ..at };
        let sectors = target.map_or(0, |target| target.sectors);
        let tested = test(session, switch, sectors, depth, how).await;
        if tested.is_err() {
            let error = session.error;
            // Abort all tasks, so that the card leaves the queue mode whatever state it is in.
            let _ = session.command(sd::q_management(SdQueueOp::AbortAll)).await;
            let _ = session.wait_ready(SWITCH_NS).await;
            let off = switch_to(session, switch, 0).await;
            // A card that stays in queue mode accepts no other command.
            return if off.is_ok() { session.fail(error) } else { Err(Failed) };
        }
    }
    let queue = SdTaskQueue { depth, sequential: how.sequential, writes: how.writes };
    let has = session.link.with(|engine| {
        let meant = engine.is_meant(session.card);
        meant.then(|| engine.set_sd_task_queue(queue))
    });
    match has {
        Some(true) => Ok(depth),
        Some(false) => Ok(0),
        None => session.fail(Error::Changed),
    }
}

/// Writes the register that switches the queue, and waits until it reads as written.
async fn switch_to<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    switch: Extension,
    value: u8,
) -> Result<(), Failed> {
    extension::write(session, switch, value).await?;
    for _ in 0..=SWITCH_NS / (10 * ASK_NS) {
        session.register(sd::read_extr_single(switch, 1), false, 512).await?;
        if session.bytes::<1>()?[0] & 1 == value & 1 {
            return Ok(());
        }
        session.pause(10 * ASK_NS).await?;
    }
    session.refuse(Breach::QueueStays)
}

/// A test task: its first block, and the checksum of its data.
#[derive(Clone, Copy, Default)]
struct Tested {
    lba: u32,
    sum: u64,
}

/// Tests the card's queue by reading `how.self_test` ranges of blocks, spread over the card of
/// `sectors` blocks: first without the queue, then as tasks of the queue, at most `depth` at a
/// time. The checksums of the data must be the same. `switch`: register that switches the queue.
async fn test<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    switch: Extension,
    sectors: u64,
    depth: u8,
    how: SdQueue,
) -> Result<(), Failed> {
    let blocks = if session.scratch_bytes() >= TEST_BLOCKS * BLOCK_BYTES { TEST_BLOCKS } else { 1 };
    let places = (sectors / u64::from(blocks)).min(u64::from(u32::MAX / blocks)).max(1);
    let together = usize::from(depth).min(TOGETHER);
    let mut number = 0u64;
    while number < u64::from(how.self_test) {
        let mut tasks = [Tested::default(); TOGETHER];
        let count = (u64::from(how.self_test) - number).min(together as u64) as usize;
        for task in tasks.iter_mut().take(count) {
            // The addresses are spread over the whole card, and two tasks in a row differ.
            let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places;
            number += 1;
            task.lba = (place as u32).wrapping_mul(blocks);
            task.sum = SEED;
            for block in 0..blocks {
                session.blocks(command::read_single_block(task.lba.wrapping_add(block)), 1).await?;
                task.sum = summed(task.sum, session.bytes::<512>()?);
            }
        }
        switch_to(session, switch, if how.sequential { 3 } else { 1 }).await?;
        in_queue(session, &tasks, count, blocks).await?;
        switch_to(session, switch, 0).await?;
    }
    Ok(())
}

async fn in_queue<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    tasks: &[Tested; TOGETHER],
    count: usize,
    blocks: u32,
) -> Result<(), Failed> {
    for (id, task) in tasks.iter().take(count).enumerate() {
        let info = SdTask { id: id as u8, blocks: blocks as u16, read: true, ..SdTask::default() };
        session.status_of(sd::q_task_info_a(info)).await?;
        session.status_of(sd::q_task_info_b(task.lba)).await?;
    }
    let mut waiting = (1u32 << count) - 1;
    let mut asked = 0;
    while waiting != 0 {
        let ready = session.command(command::send_queue_status(session.rca)).await?.r1().0;
        if ready & !waiting != 0 {
            return session.refuse(Breach::QueueUnknown);
        }
        if ready == 0 {
            asked += 1;
            if asked > READY_NS / ASK_NS {
                return session.refuse(Breach::QueueNeverReady);
            }
            session.pause(ASK_NS).await?;
            continue;
        }
        let id = ready.trailing_zeros() as usize;
        waiting &= !(1 << id);
        session.blocks(sd::q_rd_task(id as u8), blocks).await?;
        let mut sum = SEED;
        for block in 0..blocks {
            sum = summed(sum, session.block(block)?);
        }
        if tasks.get(id).is_none_or(|task| task.sum != sum) {
            return session.refuse(Breach::QueueWrongData);
        }
    }
    Ok(())
}

/// Start value of the checksum, 64-bit FNV-1a. It detects a card's errors, and needs no table.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn summed(sum: u64, block: &[u8]) -> u64 {
    block.iter().fold(sum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
