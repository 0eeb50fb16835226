//! Tests of the stack on the register model of a PL022. The port of the driver moves bytes by
//! interrupts, and each register access costs CPU time.

use crate::timed;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::Config;
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use mmcq::host::{Regs, Segment};
use mmcq_sim::pl022::{self, Pl022};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use timed::blocks as buffer;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;

type Stack = timed::On<Erased<{ constants::<Spi<Pio>>() }>>;

const SSPCLK_HZ: u32 = 50_000_000;
/// The interrupts RXIM (the receive FIFO is half full) and RTIM (bytes have stayed in the receive
/// FIFO, and no further byte came).
const RECEIVED: u32 = 0x6;

/// A port over a PL022, with at most eight bytes under way.
struct Pio {
    regs: pl022::Port,
    /// Bytes of the exchange under way: the bytes to send, which received bytes replace one by one.
    bytes: Vec<u8>,
    /// Memory that the received bytes go to; `None`: they are dropped.
    to: Option<Segment>,
    sent: usize,
    got: usize,
}

// SAFETY: the port reads the memory in `exchange`, and writes it once in `done`, before that
// reports the end.
unsafe impl Port for Pio {
    fn exchange(&mut self, exchange: Exchange) {
        // SAFETY: the driver lends the memory until `done`.
        let bytes = |segment: &Segment| unsafe {
            std::slice::from_raw_parts(segment.ptr().as_ptr(), segment.len_bytes() as usize).to_vec()
        };
        (self.bytes, self.to) = match exchange {
            Exchange::Swap(segment) => (bytes(&segment), Some(segment)),
            Exchange::Receive(segment) => (vec![0xff; segment.len_bytes() as usize], Some(segment)),
            Exchange::Send(segment) => (bytes(&segment), None),
            Exchange::Idle(count) => (vec![0xff; count as usize], None),
        };
        (self.sent, self.got) = (0, 0);
        self.regs.write32(0x14, RECEIVED);
        self.done();
    }

    fn done(&mut self) -> Progress {
        while self.regs.read32(0xc) & 4 != 0 {
            self.bytes[self.got] = self.regs.read32(8) as u8;
            self.got += 1;
        }
        while self.sent < self.bytes.len() && self.sent - self.got < 8 {
            self.regs.write32(8, self.bytes[self.sent].into());
            self.sent += 1;
        }
        self.regs.write32(0x20, 2);
        if self.got < self.bytes.len() {
            return Progress::Going;
        }
        self.regs.write32(0x14, 0);
        if let Some(segment) = self.to.take() {
            // SAFETY: the driver lends the memory until `done`, which has not reported the end yet.
            unsafe { segment.ptr().as_ptr().copy_from(self.bytes.as_ptr(), self.bytes.len()) };
        }
        Progress::Done
    }

    fn stop(&mut self) -> bool {
        (self.sent, self.got, self.to) = (0, 0, None);
        self.bytes.clear();
        self.regs.write32(0x14, 0);
        true
    }

    fn select(&mut self, on: bool) {
        self.regs.write32(0x1004, u32::from(!on));
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            let divisor = SSPCLK_HZ.div_ceil(hz).next_multiple_of(2);
            self.regs.write32(0x10, divisor.clamp(2, 254));
        }
    }
}

struct Rig {
    model: Rc<RefCell<Pl022>>,
    port: pl022::Port,
    stack: Stack,
}

impl Rig {
    fn new(card: &str, access_ns: u64) -> Rig {
        let card = timed::card(&timed::profile(card));
        let model = Rc::new(RefCell::new(Pl022::new(SSPCLK_HZ, Some(card))));
        let port = pl022::Port::new(model.clone(), Time::new(), access_ns, access_ns);
        // Sets chip select as an output and high, then eight bits, mode 0, and enables the PL022.
        for (offset, value) in [(0x1004, 1), (0x1400, 1), (0x151c, 1), (0x10, 254), (0, 7), (4, 2)] {
            port.write32(offset, value);
        }
        let pio = Pio { regs: port.clone(), bytes: Vec::new(), to: None, sent: 0, got: 0 };
        let host = Spi::new(pio, Box::leak(Box::new(SpiMemory::new())), SpiConfig::new(25_000_000));
        NOW_NS.set(port.time.now());
        Rig { model, port, stack: timed::on(Erased::new(host), Config::DEFAULT) }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.port.time, future)
    }
}

#[test]
fn a_card_behind_fifos_of_eight_words() {
    for (card, access_ns) in [("sdsc-1g", 20), ("sdhc-16g-hs", 80), ("sdxc-64g-a2", 250)] {
        let rig = Rig::new(card, access_ns);
        rig.drive(card::bring_up_sd(&rig.stack, buffer(1), card::Options::DEFAULT)).0.unwrap();
        let mut data = buffer(16);
        data.iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * 7 / 3) as u8);
        let expected = data.to_vec();
        let device = BlockDevice::new(&rig.stack);
        rig.drive(device.write(3, data)).0.unwrap();
        let (result, back) = rig.drive(device.read(3, buffer(16)));
        result.unwrap();
        assert_eq!(back[..], expected[..], "{card}");
        let mut held = vec![0; 16 * 512];
        rig.model.borrow_mut().card_mut().unwrap().peek(3 * 512, &mut held).unwrap();
        assert_eq!(held, expected, "{card}");
        let model = rig.model.borrow();
        assert_eq!((model.protocol_violations(), model.stats().blocks_bad), (0, 0), "{card}");
        // Each interrupt moves half a FIFO at most.
        assert!(model.stats().interrupts > 16 * 512 * 2 / 8, "{}", model.stats().interrupts);
    }
}
