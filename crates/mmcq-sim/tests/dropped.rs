//! Drops futures at every poll, over controllers and cards by register. Checks that the controller
//! never writes into memory that is not its own any more, that every slot and buffer comes back,
//! and that later requests work, in bounded time.

use crate::timed;
use mmcq::block::{BlockDevice, Bounced};
use mmcq::board::NoLock;
use mmcq::card::{self, IoCard, Options, bring_up_io};
use mmcq::engine::{Claim, Config, DmaBuf};
use mmcq::host::sdhci::{self, Table, TransferMode};
use mmcq::host::{Data, Direction};
use mmcq::sched::Fifo;
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{At, CardInterrupt, Chain, Function};
use mmcq::spec::command::{self, sd};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use timed::one_thread::{NOW_NS, TIMER};

type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;
type Stack = mmcq::task::Stack<(NoLock, Driver, Fifo), 4>;

/// Time in ns after which everything that was under way when a future was dropped has ended: the
/// longest timeout of a card is that of a write, 250 ms to 500 ms.
const SETTLED_NS: u64 = 2_000_000_000;

fn text(card: &str) -> String {
    let path = format!("{}/cards/{card}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn memory_card(name: &str) -> Box<dyn mmcq_sim::card::Card> {
    let profile = CardProfile::from_toml(&text(name), name).unwrap_or_else(|error| panic!("{error}"));
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
    profile.build(medium).unwrap_or_else(|error| panic!("{error}"))
}

struct Rig {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    stack: Stack,
    /// Memory of the buffers that the test gave out.
    given: RefCell<Vec<Box<[u64]>>>,
    /// Claims by which the test gets its buffers back.
    claims: RefCell<Vec<Claim>>,
    back: RefCell<Vec<NonNull<u8>>>,
}

impl Rig {
    fn new(card: Box<dyn mmcq_sim::card::Card>, model: SdhciConfig, driver: sdhci::SdhciConfig) -> Rig {
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Rc::new(RefCell::new(Sdhci::new(model, memory.clone(), Some(card))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let host =
            sdhci::Sdhci::new(port, memory.clone(), Box::leak(Box::new(Table::new())), driver).unwrap();
        NOW_NS.set(0);
        let stack = Stack::with_policy(NoLock::new(), TIMER, host, Config::DEFAULT, Fifo);
        Rig {
            time,
            model,
            memory,
            stack,
            given: RefCell::default(),
            claims: RefCell::default(),
            back: RefCell::default(),
        }
    }

    /// Returns memory that is freed as soon as everything is at rest. The shadow memory reports a
    /// later write of the controller to this memory.
    fn buffer(&self, bytes: u32, fill: u8) -> DmaBuf {
        let words = vec![u64::from_ne_bytes([fill; 8]); bytes.div_ceil(8) as usize];
        let mut words = words.into_boxed_slice();
        let at = NonNull::from(&mut *words).cast();
        self.given.borrow_mut().push(words);
        // SAFETY: `given` keeps the memory until the stack is at rest and has given it back.
        let buf = unsafe { DmaBuf::from_raw(at, bytes) };
        self.claims.borrow_mut().push(buf.claim());
        buf
    }

    fn back(&self, buf: DmaBuf) {
        self.back.borrow_mut().push(buf.as_non_null());
    }

    fn turn(&self) -> Result<(), String> {
        timed::step(&self.stack, &self.model, &self.time)
    }

    fn poll<F: Future + ?Sized>(&self, future: Pin<&mut F>) -> Option<F::Output> {
        NOW_NS.set(self.time.now());
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::try_drive(&self.time, || self.turn(), future).unwrap()
    }

    /// Waits until nothing is under way, and checks that no buffer is missing and no wrong memory
    /// was touched. `kept`: a dropped future may have taken with it a buffer that it held between
    /// two requests.
    fn settle(&self, kept: bool) {
        let from = self.time.now();
        for turns in 0.. {
            if self.stack.with(|engine| engine.is_idle() && engine.next_deadline_ns().is_none()) {
                break;
            }
            assert!(turns < 10_000, "never at rest");
            self.turn().unwrap();
        }
        assert!(self.time.now() - from < SETTLED_NS, "{} ns to rest", self.time.now() - from);
        let lost = |&claim: &Claim| self.stack.with(|engine| engine.reclaim(claim));
        self.claims.borrow().iter().filter_map(lost).for_each(|buf| self.back(buf));
        self.back.borrow_mut().retain(|at| {
            self.given.borrow_mut().iter_mut().any(|words| NonNull::from(&mut **words).cast() == *at)
        });
        assert_eq!(self.stack.with(|engine| engine.slots_in_use()), 0, "a slot leaked");
        assert!(self.memory.live_mappings() <= 1, "only the descriptor table stays mapped");
        let mut given: Vec<NonNull<u8>> =
            self.given.borrow_mut().iter_mut().map(|words| NonNull::from(&mut **words).cast()).collect();
        let mut back = self.back.take();
        given.sort();
        back.sort();
        if kept {
            back.dedup();
            given.retain(|at| back.contains(at));
        }
        assert!(given == back, "of {} buffers, {} came back", given.len(), back.len());
        self.given.borrow_mut().clear();
        timed::checked(&self.memory, &self.model);
    }

    /// Drops the future of `make` after its kth poll, and after the event that follows that poll,
    /// for every k until the future ends by itself. `check` runs each time. `keeps`: between
    /// requests the future holds a buffer of its own.
    fn dropped<'a>(
        &self,
        name: &str,
        keeps: bool,
        make: impl Fn() -> Pin<Box<dyn Future<Output = ()> + 'a>>,
        mut check: impl FnMut(),
    ) {
        let mut drops = 0;
        for polls in 0.. {
            let mut finished = false;
            for event_after in [false, true] {
                let _report = Report(name, polls, event_after);
                let mut future = make();
                for poll in 0..=polls {
                    finished = self.poll(future.as_mut()).is_some();
                    if finished {
                        break;
                    }
                    if poll < polls || event_after {
                        self.turn().unwrap();
                    }
                }
                drop(future);
                self.settle(keeps);
                check();
                self.settle(false);
                drops += 1;
            }
            if finished {
                break;
            }
        }
        println!("{name}: dropped {drops} times");
        assert!(drops > 4, "{name}: there was nothing to drop");
    }
}

/// Prints the name, the poll and the moment of a test that fails.
struct Report<'a>(&'a str, u32, bool);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let when = if self.2 { "and the event that followed" } else { "" };
            eprintln!("{}: dropped after poll {} {when}", self.0, self.1);
        }
    }
}

