//! Tests of every parser with arbitrary bytes, and of the whole stack with an arbitrary card.
//! `MMCQ_FUZZ_MS` is the time for each test in ms (`check long` gives a minute).

use crate::erased::{Erased, constants};
use crate::{fuzz, one_thread, support};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options};
use mmcq::engine::Config;
use mmcq::host::{
    BusOp, BusyDetect, Caps, Cause, DmaError, Done, Events, Fault, Host, Phase, Segment, Stage, StartError,
    Step,
};
use mmcq::host::{Direction, Timing};
use mmcq::spec::response::Response;
use mmcq::spec::{cid::Cid, csd::Csd, ext_csd::ExtCsd, scr::Scr, ssr::Ssr, switch::SwitchStatus};
use mmcq::task::Stack;
use one_thread::{NOW_NS, OneThread, TIMER};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use support::{buffer, caps};

#[test]
fn fuzz_registers() {
    fuzz::fuzz("fuzz_registers", 500, |u| {
        let words: [u32; 4] = u.arbitrary()?;
        let block: [u8; 512] = u.arbitrary()?;
        let first64: &[u8; 64] = block.first_chunk().unwrap();
        let shown = format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            Cid::parse_sd(&words).name(),
            Cid::parse_emmc(&words).emmc_year(block[192]),
            Scr::parse(block.first_chunk().unwrap()),
            Ssr::parse(first64).erase_timeout_ns(words[0]),
            SwitchStatus::parse(first64),
            Response { words }.r1(),
            Response { words }.ocr(),
            Response { words }.r6().status(),
        );
        assert!(!shown.is_empty());
        for csd in [Csd::parse_sd(&words), Csd::parse_emmc(&words)].into_iter().flatten() {
            // With a clock below 100 kHz the times may have any value.
            let _ = (csd.read_timeout_ns(u.arbitrary()?), csd.write_timeout_ns(u.arbitrary()?));
            let hz = u.int_in_range(100_000..=u32::MAX)?;
            assert!(csd.read_timeout_ns(hz) < 1 << 40 && csd.write_timeout_ns(hz) < 1 << 45);
            assert!(csd.erase_unit_bytes() < 1 << 40 && csd.blocks().is_none_or(|blocks| blocks < 1 << 40));
        }
        if let Ok(ext) = ExtCsd::parse(&block) {
            assert!(ext.capacity_bytes() < 1 << 42 && ext.generic_cmd6_time_ns() < 1 << 32);
            let _ = (ext.pre_eol(), ext.life_time_a(), ext.boot_bytes(), ext.rpmb_bytes(), ext.cache_bytes());
        }
        Ok(())
    });
}

/// A controller and card whose responses and events are arbitrary.
struct Anything {
    caps: Caps,
    bytes: Vec<u8>,
    at: usize,
    running: Option<Phase>,
    /// Of 256 responses, the number of responses that a card in `tran` would send; without them
    /// bring-up would fail at its beginning.
    sane: u8,
}

