//! Calls the whole public interface with values that the compiler cannot know, so that every
//! reachable panic is in the image. The image is linked, and never executed: the handler for panics
//! calls a function that does not exist.
#![no_std]
#![no_main]

use core::future::Future;
use core::hint::black_box;
use core::pin::pin;
use core::task::Waker;
use mmcq::advance::{Bus, Context, Costs, Wait, WaitStrategy};
use mmcq::block::Partition;
use mmcq::block::{BlockDevice, Bounced};
use mmcq::board::NoLock;
use mmcq::card::partition::Area;
use mmcq::card::{
    Card, Event, Options, bring_up, bring_up_io, enable_extended_ops, supervise, supervise_emmc, supervise_sd,
};
use mmcq::card::{extension, maintain, power, protect, quirk};
use mmcq::direct::{AnyCard, DirectCard};
use mmcq::engine::{
    CardParams, Config, DmaBuf, Engine, Erase, Error, Handshake, Irreversible, Kind, Request, SlotId,
};
use mmcq::host::{BusOp, CommandQueueHost, Host, pl181, rtsx, s3c_sdi, sdhci};
use mmcq::sched::{Any, Deadline, Fair, Fifo, Origin, ReadsFirst, deadline, fair};
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{At, CardInterrupt, Chain, Function};
use mmcq::spec::cid::Cid;
use mmcq::spec::crc;
use mmcq::spec::csd::Csd;
use mmcq::spec::ext_csd::ExtCsd;
use mmcq::spec::scr::Scr;
use mmcq::spec::ssr::Ssr;
use mmcq::spec::switch::SwitchStatus;
use mmcq::task::{Entry, IrqTask};
use size::board::{self, InterruptsOff};
use size::late::{Late, Once};
use size::{Driver, Polled, Stack};

static STACK: Late<Stack<8>> = Late::new();
static BLOCK: Once<[u8; 512]> = Once::new([0; _]);
static TASK: IrqTask<InterruptsOff> = IrqTask::new(InterruptsOff);

/// Makes every call, in the order in which a program would make them.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = calls();
}

fn calls() -> Option<()> {
    let stack = STACK.set(size::stack(black_box(size::CONFIG))?.ok()?)?;
    let (card, scratch) =
        stack.block_on(bring_up(stack, size::scratch()?, black_box(Options::DEFAULT)), board::idle);
    let mut scratch = scratch;
    if let Ok(card) = &card {
        scratch = stack.block_on(device(stack, card, scratch), board::idle)?;
    }
    let _ = black_box(card.is_ok_and(|card| registers(&card)));
    extended(&scratch);
    let scratch = kept(stack, scratch, card.ok()?);
    blocks(stack, scratch)?;
    waiting(stack);
    stack.with(queue);
    scheduled();
    whole_queue();
    by_cpu();
    direct(&card_without_queue()?);
    interrupt_task(stack);
    texts(black_box(Error::Full));
    if black_box(false) {
        plant();
    }
    Some(())
}

/// Uses the supervisors of a card.
fn kept(stack: &'static Stack<8>, scratch: DmaBuf, mut card: Card) -> DmaBuf {
    let options = black_box(Options::DEFAULT);
    let (event, scratch) = stack.block_on(supervise(stack, scratch, options, card), board::idle);
    if let Event::Inserted(Ok(found)) | Event::Changed(found) = event {
        card = found;
    }
    let (event, scratch) = stack.block_on(supervise_sd(stack, scratch, options, card), board::idle);
    black_box(event);
    let (event, scratch) = stack.block_on(supervise_emmc(stack, scratch, options, card), board::idle);
    black_box(event);
    scratch
}

/// A card without a queue, for any kind of card.
type CardWithoutQueue = DirectCard<Polled<size::SmallDriver>, AnyCard>;

fn card_without_queue() -> Option<CardWithoutQueue> {
    let host = size::small_driver(black_box(size::CONFIG))?.ok()?;
    Some(DirectCard::new(NoLock::new(), board::Ticks, host, black_box(DmaBuf::EMPTY)))
}