const BLOCKS: u32 = 8;
const BYTES: u32 = BLOCKS * 512;
/// First block of the area that the tests only read.
const READ_AT: u64 = 5_000;
/// First block of the area that the tests write.
const WRITE_AT: u64 = 9_000;

async fn contents(rig: &Rig, lba: u64) -> Vec<u8> {
    let (result, buf) = BlockDevice::new(&rig.stack).read(lba, rig.buffer(BYTES, 0)).await;
    assert_eq!(result, Ok(BLOCKS));
    let bytes = buf.to_vec();
    rig.back(buf);
    bytes
}

async fn written(rig: &Rig, fill: u8) {
    let (result, buf) = BlockDevice::new(&rig.stack).write(WRITE_AT, rig.buffer(BYTES, fill)).await;
    assert_eq!(result, Ok(BLOCKS));
    rig.back(buf);
}

/// Checks that a following read brings the card's original data, and that each block of the written
/// area holds one of the patterns that were written there.
fn intact(rig: &Rig, expected: &[u8], fills: &[u8]) {
    assert!(rig.drive(contents(rig, READ_AT)) == expected, "other data than before");
    let bytes = rig.drive(contents(rig, WRITE_AT));
    for (at, block) in bytes.chunks(512).enumerate() {
        let whole = block.iter().all(|&byte| byte == block[0]);
        assert!(whole && fills.contains(&block[0]), "block {at} is torn or was never written so");
    }
}

