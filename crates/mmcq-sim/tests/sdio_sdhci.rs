//! Tests of an I/O card on the SDHCI model: bring-up, functions, the card interrupt by the
//! controller's own status bit, and packets within the time of the interrupt.

use crate::timed;
use mmcq::card::{Options, bring_up_io};
use mmcq::engine::Config;
use mmcq::host::sdhci::{self, Table};
use mmcq::host::{Timing, Width};
use mmcq::sdio::bluetooth::{self, TypeA};
use mmcq::sdio::{CardInterrupt, Function};
use mmcq_sim::card::io::{IoProfile, type_a};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::rc::Rc;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;
use timed::{bytes as memory, drive};

type Driver = sdhci::Sdhci<Port, ShadowMemory, 17>;
type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

#[test]
fn packets_come_in_by_the_card_interrupt() {
    const PACKETS: u64 = 40;
    let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
    let profile = IoProfile::from_toml(&std::fs::read_to_string(&path).unwrap(), "bt-type-a").unwrap();
    let (card, handles) = profile.build();
    let time = Time::new();
    let shadow = ShadowMemory::new(MemoryConfig::BITS32);
    let model =
        Rc::new(RefCell::new(Sdhci::new(SdhciConfig::GENERIC_4_20, shadow.clone(), Some(Box::new(card)))));
    let port = Port::new(model.clone(), time.clone(), 0, 0);
    let table = Box::leak(Box::new(Table::<17>::new()));
    let host = sdhci::Sdhci::new(port, shadow.clone(), table, sdhci::SdhciConfig::new()).unwrap();
    NOW_NS.set(0);
    let stack: Stack = timed::on(Erased::new(host), Config::DEFAULT);
    let found = drive(&stack, &model, &time, bring_up_io(&stack, memory(512), Options::DEFAULT)).0;
    let card = found.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((card.count(), card.timing, card.width), (1, Timing::HighSpeed, Width::W4));
    let receive = async {
        let mut irq = CardInterrupt::new(&stack, &card);
        let function = Function::new(&stack, &card, 1).unwrap();
        let bluetooth = TypeA::open(function, &mut irq, 512).await.unwrap();
        let mut buf = memory(2048);
        for number in 0..PACKETS {
            let result;
            (result, buf) = bluetooth.receive(&mut irq, buf).await;
            let got = result.unwrap_or_else(|error| panic!("packet {number}: {error}"));
            let sent = type_a::packet(number, 2048);
            let payload = sent.get(bluetooth::HEADER_BYTES as usize..).unwrap();
            assert_eq!(got.bytes as usize, payload.len());
            assert!(buf.get(..payload.len()) == Some(payload), "packet {number}: other data than sent");
        }
    };
    drive(&stack, &model, &time, receive);
    let (_, handle) = &handles[0];
    let counts = handle.borrow();
    assert_eq!((counts.delivered, counts.overrun, counts.retried, counts.stray), (PACKETS, 0, 0, 0));
    // From the interrupt line to the cleared cause there are two CMD52 of about 2 us each at 50
    // MHz; this model charges no time for software.
    let worst_ns = counts.latency_ns.iter().max().unwrap();
    assert!(*worst_ns < 20_000, "{worst_ns}");
    timed::checked(&shadow, &model);
}
