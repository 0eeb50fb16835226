//! Durations on the bus in clocks, and the virtual times of clock edges.
//!
//! Lengths of commands, responses and gaps come from the bus timing diagrams [SD 4.12], [eMMC
//! 6.15]. Where a standard gives a range, the value is the usual one of a fast controller.

/// Number of clocks of a command: start bit, direction, index, argument, CRC7, end bit.
pub const COMMAND_CLK: u64 = 48;
/// Number of clocks of a 48-bit response.
pub const RESPONSE_CLK: u64 = 48;
/// Number of clocks of a 136-bit response (R2).
pub const LONG_RESPONSE_CLK: u64 = 136;
/// Number of clocks of N_CR, from the end of a command to the start of its response (2 to 64; most
/// cards take about 8).
pub const N_CR_CLK: u64 = 8;
/// Number of clocks of N_RC and N_CC, from a response, or from a command without a response, to the
/// next command (at least 8).
pub const N_RC_CLK: u64 = 8;
/// Number of clocks of the longest N_CR: a response that has not begun by then will not come.
pub const RESPONSE_TIMEOUT_CLK: u64 = 64;
/// Number of clocks before the start bit of a data block: the shortest N_AC and N_WR.
pub const BLOCK_GAP_CLK: u64 = 8;
/// Number of clocks after a written block: 2 until the card drives the line (N_CRC), 5 for the CRC
/// status, and 3 until the controller drives it.
pub const CRC_STATUS_CLK: u64 = 10;
/// Number of clocks between a written block and its CRC status, a part of [`CRC_STATUS_CLK`].
pub const CRC_TURN_CLK: u64 = 2;
/// Number of clocks of the CRC status itself (start bit, three bits, end bit), a part of
/// [`CRC_STATUS_CLK`].
pub const CRC_TOKEN_CLK: u64 = 5;

/// Returns the number of clocks of one data block with `bytes` bytes on `width` lines: start bit,
/// data, CRC16 on each line (with `ddr` one for each edge), end bit.
pub fn block_clk(bytes: u32, width: u8, ddr: bool) -> u64 {
    let bits_a_clock = u64::from(width.max(1)) << u8::from(ddr);
    1 + (u64::from(bytes) * 8).div_ceil(bits_a_clock) + 16 + 1
}

const SECOND_NS: u64 = 1_000_000_000;

/// A clock edge, stored as a time and a number of clocks after it. So rounding errors do not add up
/// when clocks are added.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    anchor_ns: u64,
    clocks: u64,
    hz: u64,
    /// Time of the edge in ns, stored because it is read several times and computing it needs a
    /// division.
    ns: u64,
}

impl Beat {
    /// Makes the clock edge that is at the time `ns`, for a clock of `hz` hertz (0, a stopped
    /// clock, counts as 1 Hz).
    pub fn new(ns: u64, hz: u32) -> Self {
        Beat { anchor_ns: ns, clocks: 0, hz: u64::from(hz.max(1)), ns }
    }

    /// Returns the edge this number of clocks later.
    pub fn plus(self, clocks: u64) -> Self {
        let mut beat = Beat { clocks: self.clocks.saturating_add(clocks), ..self };
        // Whole seconds move exactly into the start time, so that the product in `ns` stays small.
        if beat.clocks >= beat.hz {
            beat.anchor_ns = beat.anchor_ns.saturating_add((beat.clocks / beat.hz).saturating_mul(SECOND_NS));
            beat.clocks %= beat.hz;
        }
        beat.ns = beat.anchor_ns.saturating_add(beat.clocks * SECOND_NS / beat.hz);
        beat
    }

    /// Returns the time of the edge in ns, rounded down.
    pub fn ns(self) -> u64 {
        self.ns
    }

    /// Returns this edge, or the time `ns` if that is later (the clock was stopped, or the line in
    /// use, until then).
    pub fn not_before(self, ns: u64) -> Self {
        if ns > self.ns { Beat { anchor_ns: ns, clocks: 0, hz: self.hz, ns } } else { self }
    }
}

/// Returns the CRC7 of these bytes [SD 4.5].
pub(crate) fn crc7(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |crc, &byte| {
        (0..8).fold(crc, |crc, bit| {
            let feedback = (crc >> 6 ^ byte >> (7 - bit)) & 1;
            (crc << 1 & 0x7f) ^ (feedback * 0x09)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc7_of_the_standards_examples() {
        // Examples of [SD 4.5]: CMD0, CMD17 with argument 0, and the response to CMD17.
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0b100_1010);
        assert_eq!(crc7(&[0x51, 0, 0, 0, 0]), 0b010_1010);
        assert_eq!(crc7(&[0x11, 0, 0, 0x09, 0]), 0b011_0011);
    }

    /// Converts a number of clocks at a frequency to ns.
    fn ns(clocks: u64, hz: u32) -> u64 {
        Beat::new(0, hz).plus(clocks).ns()
    }

    #[test]
    fn a_block_takes_what_the_timing_diagrams_say() {
        // Data of 512 bytes take 256 clocks on 8 lines with both edges, 1024 on 4 lines with one
        // edge, and 4096 on 1 line.
        assert_eq!(BLOCK_GAP_CLK + block_clk(512, 8, true), 282);
        assert_eq!(BLOCK_GAP_CLK + block_clk(512, 4, false), 1024 + 18 + 8);
        assert_eq!(block_clk(512, 1, false), 4096 + 18);
        // The tuning block of CMD19 (64 bytes) and the SCR (8 bytes).
        assert_eq!(block_clk(64, 4, false), 128 + 18);
        assert_eq!(block_clk(8, 4, false), 16 + 18);
    }

    #[test]
    fn hs400_times_of_commands_and_4_kib() {
        let command = COMMAND_CLK + N_CR_CLK + RESPONSE_CLK + N_RC_CLK;
        assert_eq!(ns(command, 200_000_000), 560);
        let block = BLOCK_GAP_CLK + block_clk(512, 8, true);
        assert_eq!(ns(block, 200_000_000), 1_410);
        assert_eq!(ns(8 * block, 200_000_000), 11_280);
        assert_eq!(ns(8 * (block + CRC_STATUS_CLK), 200_000_000), 11_680);
    }

    #[test]
    fn sdr104_block_is_5_05_us() {
        let block = BLOCK_GAP_CLK + block_clk(512, 4, false);
        assert_eq!(ns(block, 208_000_000), 5_048);
        // 101.4 MB/s is 198 095 blocks a second.
        assert_eq!(ns(block * 198_095, 208_000_000), 999_998_798);
    }

    #[test]
    fn clocks_do_not_drift() {
        let mut beat = Beat::new(17, 208_000_000);
        for _ in 0..208_000 {
            beat = beat.plus(3_000);
        }
        assert_eq!(beat.ns(), 17 + 3 * SECOND_NS);
    }

    #[test]
    fn a_later_moment_moves_the_edge_and_an_earlier_one_does_not() {
        let beat = Beat::new(100, 200_000_000).plus(1);
        assert_eq!(beat.not_before(90).ns(), 105);
        assert_eq!(beat.not_before(105).plus(1).ns(), 110);
        assert_eq!(beat.not_before(200).plus(2).ns(), 210);
    }
}