impl Anything {
    fn byte(&mut self) -> u8 {
        self.at = (self.at + 1) % self.bytes.len();
        self.bytes[self.at].wrapping_add((self.at / 7) as u8)
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl Host for Anything {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn map(&mut self, segment: &mut Segment, _: Direction) -> std::result::Result<(), DmaError> {
        segment.set_bus(1);
        Ok(())
    }
    fn unmap(&mut self, _: &Segment, _: Direction) {}
    fn start(&mut self, phase: &Phase, _: &[Segment], _: u64) -> std::result::Result<(), StartError> {
        assert!(self.running.is_none(), "two phases at a time");
        match self.byte() {
            0 => return Err(StartError::CommandLine),
            1 => return Err(StartError::DataLine),
            2 => return Err(StartError::Unsupported),
            _ => self.running = Some(*phase),
        }
        Ok(())
    }
    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        let sane = self.byte() < self.sane;
        if !sane && self.byte() < 4 {
            events.presence = self.byte() < 2;
            events.card_irq = true;
            return events;
        }
        let Some(phase) = self.running.take() else { return events };
        let words = match phase.command.index {
            _ if !sane => [self.word(), self.word(), self.word(), self.word()],
            8 => [phase.command.arg, 0, 0, 0],
            1 | 41 => [0xc0ff_8080, 0, 0, 0],
            3 => [0x0001_0500, 0, 0, 0],
            9 => [0x400e_0032, 0x5b59_0000, 0x7f7f_7f80, 0x0a40_0000],
            _ => [4 << 9 | 1 << 8, 0, 0, 0],
        };
        for segment in segments {
            if phase.data.is_some_and(|d| d.direction == Direction::Read) {
                for n in 0..segment.len_bytes() as usize {
                    let byte = self.byte();
                    // SAFETY: the engine owns the segment while the phase runs.
                    unsafe { segment.ptr().add(n).write(byte) };
                }
            }
        }
        let response = Response { words };
        let fault = Fault {
            cause: [Cause::Timeout, Cause::Crc, Cause::Dma, Cause::Gone][self.byte() as usize % 4],
            stage: [Stage::Command, Stage::Data, Stage::Stop, Stage::Busy][self.byte() as usize % 4],
            response: (self.byte() < 128).then_some(response),
        };
        let done = Done { response, stop: (self.byte() < 64).then(|| self.word()), tuned: self.byte() < 64 };
        events.phase = Some(if sane || self.byte() < 224 { Ok(done) } else { Err(fault) });
        events
    }
    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if matches!(op, BusOp::ResetLines | BusOp::ResetAll) {
            self.running = None;
        }
        match self.byte() {
            0..16 if first => Step::Wait(now_ns + u64::from(self.word())),
            16..18 => Step::Failed,
            _ => Step::Done,
        }
    }
    fn dat0_busy(&self) -> bool {
        self.bytes[self.at] < 64
    }
    fn present(&self) -> bool {
        self.bytes[self.at] != 7
    }
}

/// Largest number of interrupts and alarms in one call: every wait of the stack is bounded, so a
/// call that needs more hangs.
const TURNS_MAX: u32 = 3_000_000;

fn drive<F: Future>(
    stack: &Stack<(OneThread, Erased<{ constants::<Anything>() }>), 16>,
    future: F,
) -> F::Output {
    let mut future = pin!(future);
    for turn in 0..TURNS_MAX {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        // Sometimes the interrupt is lost, and only the deadline is left.
        if turn % 13 == 12 {
            NOW_NS.set(stack.with(|e| e.next_deadline_ns()).unwrap_or(0).max(NOW_NS.get()));
            stack.poll();
        } else {
            NOW_NS.set(NOW_NS.get() + 10_000);
            stack.turn();
        }
    }
    panic!("no end after {TURNS_MAX} turns");
}

fn hostile(u: &mut Unstructured) -> Result<()> {
    let mut bytes = vec![0; u.int_in_range(1..=2048)?];
    u.fill_buffer(&mut bytes)?;
    let host = Anything {
        caps: caps()
            .busy(*u.choose(&[BusyDetect::Interrupt, BusyDetect::Level, BusyDetect::Status])?)
            .auto_stop(u.arbitrary()?)
            .auto_count(u.arbitrary()?)
            .signal18(u.arbitrary()?)
            .timings(u.arbitrary::<u16>()? | Caps::timing_bit(Timing::Legacy))
            .defer_completion(u.arbitrary()?),
        bytes,
        at: 0,
        running: None,
        sane: *u.choose(&[0, 128, 240, 255])?,
    };
    let stack = Stack::new(OneThread, TIMER, Erased::new(host), Config::DEFAULT);
    NOW_NS.set(0);
    if drive(&stack, card::bring_up(&stack, buffer(1, 0), Options::DEFAULT)).0.is_ok() {
        let device = BlockDevice::new(&stack);
        for round in 0..4 {
            let _ = drive(&stack, device.write(round * 8, buffer(8, 1)));
            let _ = drive(&stack, device.read(round * 8, buffer(8, 1)));
            let _ = drive(&stack, device.flush());
        }
    }
    Ok(())
}

#[test]
fn fuzz_hostile_card() {
    fuzz::fuzz("fuzz_hostile_card", 500, hostile);
}