/// Uses a card without a queue, by blocking calls and by futures.
fn direct(card: &CardWithoutQueue) {
    let (lba, blocks) = (black_box(7), black_box(9));
    let options = black_box(Options::DEFAULT);
    let calls = card.blocking(board::idle);
    black_box(calls.bring_up(options).is_ok());
    let (read, buf) = calls.read(lba, black_box(DmaBuf::EMPTY));
    let (written, _) = calls.write(lba, buf);
    black_box(read.is_ok() & written.is_ok());
    black_box(calls.flush().is_ok() & calls.erase(lba, blocks).is_ok());
    let mut future = pin!(async {
        black_box(card.bring_up(options).await.is_ok());
        let (read, buf) = card.read(lba, black_box(DmaBuf::EMPTY)).await;
        let (written, _) = card.write(lba, buf).await;
        black_box(read.is_ok() & written.is_ok());
        black_box(card.flush().await.is_ok() & card.erase(lba, blocks).await.is_ok());
    });
    let mut context = core::task::Context::from_waker(Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {
        card.on_irq();
        card.poll();
    }
    black_box(card.card().is_some() & card.cid().is_some());
    black_box(card.now_ns());
}

/// Uses the remaining functions of a block device.
async fn device(stack: &'static Stack<8>, card: &Card, scratch: DmaBuf) -> Option<DmaBuf> {
    let sure = Irreversible::i_know_that_this_cannot_be_undone();
    let (lba, blocks) = (black_box(7), black_box(9));
    let (equipped, scratch) = enable_extended_ops(stack, card, scratch).await;
    let disk = BlockDevice::new(stack);
    let (durable, scratch) = disk.write_durable(lba, scratch).await;
    let (zeroed, scratch) = disk.write_zeroes(lba, blocks, scratch).await;
    black_box(equipped.is_ok() & durable.is_ok() & zeroed.is_ok());
    black_box(disk.discard(lba, blocks).await.is_ok() & disk.erase(lba, blocks).await.is_ok());
    for how in black_box([Erase::SecureErase(sure), Erase::SecureTrim(sure)]) {
        let request = Request::new(Kind::Erase { lba, blocks, how }, DmaBuf::EMPTY).durable();
        black_box(stack.request(request).await.result.is_ok());
    }
    let (boot, scratch) = Partition::open(stack, card, scratch, black_box(Area::Boot1)).await;
    let boot = boot.ok()?.writable().ok()?;
    let (read, scratch) = boot.read(black_box(1), scratch).await;
    let (written, scratch) = boot.write(black_box(1), scratch).await;
    black_box(read.is_ok() & written.is_ok());
    let (health, scratch) = maintain::health(stack, card, scratch).await;
    let (worked, scratch) =
        maintain::background_work(stack, card, scratch, black_box(maintain::Urgency::Some)).await;
    let (sanitized, scratch) = maintain::sanitize(stack, card, scratch, sure).await;
    black_box(health.is_ok() & worked.is_ok() & sanitized.is_ok());
    let lasts = black_box(protect::Lasts::ForEver(sure));
    black_box(protect::protect_boot(stack, card, black_box(Area::Boot2), lasts).await.is_ok());
    black_box(protect::protect_group(stack, card, black_box(8), black_box(true)).await.is_ok());
    let password = black_box(&[1, 2, 3][..]);
    let (locked, scratch) =
        protect::lock(stack, card, scratch, black_box(protect::LockOp::Unlock(password))).await;
    let (extensions, scratch) = extension::extensions(stack, card, scratch).await;
    black_box(locked.is_ok() & extensions.is_ok());
    black_box(quirk::of_io(black_box(1), black_box(2), black_box(&[])).bits());
    let (asleep, scratch) = power::sleep(stack, card, scratch).await;
    let (awake, scratch) = power::awake(stack, card, scratch, asleep.ok()?).await;
    let (off, scratch) = power::power_off(stack, card, scratch, black_box(power::Off::Long)).await;
    black_box(awake.is_ok() & off.is_ok());
    if black_box(false) {
        return extension::enable_cache(stack, card, scratch).await.err().map(|(_, page)| page);
    }
    Some(scratch)
}

/// Uses the block device in its four forms.
fn blocks(stack: &'static Stack<8>, scratch: DmaBuf) -> Option<()> {
    let device = BlockDevice::new(stack);
    black_box(device.geometry());
    let memory = BLOCK.take()?;
    let lba = black_box(7);
    let some = memory.get_mut(..black_box(512))?;
    black_box(device.read_blocking(lba, some, board::idle).is_ok());
    black_box(device.write_blocking(lba, some, board::idle).is_ok());
    black_box(device.flush_blocking(board::idle).is_ok());
    let future = async {
        let (read, buf) = device.read(lba, scratch).await;
        let (written, buf) = device.write(lba, buf).await;
        let flushed = device.flush().await;
        black_box(read.is_ok() & written.is_ok() & flushed.is_ok());
        let mut copying = Bounced::new(device, buf).ok()?;
        let done = copying.read(lba, some).await.is_ok() & copying.write(lba, some).await.is_ok();
        black_box(done & copying.flush().await.is_ok());
        Some(())
    };
    stack.block_on(future, board::idle)
}

/// Uses the policies of waiting: spin, or leave.
fn waiting(stack: &'static Stack<8>) {
    let advance = WaitStrategy::new(black_box(Costs::UNKNOWN)).listening_by(|on| {
        black_box(on);
    });
    let request = Request::new(black_box(Kind::Read { lba: 7, blocks: 1 }), DmaBuf::EMPTY);
    let done = stack.block_on(stack.request_with(&advance, request), board::idle);
    black_box(done.result.is_ok());
    black_box(stack.with(|engine| (engine.awaited().copied(), engine.last_phase(), engine.bus())));
    advance.set_bus(black_box(Bus { clock_hz: 1, ..advance.bus() }));
    let from = black_box(Context::Deferred);
    for wait in [black_box(Wait::fifo(7)), black_box(Wait::fifo(8))] {
        black_box((
            advance.choose(&wait, from, black_box(9)),
            advance.expected_ns(&wait),
            advance.price_ns(from),
        ));
        advance.saw(&wait, black_box(10));
        advance.gave_up(&wait, black_box(11));
        advance.slept(from, black_box(12), black_box(13));
    }
    black_box(advance.costs().dma_from_bytes());
}

/// Uses the engine's own functions.
fn queue(engine: &mut Entry<'_, Driver, 8, mmcq::sched::Prompt>) {
    let now_ns = black_box(1);
    let mut id: Option<SlotId> = None;
    for kind in black_box([
        Kind::Read { lba: 0, blocks: 1 },
        Kind::Write { lba: 0, blocks: 1 },
        Kind::Flush,
        Kind::Bus(BusOp::ResetAll),
        Kind::Pause { ns: 1 },
    ]) {
        id = engine.submit(Request::new(kind, DmaBuf::EMPTY), now_ns).ok();
    }
    let _ = black_box(engine.on_irq(now_ns));
    let _ = black_box(engine.poll(now_ns));
    black_box(engine.next_deadline_ns());
    if let Some(id) = id {
        black_box(engine.will_wake(id, Waker::noop()));
        black_box(engine.set_waker(id, Waker::noop().clone()).is_some());
        black_box(engine.take(id).is_some());
        black_box(engine.cancel(id).is_some());
        engine.abandon(id);
    }
    black_box(engine.id_of(black_box(3)));
    black_box(engine.take_waker(black_box(3)).is_some());
    black_box(engine.reclaim(black_box(DmaBuf::EMPTY.claim())).is_some());
    engine.abort(now_ns);
    engine.suspend();
    engine.resume(now_ns);
    engine.halt();
    engine.set_card_params(black_box(None::<CardParams>));
    black_box((engine.is_idle(), engine.is_quiet(), engine.take_retune(), engine.slots_in_use()));
    black_box(engine.stats());
    black_box(engine.set_service_waker(black_box(Some(Waker::noop().clone()))).is_some());
    black_box((
        engine.take_service_request(),
        engine.take_service_waker().is_some(),
        engine.incidents().count(),
    ));
    engine.service_done(black_box(Err(Error::Silent)), now_ns);
    engine.presence_changed(now_ns);
    // SAFETY: this code is never executed.
    if let Some(host) = unsafe { engine.host_mut() } {
        host.card_irq(black_box(true));
        black_box((host.present(), host.write_protected(), host.dat0_busy()));
    }
}

/// Uses another controller, which continues open transfers, with every scheduler.
fn scheduled() -> Option<()> {
    let config =
        deadline::DeadlineConfig::new(black_box(1), black_box(2), black_box(3), black_box(4)).ok()?;
    let weights = fair::FairConfig::<8>::new(black_box([1; 8])).ok()?;
    let weights =
        weights.with_budget(black_box(8), black_box(9)).ok()?.with_idling(black_box(1), black_box(2)).ok()?;
    let weights = weights.with_async(black_box(2), black_box(3)).ok()?;
    let policy = match black_box(0) {
        0 => Any::<8>::Fifo(Fifo),
        1 => Any::Deadline(Deadline::new(config)),
        2 => Any::ReadsFirst(ReadsFirst::new()),
        _ => Any::Fair(Fair::new(weights)),
    };
    let host = size::card_reader(black_box(rtsx::RtsxConfig::new(black_box(rtsx::Chip::Rts5249))))?.ok()?;
    let mut engine =
        Engine::<size::CardReader, 8, Any<8>>::with_policy(host, black_box(Config::DEFAULT), policy);
    let now_ns = black_box(1);
    engine.set_card_params(black_box(None::<CardParams>));
    for kind in black_box([
        Kind::Read { lba: 0, blocks: 1 },
        Kind::Write { lba: 0, blocks: 1 },
        Kind::Flush,
        Kind::Bus(BusOp::ResetAll),
    ]) {
        let request = Request::new(kind, DmaBuf::EMPTY).from(black_box(Origin::DEFAULT));
        black_box(engine.submit(request, now_ns).is_ok());
    }
    let _ = black_box(engine.on_irq(now_ns));
    let _ = black_box(engine.poll(now_ns));
    engine.halt();
    black_box((engine.take_continue_lost(), engine.is_quiet(), engine.policy().name()));
    Some(())
}

/// Uses the controllers whose data the CPU moves, and the functions of an I/O card through one of
/// them.
fn by_cpu() -> Option<()> {
    let regs = size::registers()?;
    let mut pl181 = pl181::Pl181::new(regs, black_box(pl181::Pl181Config::new(1, 2))).ok()?;
    whole_host(&mut pl181);
    let host =
        s3c_sdi::S3cSdi::new(size::registers()?, board::Identity, black_box(s3c_sdi::S3cSdiConfig::new(1)))
            .ok()?;
    let stack: mmcq::task::Stack<(InterruptsOff, size::SocHost), 8> =
        mmcq::task::Stack::new(InterruptsOff, size::TIMER, host, Config::DEFAULT);
    // SAFETY: this code is never executed.
    stack.with(|engine| unsafe { engine.host_mut() }.map(whole_host));
    let (card, scratch) =
        stack.block_on(bring_up_io(&stack, size::scratch()?, black_box(Options::DEFAULT)), board::idle);
    let card = card.ok()?;
    black_box((card.count(), card.manufacturer()));
    let mut function = Function::new(&stack, &card, black_box(1)).ok()?;
    let future = async {
        let mut irq = CardInterrupt::new(&stack, &card);
        black_box(function.enable().await.is_ok() & function.set_block_size(black_box(64)).await.is_ok());
        let (done, scratch) = function.read(At::Fifo(black_box(0)), black_box(9), scratch, Chain::More).await;
        let (more, scratch) =
            function.write(At::From(black_box(0)), black_box(9), scratch, Chain::Last).await;
        black_box(
            done.is_ok() & more.is_ok() & function.abort().await.is_ok() & function.reset().await.is_ok(),
        );
        black_box(function.write_read_u8(black_box(1), black_box(2), Chain::Last).await.is_ok());
        black_box(function.write_common_u8(black_box(0xf0), black_box(2), Chain::Last).await.is_ok());
        black_box(function.read_common_u8(black_box(0xf0), Chain::Last).await.is_ok());
        let bluetooth = TypeA::open(function, &mut irq, black_box(256)).await.ok()?;
        let (packet, scratch) = bluetooth.receive(&mut irq, scratch).await;
        black_box(packet.is_ok());
        black_box(bluetooth.transmit(black_box(1), black_box(2), scratch).await.0.is_ok());
        black_box(irq.disable(black_box(1)).await.is_ok());
        Some(())
    };
    stack.block_on(future, board::idle)
}

/// Uses every method of a driver.
fn whole_host<H: Host>(host: &mut H) {
    let phase = black_box(mmcq::host::Phase {
        command: mmcq::spec::command::Command::new(18, 0, mmcq::spec::command::Resp::R1),
        data: Some(mmcq::host::Data { direction: mmcq::host::Direction::Read, block_size: 512, blocks: 1 }),
        auto: mmcq::host::Auto::None,
        tuning: false,
    });
    black_box(host.start(&phase, &[], black_box(1)).is_ok());
    black_box(host.ack(&[]));
    black_box(host.set_bus(black_box(BusOp::ResetAll), black_box(true), black_box(1)));
    host.card_irq(black_box(true));
    black_box((host.present(), host.write_protected(), host.dat0_busy()));
}

static QUEUE_TABLE: Once<sdhci::Table<8>> = Once::new(sdhci::Table::new());
static TASKS: Once<sdhci::TaskList<4>> = Once::new(sdhci::TaskList::new());

/// Uses a controller with a command queue engine.
fn whole_queue() -> Option<()> {
    let (table, list) = (QUEUE_TABLE.take()?, TASKS.take()?);
    let host = sdhci::Sdhci::new(size::registers()?, board::Identity, table, black_box(size::CONFIG)).ok()?;
    // SAFETY: this code is never executed.
    let queue = unsafe { sdhci::CqhciConfig::at(0x200) };
    let mut host = sdhci::Cqhci::new(host, list, queue);
    whole_host(&mut host);
    let task = black_box(mmcq::host::Task {
        direction: mmcq::host::Direction::Read,
        address: 0,
        blocks: 8,
        flags: mmcq::host::TaskFlags::NONE,
        context: 0,
    });
    let command = black_box(mmcq::spec::command::Command::new(6, 0, mmcq::spec::command::Resp::R1b));
    black_box(host.queue_caps().is_ok());
    black_box(host.enable_queue(&black_box(mmcq::host::QueueSettings::new(1))).is_ok());
    black_box(host.prepare_task(black_box(1), &task, black_box(&[])).is_ok());
    black_box(host.prepare_command(&command, black_box(true)).is_ok());
    host.withdraw(black_box(1));
    black_box((host.ring(black_box(1)), host.ack_queue(), host.queue_state()));
    black_box((host.halt_queue().is_ok(), host.clear_task(black_box(1)).is_ok(), host.clear_tasks().is_ok()));
    black_box((host.resume_queue().is_ok(), host.disable_queue().is_ok()));
    Some(())
}

/// Uses the functions for sequential code in the interrupt.
fn interrupt_task(stack: &'static Stack<8>) {
    let future = async {
        let result: Result<(), Error> = stack.pause(black_box(1)).await;
        black_box(result.is_ok());
    };
    let ran = TASK.scope(future, Waker::noop(), || {
        while !TASK.is_finished() {
            board::sleep_if(|| !TASK.is_finished());
        }
    });
    black_box(ran.is_some());
}

/// Reads every field of a card's registers.
fn registers(card: &Card) -> bool {
    let clock_hz = black_box(card.clock_hz);
    for words in black_box([card.cid, card.csd]) {
        black_box((Cid::parse_sd(&words), Cid::parse_emmc(&words)));
        black_box(Cid::parse_sd(&words).name());
        black_box(Cid::parse_emmc(&words).emmc_year(black_box(5)));
        for csd in [Csd::parse_sd(&words), Csd::parse_emmc(&words)].into_iter().flatten() {
            black_box((csd.blocks(), csd.erase_unit_bytes(), csd.access_time_ns(clock_hz)));
            black_box((csd.read_timeout_ns(clock_hz), csd.write_timeout_ns(clock_hz)));
            black_box(csd);
        }
    }
    let bytes = black_box([0; 64]);
    let ssr = Ssr::parse(&bytes);
    black_box(ssr.erase_timeout_ns(black_box(9)));
    black_box(ssr);
    let switch = SwitchStatus::parse(&bytes);
    for group in black_box([mmcq::spec::command::sd::Group::AccessMode]) {
        let function = black_box(15);
        black_box((switch.supports(group, function), switch.selected(group), switch.busy(group, function)));
    }
    black_box((crc::crc7(&bytes), crc::crc16(&bytes), crc::crc16_lanes4(&bytes), crc::crc16_lanes8(&bytes)));
    Scr::parse(&black_box([0; 8])).is_ok()
}

/// Reads EXT_CSD and the values derived from it.
fn extended(memory: &[u8]) {
    let Ok(bytes) = memory.try_into() else { return };
    let Ok(ext) = ExtCsd::parse(bytes) else { return };
    let partition = black_box(3);
    black_box((
        ext.capacity_bytes(),
        ext.sector_bytes(),
        ext.hc_erase_group_bytes(),
        ext.hc_wp_group_bytes(),
    ));
    black_box((ext.boot_bytes(), ext.rpmb_bytes(), ext.gp_bytes(partition), ext.context_conf(partition)));
    black_box((
        ext.enhanced_start_bytes(),
        ext.enhanced_bytes(),
        ext.max_enhanced_bytes(),
        ext.cache_bytes(),
    ));
    black_box((ext.cmdq_depth(), ext.hpi(), ext.vendor_health(), ext.pre_eol(), ext.life_time_a()));
    black_box((ext.generic_cmd6_time_ns(), ext.part_switch_time_ns(), ext.out_of_interrupt_time_ns()));
    black_box((ext.power_off_long_time_ns(), ext.sleep_awake_time_ns(), ext.sleep_notification_time_ns()));
    black_box((ext.first_power_up_time_ns(), ext.erase_timeout_ns(), ext.trim_timeout_ns()));
    black_box((ext.secure_erase_timeout_ns(), ext.secure_trim_timeout_ns(), ext.firmware_version()));
}

/// Formats errors by `Display` only, since core's own `Debug` of a string can panic.
fn texts(error: Error) {
    struct Sink;
    impl core::fmt::Write for Sink {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            black_box(text);
            Ok(())
        }
    }
    black_box(core::fmt::write(&mut Sink, format_args!("{error}")).is_ok());
}

/// With the feature `planted`, uses an index that may be out of bounds: the link must fail.
fn plant() {
    #[cfg(feature = "planted")]
    black_box(black_box([1, 2, 3])[black_box(3)]);
}

/// Interrupt handler of the controller.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {
    if let Some(stack) = STACK.get() {
        stack.on_irq();
        stack.poll();
    }
    TASK.poll(Waker::noop());
}
