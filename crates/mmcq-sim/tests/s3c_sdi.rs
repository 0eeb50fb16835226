//! Tests of the whole stack on the model of Samsung's SDI, whose driver was written independently
//! of the model: an I/O card is brought up, and packets move both ways by the CPU and by DMA,
//! driven by the interrupt alone.

use crate::timed;
use mmcq::card::{self, Options};
use mmcq::engine::Config;
use mmcq::host::s3c_sdi;
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{CardInterrupt, Function};
use mmcq_sim::card::io::{Behind, IoProfile, type_a};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::s3c_sdi::{Port, S3cSdi, S3cSdiConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timed::bytes as buffer;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;

type Driver = s3c_sdi::S3cSdi<Port, ShadowMemory>;
type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

struct Rig {
    time: Time,
    model: Rc<RefCell<S3cSdi>>,
    memory: ShadowMemory,
    stack: Stack,
    counts: type_a::Handle,
}

impl Rig {
    /// Returns a rig with the Bluetooth card, which sends `packets` packets of `payload_bytes`
    /// bytes.
    fn new(dma: s3c_sdi::DmaUse, packets: u64, payload_bytes: u32, dma_word_ns: u32) -> Rig {
        let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut profile = IoProfile::from_toml(&text, "bt-type-a").unwrap();
        for behind in profile.behind_mut() {
            if let Behind::TypeA(source) = behind {
                (source.packets, source.payload_bytes) = (Some(packets), payload_bytes);
            }
        }
        let (card, mut handles) = profile.build();
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let controller = S3cSdiConfig { dma_word_ns, ..S3cSdiConfig::S3C2440 };
        let model = S3cSdi::new(controller, memory.clone(), Some(Box::new(card)));
        let model = Rc::new(RefCell::new(model));
        let port = Port::new(model.clone(), time.clone(), 100, 100);
        let config = s3c_sdi::S3cSdiConfig::new(50_000_000).dma(dma).max_clock_hz(10_000_000);
        let host = Driver::new(port, memory.clone(), config).unwrap_or_else(|error| panic!("{error}"));
        NOW_NS.set(0);
        let stack = timed::on(Erased::new(host), Config::DEFAULT);
        Rig { time, model, memory, stack, counts: handles.remove(0).1 }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        let stats = self.stack.with(|engine| *engine.stats());
        // The three faults: CMD52 (reset), and CMD8 twice, before the card can answer.
        assert_eq!((stats.lost_interrupts, stats.faults), (0, 3), "{stats:?}");
    }
}

/// Checks packets of 2 KiB, of odd lengths and of one byte, by the CPU, by DMA, and by whichever
/// fits.
#[test]
fn packets_arrive_whole_and_answers_leave() {
    use s3c_sdi::DmaUse::{From, Never};
    for (dma, bytes, dma_word_ns) in [
        (Never, 2048, 0),
        (Never, 1, 0),
        (Never, 31, 0),
        (Never, 517, 0),
        (From(64), 2048, 100),
        (From(4), 62, 100),
        // The memory bus is so slow that words are still in the FIFO when the last block is over on
        // the lines.
        (From(64), 2048, 1_500),
        (From(4), 62, 1_500),
    ] {
        let rig = Rig::new(dma, 20, bytes, dma_word_ns);
        let seen = rig.drive(async {
            let (card, _) = card::bring_up_io(&rig.stack, buffer(512), Options::DEFAULT).await;
            let card = card.unwrap_or_else(|error| panic!("{error}"));
            let function = Function::new(&rig.stack, &card, 1).unwrap();
            let mut irq = CardInterrupt::new(&rig.stack, &card);
            let bluetooth = TypeA::open(function, &mut irq, 512).await.unwrap();
            let (mut buf, mut reply) = (buffer(2048), buffer(100));
            let mut seen = Vec::new();
            for number in 0..20 {
                let received;
                (received, buf) = bluetooth.receive(&mut irq, buf).await;
                let received = received.unwrap_or_else(|error| panic!("{dma:?} {bytes}: {error}"));
                let expected = type_a::packet(number, bytes);
                seen.push(buf[..received.bytes as usize] == expected[4..]);
                reply[4..].fill(number as u8);
                let sent;
                (sent, reply) = bluetooth.transmit(received.kind, 90 + number as u32 % 4, reply).await;
                sent.unwrap();
            }
            seen
        });
        assert_eq!(seen, [true; 20], "{dma:?} {bytes}");
        let counts = rig.counts.borrow();
        assert_eq!((counts.delivered, counts.sent_count, counts.overrun), (20, 20, 0));
        assert_eq!((counts.retried, counts.stray, counts.sent_dropped), (0, 0, 0));
        rig.checked();
    }
}

/// Checks a lost interrupt edge: a further packet in the card pulls DAT1 low again at the
/// acknowledgement, in the middle of a command. No edge is detected, so the driver must look at the
/// level.
#[test]
fn an_interrupt_whose_edge_was_lost_is_found_by_its_level() {
    let rig = Rig::new(s3c_sdi::DmaUse::Never, 8, 2048, 0);
    rig.drive(async {
        let (card, _) = card::bring_up_io(&rig.stack, buffer(512), Options::DEFAULT).await;
        let card = card.unwrap();
        let function = Function::new(&rig.stack, &card, 1).unwrap();
        let mut irq = CardInterrupt::new(&rig.stack, &card);
        let bluetooth = TypeA::open(function, &mut irq, 512).await.unwrap();
        rig.stack.pause(15_000_000).await.unwrap();
        let mut buf = buffer(2048);
        for _ in 0..4 {
            let received;
            (received, buf) = bluetooth.receive(&mut irq, buf).await;
            received.unwrap();
        }
    });
    assert!(rig.model.borrow().lost_edges() >= 3, "{}", rig.model.borrow().lost_edges());
    rig.checked();
}