fn every_workload(rig: &Rig, card: &str) {
    let found = rig.drive(async {
        let (card, scratch) = card::bring_up(&rig.stack, rig.buffer(512, 0), Options::DEFAULT).await;
        rig.back(scratch);
        card
    });
    let rca = found.unwrap_or_else(|error| panic!("{card}: {error}")).params.rca;
    rig.drive(written(rig, 0x11));
    let expected = rig.drive(contents(rig, READ_AT));
    let check = || intact(rig, &expected, &[0x11, 0x22, 0x33, 0x44]);
    let device = &BlockDevice::new(&rig.stack);

    rig.dropped(
        &format!("{card}: read"),
        false,
        || Box::pin(async { drop(contents(rig, READ_AT).await) }),
        check,
    );
    rig.dropped(&format!("{card}: write"), false, || Box::pin(written(rig, 0x22)), check);
    rig.dropped(
        &format!("{card}: write, flush, read"),
        false,
        || {
            Box::pin(async move {
                written(rig, 0x33).await;
                device.flush().await.unwrap();
                assert!(contents(rig, WRITE_AT).await.iter().all(|&byte| byte == 0x33));
            })
        },
        check,
    );
    rig.dropped(
        &format!("{card}: three reads and a write at once"),
        false,
        || {
            let mut all: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![Box::pin(written(rig, 0x22)) as _];
            for n in 0..3 {
                all.push(Box::pin(async move { drop(contents(rig, READ_AT + 64 * n).await) }));
            }
            Box::pin(std::future::poll_fn(move |context| {
                all.retain_mut(|task| task.as_mut().poll(context).is_pending());
                if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            }))
        },
        check,
    );
    // A device with a bounce buffer of two blocks: it copies four pieces in each direction. Its
    // bounce buffer is not counted.
    rig.dropped(
        &format!("{card}: copied"),
        false,
        || {
            Box::pin(async move {
                let bounce = Box::leak(vec![0u64; 128].into_boxed_slice());
                let at = NonNull::from(bounce).cast();
                // SAFETY: the memory is leaked.
                let bounce = unsafe { DmaBuf::from_raw(at, 1024) };
                rig.claims.borrow_mut().push(bounce.claim());
                let mut copying = Bounced::new(device.clone(), bounce).unwrap();
                assert_eq!(copying.write(WRITE_AT, &[0x44; BYTES as usize]).await, Ok(BLOCKS));
                let mut back = vec![0; BYTES as usize];
                assert_eq!(copying.read(WRITE_AT, &mut back).await, Ok(BLOCKS));
                assert!(back.iter().all(|&byte| byte == 0x44));
            })
        },
        check,
    );
    rig.dropped(
        &format!("{card}: raw"),
        false,
        || {
            Box::pin(async move {
                let (prefix, command, bytes) = match card.starts_with("sd") {
                    true => (Some(command::app_cmd(rca)), sd::sd_status(), 64),
                    false => (None, command::emmc::send_ext_csd(), 512),
                };
                let data = Data { direction: Direction::Read, block_size: bytes, blocks: 1 };
                let buf = rig.buffer(bytes.into(), 0);
                let (result, buf) = rig.stack.raw(prefix, command, Some(data), buf, 100_000_000).await;
                assert!(result.is_ok());
                rig.back(buf);
            })
        },
        check,
    );
    rig.dropped(
        &format!("{card}: bring-up"),
        true,
        || {
            Box::pin(async move {
                let (card, scratch) = card::bring_up(&rig.stack, rig.buffer(512, 0), Options::DEFAULT).await;
                rig.back(scratch);
                card.unwrap();
            })
        },
        || {
            // The next bring-up finds the card in whatever state it is.
            let (card, scratch) = rig.drive(card::bring_up(&rig.stack, rig.buffer(512, 0), Options::DEFAULT));
            rig.back(scratch);
            card.unwrap();
            check();
        },
    );
}

