//! Machine of a run: the board of a setting, its stack, and the counters.

use super::chances;
use super::served::{Keeping, Served};
use super::waiting::Waiting;
use super::{Counters, Pace, Run, RunError, SLOTS, Setting, Steady};
use crate::board::Board;
use crate::linux::cqe::{self, Cqe};
use crate::linux::elevator::{Elevator, Tunables};
use crate::linux::hsq::{Hsq, Order, Settings};
use crate::linux::port::EnginePort;
use crate::linux::reader::{Close, Reader};
use crate::linux::worker::Worker;
use crate::ours::Ours;
use crate::platform::Advance;
use crate::system::{Stuck, System, Workload};
use mmcq::card::Family;
use mmcq::engine::{Acknowledge, DmaBuf, FlushBy, StaysOpen};
use mmcq::spec::ext_csd::ExtCsd;
use mmcq_sim::card::Medium;

/// Size in blocks of the largest request that Linux's models send.
const LINUX_BLOCKS: u32 = 1024;

/// Work to do on a board that is built and whose card is up. The type of the board's stack depends
/// on the setting.
pub trait Visit {
    /// Result of the work that is done on the board.
    type Out;

    /// Does the work on `board`, which was built for `run` and has an initialised card.
    ///
    /// # Errors
    /// The run does not come to its end.
    fn visit<const N: usize>(self, run: &Run<'_>, board: Board<N>) -> Result<Self::Out, RunError>
    where
        Board<N>: Serve<N>;
}

/// Builds the board of a run as its setting needs it, brings its card up, and calls `visit`, whose
/// result it returns. `medium`: content of the card; `None`: generated. With the setting `limit`
/// the board has no CPU costs.
///
/// # Errors The board cannot be built, the host cannot run the setting, or `visit` fails.
pub fn on<V: Visit>(run: &Run<'_>, medium: Option<Medium>, visit: V) -> Result<V::Out, RunError> {
    match run.setting {
        Setting::None | Setting::HsqTag | Setting::HsqFifo | Setting::Close | Setting::Patch => {
            let board = Board::<1>::new(run.platform, run.card, medium, run.setting.price())?;
            if let Some(misses) = board.stack.with(|e| run.setting.misses(e.caps())) {
                let platform = run.platform.name.clone();
                return Err(RunError::Host { platform, setting: run.setting.name(), misses });
            }
            visit.visit(run, board)
        }
        Setting::Mmcq | Setting::MmcqOwn | Setting::Limit => {
            let board = Board::<SLOTS>::new(run.platform, run.card, medium, run.setting.price())?;
            visit.visit(run, board)
        }
        Setting::MmcqEarly | Setting::MmcqEarlyOwn => {
            let mut platform = run.platform.clone();
            platform.stack.acknowledge = Acknowledge::Transferred;
            let board = Board::<SLOTS>::new(&platform, run.card, medium, run.setting.price())?;
            visit.visit(run, board)
        }
        Setting::LinuxCqe
        | Setting::Tasks
        | Setting::TasksOwn
        | Setting::Cqe
        | Setting::CqeOwn
        | Setting::Auto
        | Setting::AutoOwn => {
            let mut platform = run.platform.clone();
            platform.stack.queue_engine = !matches!(run.setting, Setting::Tasks | Setting::TasksOwn);
            let always = matches!(run.setting, Setting::Cqe | Setting::CqeOwn | Setting::LinuxCqe);
            if run.setting == Setting::LinuxCqe {
                platform.stack.advance = Advance::Irq;
                platform.stack.merging = false;
                platform.stack.queue_poll_clocks = Some(cqe::POLL_CLOCKS);
            }
            let board = Board::<SLOTS>::new(&platform, run.card, medium, run.setting.price())?;
            let no_queue = |found: String| RunError::Queue {
                card: run.card.unwrap_or(&run.platform.card).to_owned(),
                setting: run.setting.name(),
                found,
            };
            if run.setting == Setting::LinuxCqe && !matches!(board.card.family, Family::Emmc(_)) {
                return Err(no_queue("Linux 6.1 has none of an SD card's".to_owned()));
            }
            match board.enable_task_queue() {
                Ok(0) => Err(no_queue("there is none".to_owned())),
                Ok(_) if always && !board.has_queue_engine() => {
                    Err(no_queue("the controller has no engine for it".to_owned()))
                }
                Ok(_) => {
                    board.stack.with(|engine| engine.always_use_task_queue(always));
                    visit.visit(run, board)
                }
                Err(error) => Err(no_queue(error)),
            }
        }
        Setting::Adma3 | Setting::Adma3Own => {
            let mut platform = run.platform.clone();
            platform.stack.chains = true;
            let board = Board::<SLOTS>::new(&platform, run.card, medium, run.setting.price())?;
            if !board.enable_chains() {
                let platform = run.platform.name.clone();
                return Err(RunError::Chains { platform, setting: run.setting.name() });
            }
            visit.visit(run, board)
        }
        Setting::Packed | Setting::PackedOwn => {
            let board = Board::<SLOTS>::new(run.platform, run.card, medium, run.setting.price())?;
            let none = |found: String| RunError::Packed {
                card: run.card.unwrap_or(&run.platform.card).to_owned(),
                setting: run.setting.name(),
                found,
            };
            match board.enable_packed() {
                Ok(true) => visit.visit(run, board),
                Ok(false) => Err(none("card or controller cannot".to_owned())),
                Err(error) => Err(none(error)),
            }
        }
    }
}

/// Runs a load on a board, by a model of Linux or by mmcq. With one slot of the engine (`N` is 1) a
/// model of Linux sends one operation at a time.
pub trait Serve<const N: usize> {
    /// Runs the load. Returns the time in ns at which it ended, and the counters of the stack.
    fn serve(self, run: &Run<'_>, sys: &mut System, load: &mut dyn Workload) -> Result<(u64, Served), Stuck>;
}

impl Serve<1> for Board<1> {
    fn serve(self, run: &Run<'_>, sys: &mut System, load: &mut dyn Workload) -> Result<(u64, Served), Stuck> {
        let mut controller = self.controller.clone();
        let bytes = load.memory().1.max(LINUX_BLOCKS as usize * 512);
        let elevator = Elevator::new(Tunables { max_blocks: LINUX_BLOCKS, ..Tunables::default() });
        let close = match run.setting {
            Setting::Close => Some(Close::AtOnce),
            Setting::Patch => Some(Close::Late),
            _ => None,
        };
        if let Some(close) = close {
            let port = Reader::new(self.stack, self.card.params, bytes, close, sys);
            let mut front = Worker::new(port, elevator, sys, run.seed);
            let end_ns = sys.run(&mut front, &mut controller, load)?;
            let keeping = if close == Close::Late { Keeping::Holds } else { Keeping::Closes };
            let (continued, disk) = (front.port.continued, Some(front.disk()));
            return Ok((end_ns, Served { continued, keeping, disk, ..Served::default() }));
        }
        let continues = self.stack.with(|e| e.caps().continue_data);
        let keeping = if continues { Keeping::Closes } else { Keeping::Cannot };
        let served = |disk| Served { keeping, disk: Some(disk), ..Served::default() };
        let looks = run.platform.controller.linux_looks();
        let has_cache = matches!(self.card.params.flush, FlushBy::EmmcCache { .. });
        let port = EnginePort::new(self.stack, self.card.params, bytes).looking(looks);
        let order = match run.setting {
            Setting::HsqTag => Order::Tag,
            Setting::HsqFifo => Order::Fifo,
            _ => {
                let mut front = Worker::new(port, elevator, sys, run.seed).with_cache(has_cache);
                let end_ns = sys.run(&mut front, &mut controller, load)?;
                return Ok((end_ns, served(front.disk())));
            }
        };
        let settings = Settings { order, defer: self.defer };
        let mut front = Hsq::new(port, settings, elevator, sys, run.seed).with_cache(has_cache);
        let end_ns = sys.run(&mut front, &mut controller, load)?;
        Ok((end_ns, served(front.disk())))
    }
}

impl Board<SLOTS> {
    /// Runs the load by the model of Linux's driver for a card's command queue.
    fn serve_linux(self, sys: &mut System, load: &mut dyn Workload) -> Result<(u64, Served), Stuck> {
        let mut controller = self.controller.clone();
        let bytes = LINUX_BLOCKS as usize * 512;
        let elevator = Elevator::new(Tunables { max_blocks: LINUX_BLOCKS, ..Tunables::default() });
        let has_cache = matches!(self.card.params.flush, FlushBy::EmmcCache { .. });
        let ext_csd = self.ext_csd.as_deref().and_then(|raw| ExtCsd::parse(raw).ok());
        let depth = ext_csd.map_or(0, |ext_csd| ext_csd.cmdq_depth());
        let mut front = Cqe::new(self.stack, elevator, depth, bytes, sys).with_cache(has_cache);
        let end_ns = sys.run(&mut front, &mut controller, load)?;
        let tasks = front.stack.with(|e| e.task_stats().copied()).filter(|tasks| tasks.entered > 0);
        Ok((
            end_ns,
            Served { tasks, keeping: Keeping::Cannot, disk: Some(front.disk()), ..Served::default() },
        ))
    }
}

impl Serve<SLOTS> for Board<SLOTS> {
    fn serve(self, run: &Run<'_>, sys: &mut System, load: &mut dyn Workload) -> Result<(u64, Served), Stuck> {
        if run.setting == Setting::LinuxCqe {
            return self.serve_linux(sys, load);
        }
        let mut controller = self.controller.clone();
        let keeping = match self.stack.with(|e| e.caps().continue_data) {
            false => Keeping::Cannot,
            true if run.platform.stack.streams != StaysOpen::Never => Keeping::Holds,
            true => Keeping::Closes,
        };
        let before = self.stack.with(|e| *e.stats());
        let boot = self.boot();
        let front = Ours::new(self.stack, sys, load.jobs_max()).with_boot(boot);
        let mut front = front.moved_by(self.context, sys);
        let end_ns = sys.run(&mut front, &mut controller, load)?;
        let served =
            front.stack.with(|e| Served::by_engine(&before, *e.stats(), e.holds(), e.take_continue_lost()));
        let tasks = front.stack.with(|e| e.task_stats().copied()).filter(|tasks| tasks.entered > 0);
        let packs = front.stack.with(|e| e.pack_stats().copied()).filter(|packs| packs.entries > 0);
        let chains = front.stack.with(|e| e.chain_stats().copied()).filter(|chains| chains.chains > 0);
        if let Ok(page) = front.stack.with(|e| e.set_page(DmaBuf::EMPTY)) {
            self.pages.into_inner().free(page);
        }
        Ok((end_ns, Served { tasks, packs, chains, keeping, ..served }))
    }
}

/// Returns the largest number of blocks of a transfer into which several requests are merged.
fn most_blocks<const N: usize>(board: &Board<N>, setting: Setting) -> u32 {
    let ours = || board.stack.with(|e| e.caps().max_blocks.min(e.caps().max_bytes / 512));
    if setting.is_linux() { LINUX_BLOCKS } else { ours() }
}

/// Returns the length in blocks of a reliable write of Linux on this board. `u32::MAX`: any length.
/// 0: Linux sends no reliable writes. Any other number `n`: a reliable write has 1 block or `n`
/// blocks. Reliable writes need a host that counts blocks (CMD23). Without a cache the result is 0,
/// since every write is on the medium when it is complete.
pub fn reliable_blocks<const N: usize>(board: &Board<N>, setting: Setting) -> u32 {
    let params = &board.card.params;
    let counts = params.count && board.stack.with(|e| e.caps().auto_count);
    let is_cached = matches!(params.flush, FlushBy::EmmcCache { .. });
    let ext_csd = board.ext_csd.as_deref().and_then(|raw| ExtCsd::parse(raw).ok());
    match ext_csd.filter(|_| setting.is_linux() && counts && is_cached) {
        None => 0,
        Some(ext_csd) if ext_csd.reliable_write_enhanced() => u32::MAX,
        Some(ext_csd) => ext_csd.rel_wr_sec_c().into(),
    }
}

/// Load that counts its own I/Os, flushes and failures.
pub trait Carried: Workload {
    /// Returns the numbers of I/Os, flushes and failures that the load has counted.
    fn counted(&self) -> Counted;
}

/// Numbers of I/Os, flushes and failures, counted by a load.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Number of I/Os of all jobs.
    pub ios: u64,
    /// Number of flushes that the jobs asked for.
    pub flushes: u64,
    /// Number of I/Os and flushes that failed.
    pub failed: u64,
    /// Rate of the load, measured without the beginning and the end of the run.
    pub steady: Steady,
}

/// Result of a machine whose run has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Counters of the run, such as I/Os, commands on the bus and CPU time.
    pub counters: Counters,
    /// Time in ns at which the run ended.
    pub end_ns: u64,
    /// Whether a run with another seed may give other figures.
    pub seeded: bool,
}

