//! The load that this image runs for `mmcq guest --image` on the simulated controller, with one
//! request at a time, as in boards/pc. Marks around the load tell external counters where it begins
//! and ends.

use crate::board::{now_ns, say};
use crate::{BLOCKS, BYTES};
use core::ptr::NonNull;

/// Offset of a register that no controller has; writing to it makes a mark.
const MARK: usize = 0xf0;
const LOAD_BEGINS: u32 = 1;
const LOAD_ENDS: u32 = 2;

/// The command `guest load LOAD 1 REQUESTS` from the command line.
#[derive(Clone, Copy)]
pub struct Load {
    name: &'static str,
    random: bool,
    pub write: bool,
    requests: u64,
}

impl Load {
    /// Parses the words after `guest`. The queue of this stack takes one request at a time.
    pub fn parse(mut words: impl Iterator<Item = &'static str>) -> Option<Load> {
        let (what, name, depth, requests) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (random, write) = match name {
            "randread" => (true, false),
            "randwrite" => (true, true),
            "read" => (false, false),
            "write" => (false, true),
            _ => return None,
        };
        let requests = requests.parse().ok().filter(|requests| (1..=1_000_000).contains(requests))?;
        (what == "load" && depth == "1").then_some(Load { name, random, write, requests })
    }

    /// Calls `one` for each request with its block; `None` from `one` is a failure.
    pub fn run(&self, base: NonNull<u8>, sectors: u64, mut one: impl FnMut(u64) -> Option<()>) -> Option<()> {
        let mark = |number: u32| {
            // SAFETY: the address is in the controller's page, where the standard has no register.
            unsafe { base.add(MARK).cast::<u32>().write_volatile(number) };
        };
        let places = sectors / u64::from(BLOCKS);
        // As in boards/pc: a linear congruential generator modulo 2^64, whose upper half is the
        // number.
        let mut state = 1u64;
        say(format_args!("guest: begin"));
        mark(LOAD_BEGINS);
        let begin_ns = now_ns();
        for number in 0..self.requests {
            let place = if self.random {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 32
            } else {
                number
            };
            one(place % places * u64::from(BLOCKS))?;
        }
        let elapsed_ns = now_ns() - begin_ns;
        mark(LOAD_ENDS);
        // Values in thousandths and hundredths, since this image has no floating point.
        let (requests, bytes) = (self.requests, BYTES as u64);
        let kib_per_s = requests * bytes * 1_000_000_000 / elapsed_ns * 1000 / (1 << 20);
        let (latency, elapsed) = (elapsed_ns / requests / 10, elapsed_ns / 100);
        say(format_args!(
            "{{\"load\": \"{}\", \"bytes\": {bytes}, \"depth\": 1, \"jobs\": 1, \"requests\": {requests}, \"reaps\": \"one\", \
             \"mib_per_s\": {}.{:03}, \"latency_us\": {}.{:02}, \"merged\": 1.000, \"elapsed_us\": {}.{}, \"switches\": 0, \
             \"percentiles_us\": {{}}}}",
            self.name,
            kib_per_s / 1000,
            kib_per_s % 1000,
            latency / 100,
            latency % 100,
            elapsed / 10,
            elapsed % 10,
        ));
        mark(0);
        say(format_args!("guest: end"));
        Some(())
    }
}