#[test]
fn on_an_sd_card() {
    let rig = Rig::new(memory_card("sdhc-16g-hs"), SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    every_workload(&rig, "sdhc-16g-hs");
}

#[test]
fn on_an_sd_card_by_pio() {
    let driver = sdhci::SdhciConfig::new().transfer(TransferMode::Pio);
    let rig = Rig::new(memory_card("sdhc-16g-hs"), SdhciConfig::GENERIC_3_00, driver);
    every_workload(&rig, "sdhc-16g-hs");
}

#[test]
fn on_an_sd_card_that_is_tuned() {
    let rig = Rig::new(memory_card("sdxc-128g-uhs"), SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    every_workload(&rig, "sdxc-128g-uhs");
}

#[test]
fn on_an_emmc_device() {
    let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::new(memory_card("emmc-hs200"), model, sdhci::SdhciConfig::emmc_18());
    every_workload(&rig, "emmc-hs200");
}

#[test]
fn on_an_io_card() {
    let profile = IoProfile::from_toml(&text("bt-type-a"), "bt-type-a").unwrap();
    let (card, handles) = profile.build();
    let rig = Rig::new(Box::new(card), SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    let rig = &rig;
    let up = || -> IoCard {
        let (card, scratch) = rig.drive(bring_up_io(&rig.stack, rig.buffer(512, 0), Options::DEFAULT));
        rig.back(scratch);
        card.unwrap_or_else(|error| panic!("{error}"))
    };
    rig.dropped(
        "bt-type-a: bring-up",
        true,
        || {
            Box::pin(async move {
                let (card, scratch) = bring_up_io(&rig.stack, rig.buffer(512, 0), Options::DEFAULT).await;
                rig.back(scratch);
                card.unwrap();
            })
        },
        || {
            up();
        },
    );
    let card = up();
    let works = || {
        let mut function = Function::new(&rig.stack, &card, 1).unwrap();
        rig.drive(function.set_block_size(128)).unwrap();
        rig.drive(function.enable()).unwrap();
        // The function's interface code says what the function is [SDIO 6.10]: Bluetooth Type-A.
        rig.drive(function.read_u8(0x14, Chain::Last)).unwrap();
    };
    rig.dropped(
        "bt-type-a: function",
        false,
        || {
            let card = &card;
            Box::pin(async move {
                let mut function = Function::new(&rig.stack, card, 1).unwrap();
                function.enable().await.unwrap();
                function.set_block_size(128).await.unwrap();
                function.write_u8(0x14, 0, Chain::Last).await.unwrap();
                function.read_u8(0x13, Chain::More).await.unwrap();
                let (result, buf) = function.read(At::From(0x10), 4, rig.buffer(64, 0), Chain::Last).await;
                result.unwrap();
                rig.back(buf);
            })
        },
        works,
    );
    // The card sends packets by itself. A receiver that was dropped in the middle of a packet
    // leaves it to the next receiver, which receives it from its start.
    let mut irq = CardInterrupt::new(&rig.stack, &card);
    let function = Function::new(&rig.stack, &card, 1).unwrap();
    let bluetooth = rig.drive(TypeA::open(function, &mut irq, 512)).unwrap();
    let irq = RefCell::new(irq);
    #[allow(
        clippy::await_holding_refcell_ref,
        reason = "one of them at a time, and a dropped one gives it back"
    )]
    let receive = async || {
        let (result, buf) = bluetooth.receive(&mut irq.borrow_mut(), rig.buffer(4096, 0)).await;
        result.unwrap();
        rig.back(buf);
    };
    rig.dropped("bt-type-a: packet", true, || Box::pin(receive()), || rig.drive(receive()));
    let counts = handles[0].1.borrow();
    assert!(counts.delivered >= 34 && counts.retried > 0, "{} {}", counts.delivered, counts.retried);
}

/// Drops the whole driver in the middle of a packet, in either direction, and opens it anew. The
/// function must not wait for an answer of the old driver.
#[test]
fn a_type_a_driver_is_opened_anew() {
    const PAYLOAD: u32 = 1_000;
    let profile = IoProfile::from_toml(&text("bt-type-a"), "bt-type-a").unwrap();
    let (card, handles) = profile.build();
    let rig = Rig::new(Box::new(card), SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    let (card, scratch) = rig.drive(bring_up_io(&rig.stack, rig.buffer(512, 0), Options::DEFAULT));
    rig.back(scratch);
    let card = card.unwrap_or_else(|error| panic!("{error}"));
    let (rig, card) = (&rig, &card);
    // The driver receives some packets, sends one in two commands, and is dropped.
    let driver = async |packets: u64| {
        let mut irq = CardInterrupt::new(&rig.stack, card);
        let function = Function::new(&rig.stack, card, 1).unwrap();
        let bluetooth = TypeA::open(function, &mut irq, 512).await.unwrap();
        for number in 0..packets {
            let (result, buf) = bluetooth.receive(&mut irq, rig.buffer(4096, 0)).await;
            // The function makes the packets; the first after each reset has number 0.
            let sent = mmcq_sim::card::io::type_a::packet(number, 2048);
            assert_eq!(result.map(|packet| packet.bytes), Ok(2048));
            assert!(buf[..2048] == sent[4..], "packet {number} has other data than were sent");
            rig.back(buf);
        }
        let (result, buf) = bluetooth.transmit(1, PAYLOAD, rig.buffer(PAYLOAD + 4, 0x5a)).await;
        result.unwrap();
        rig.back(buf);
    };
    let counts = || handles[0].1.borrow();
    let mut whole = 0;
    rig.dropped(
        "bt-type-a: driver",
        true,
        || Box::pin(driver(2)),
        || {
            let (delivered, sent) = (counts().delivered, counts().sent_count);
            rig.drive(driver(1));
            whole += 1;
            assert_eq!(counts().delivered, delivered + 1);
            assert_eq!(counts().sent_count, sent + 1);
            let last = counts().sent.back().cloned().unwrap();
            assert_eq!((last.len() as u32, &last[..4]), (PAYLOAD + 4, &[0xec, 0x03, 0, 1][..]));
        },
    );
    // The remainder of a packet was never taken for the start of the next, and no answer was given
    // twice.
    assert!(whole > 30, "{whole}");
    assert_eq!((counts().cut_short, counts().retried, counts().stray, counts().sent_dropped), (0, 0, 0, 0));
}