/// Runs the load on a machine made from the board. `jobs`: number of the load's jobs at the start.
///
/// # Errors
/// A completion is lost, or the stack accesses memory that it must not access.
pub fn machine<const N: usize, W: Carried>(
    run: &Run<'_>,
    board: Board<N>,
    load: &mut W,
    waiting: Waiting,
    jobs: u32,
) -> Result<Ended, RunError>
where
    Board<N>: Serve<N>,
{
    let mut sys = System::new(board.time.clone(), board.cores, board.migration, board.costs, jobs, run.seed);
    crate::trace::watch(&mut sys, jobs);
    crate::recorded::export::watch(&mut sys, jobs, board.card.params.block_addressed);
    crate::series::watch(&mut sys);
    let chances = chances::watch(&mut sys, most_blocks(&board, run.setting));
    let start_ns = board.time.now();
    let emmc = matches!(board.card.family, Family::Emmc(_));
    let (controller, memory, cores) = (board.controller.clone(), board.memory.clone(), board.cores);
    let before = controller.accesses();
    let heard = waiting.clone();
    controller.set_log(match crate::buslog::is_kept() || crate::recorded::export::is_kept() {
        false => Box::new(move |event| heard.bus(event)),
        true => Box::new(move |event| {
            heard.bus(event);
            crate::buslog::note(event);
            crate::recorded::export::note(event);
        }),
    });
    let (end_ns, stack) = board.serve(run, &mut sys, load)?;
    if memory.violation_count() > 0 {
        return Err(RunError::Memory(memory.violations().first().cloned().unwrap_or_default()));
    }
    let bus = controller.stats();
    let transfers = [17, 18, 24, 25, 46, 47].iter().map(|&c: &usize| bus.commands[c]).sum();
    let after = controller.accesses();
    let accesses = (after.reads - before.reads, after.writes - before.writes);
    let Counted { ios, flushes, failed, steady } = load.counted();
    let (waiting_ns, without_ns) = waiting.end(end_ns);
    let counters = Counters {
        ios,
        flushes,
        transfers,
        bytes: bus.bytes,
        bus,
        work: controller.take_work(),
        cpu: sys.cpu.counts(),
        accesses,
        elapsed_ns: end_ns - start_ns,
        cores,
        failed,
        waiting_ns,
        without_ns,
        job_switches: sys.job_switches(),
        chances: chances.take(),
        emmc,
        stack,
        steady,
        pace: Pace::default(),
    };
    // At the limit no time is random. Models of Linux have random tags, pauses and more.
    let seeded = run.setting != Setting::Limit || sys.cpu.is_seeded();
    Ok(Ended { counters, end_ns, seeded })
}
