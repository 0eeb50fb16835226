//! Models of a controller and a Bluetooth Type-A card that take almost no instructions. A phase has
//! ended when the next interrupt comes, and the card always has a packet.

use mmcq::card::quirk::Quirks;
use mmcq::card::{FunctionInfo, IoCard};
use mmcq::host::{
    BusOp, BusyDetect, Caps, Direction, DmaError, Done, Events, Host, Phase, Segment, StartError, Step,
    Timing, Width,
};
use mmcq::sdio::bluetooth::HEADER_BYTES;
use mmcq::sdio::cccr::Cccr;
use mmcq::sdio::cis::{Cis, FunctionExtension};
use mmcq::sdio::fbr::Fbr;
use mmcq::spec::response::{R4, Response};

/// Size of the payload of each packet in bytes: four blocks.
pub const PAYLOAD_BYTES: u32 = 2048;
pub const BLOCK_BYTES: u16 = 512;
/// The header of each packet as a little-endian number: length and type, an ACL packet.
const HEADER: u32 = 2 << 24 | (PAYLOAD_BYTES + HEADER_BYTES);

/// Address of the register I/O Enable in function 0.
const ENABLE: usize = 0x02;
/// Address of the register I/O Ready in function 0.
const READY: usize = 0x03;
/// Values of the card's registers: both functions are ready, and function 1 requests attention, in
/// INTx and in its own interrupt register.
const REGISTERS: [u8; 32] = {
    let mut registers = [0; 32];
    (registers[ENABLE], registers[READY], registers[0x05], registers[0x13]) = (6, 6, 2, 1);
    registers
};

pub struct Card {
    caps: Caps,
    registers: [u8; 32],
    /// The argument of the phase in progress.
    running: Option<u32>,
    listening: bool,
}

impl Card {
    pub const fn new() -> Self {
        let caps = Caps::NONE
            .auto_stop(true)
            .auto_count(true)
            .no_count(false)
            .busy(BusyDetect::Interrupt)
            .max_busy_ns(1_000_000_000)
            .max_segments(16)
            .max_segment_bytes(65_536)
            .max_block_bytes(2048)
            .max_blocks(65_535)
            .max_bytes(65_536)
            .align(4)
            .dma_bits(32)
            .clock_hz((400_000, 50_000_000))
            .width(Width::W4)
            .timings(Caps::timing_bit(Timing::Legacy))
            .fixed(true);
        Card { caps, registers: REGISTERS, running: None, listening: false }
    }
}

// SAFETY: the memory is written in `start`, inside its segment, and never after.

unsafe impl Host for Card {
    const CARD_IRQ: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        segment.set_bus(segment.ptr().as_ptr() as u64);
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {}

    fn start(&mut self, phase: &Phase, segments: &[Segment], _: u64) -> Result<(), StartError> {
        self.running = Some(phase.command.arg);
        if let ([segment], HEADER_BYTES) = (segments, phase.command.arg & 0x0800_01ff) {
            // SAFETY: the engine owns the memory and lends it until the phase ends; the header's
            // four bytes fit.
            unsafe { segment.ptr().cast::<[u8; 4]>().write(HEADER.to_le_bytes()) };
        }
        Ok(())
    }

    fn ack(&mut self, _: &[Segment]) -> Events {
        let mut events = Events::default();
        if let Some(arg) = self.running.take() {
            let at = (arg >> 9 & 31) as usize;
            if arg >> 31 != 0 && (arg >> 28 & 7, at) == (0, ENABLE) {
                // A function is ready at once, and gone at once.
                (self.registers[ENABLE], self.registers[READY]) = (arg as u8, arg as u8);
            }
            let data = if arg >> 31 != 0 { arg & 0xff } else { u32::from(self.registers[at]) };
            events.phase = Some(Ok(Done { response: Response::short(0x1000 | data), ..Done::default() }));
        } else if self.listening {
            (self.listening, events.card_irq) = (false, true);
        }
        events
    }

    fn set_bus(&mut self, _: BusOp, _: bool, _: u64) -> Step {
        Step::Done
    }

    fn dat0_busy(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        true
    }

    fn card_irq(&mut self, on: bool) {
        self.listening = on;
    }
}

/// Returns the description of the card that bring-up would return: two functions, and CMD53 with
/// several blocks.
pub fn description() -> IoCard {
    let mut common = [0; mmcq::sdio::cccr::BYTES];
    (common[0], common[8]) = (0x43, 0x17);
    let extension = FunctionExtension {
        wakes: false,
        standard_revision: 0,
        serial: 0,
        csa_bytes: 0,
        csa_property: 0,
        max_block_bytes: BLOCK_BYTES,
        ocr: 0,
        power_ma: [0; 6],
        bandwidth: [0; 2],
        enable_timeout_ns: None,
    };
    let function = |number| {
        let fbr = Fbr::parse(&[0; mmcq::sdio::fbr::BYTES]);
        Some(FunctionInfo { number, fbr, manufacturer: None, extension })
    };
    IoCard {
        rca: 1,
        r4: R4(0xa0ff_8000),
        cccr: Cccr::parse(&common).expect("a known revision"),
        cis: Cis::default(),
        functions: [function(1), function(2), None, None, None, None, None],
        memory: None,
        timing: Timing::Legacy,
        width: Width::W4,
        clock_hz: 25_000_000,
        async_interrupt: false,
        quirks: Quirks::NONE,
    }
}
