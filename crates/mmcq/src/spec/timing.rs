//! Bus speeds, gaps between transfers, and time limits of the standards.

use super::bus::{Timing, Width};

/// A row of a standard's table of bus speeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// The bus timing that the row describes.
    pub timing: Timing,
    /// Fastest clock of the timing, in hertz.
    pub max_hz: u32,
    /// Whether data are transferred on both clock edges (DDR).
    pub ddr: bool,
    /// Whether the timing works with 3.3 V on the signal lines.
    pub at_3v3: bool,
    /// Whether the timing works with 1.8 V on the signal lines.
    pub at_1v8: bool,
    /// Numbers of data lines that the timing allows.
    pub widths: &'static [Width],
    /// Whether the timing needs tuning of the sampling point.
    pub tuned: bool,
}

impl Speed {
    /// Returns the data rate in bytes per second at the fastest clock with these data lines,
    /// without gaps and checksums.
    pub const fn bytes_per_second(&self, width: Width) -> u64 {
        let lines = match width {
            Width::W1 => 1,
            Width::W4 => 4,
            Width::W8 => 8,
        };
        self.max_hz as u64 * lines * (1 + self.ddr as u64) / 8
    }

    /// Returns an array with the fastest clock of each timing in hertz; `otherwise` for timings
    /// that are not in `table`.
    const fn fastest_hz<const N: usize>(table: &[Speed; N], otherwise: u32) -> [u32; Timing::COUNT] {
        let (mut hz, mut line) = ([otherwise; Timing::COUNT], 0);
        while line < N {
            hz[table[line].timing as usize] = table[line].max_hz;
            line += 1;
        }
        hz
    }

    const fn new(timing: Timing, max_hz: u32, widths: &'static [Width]) -> Self {
        Speed { timing, max_hz, ddr: false, at_3v3: true, at_1v8: false, widths, tuned: false }
    }

    const fn only_1v8(self) -> Self {
        Speed { at_3v3: false, at_1v8: true, ..self }
    }

    const fn also_1v8(self) -> Self {
        Speed { at_1v8: true, ..self }
    }

    const fn ddr(self) -> Self {
        Speed { ddr: true, ..self }
    }

    const fn tuned(self) -> Self {
        Speed { tuned: true, ..self }
    }
}

/// The tuning block on four data lines: CMD19 [SD 4.2.4.5], CMD21 [eMMC 6.6.5].
pub const TUNING_64: [u8; 64] = [
    0xff, 0x0f, 0xff, 0x00, 0xff, 0xcc, 0xc3, 0xcc, 0xc3, 0x3c, 0xcc, 0xff, 0xfe, 0xff, 0xfe, 0xef, //
    0xff, 0xdf, 0xff, 0xdd, 0xff, 0xfb, 0xff, 0xfb, 0xbf, 0xff, 0x7f, 0xff, 0x77, 0xf7, 0xbd, 0xef, //
    0xff, 0xf0, 0xff, 0xf0, 0x0f, 0xfc, 0xcc, 0x3c, 0xcc, 0x33, 0xcc, 0xcf, 0xff, 0xef, 0xff, 0xee, //
    0xff, 0xfd, 0xff, 0xfd, 0xdf, 0xff, 0xbf, 0xff, 0xbb, 0xff, 0xf7, 0xff, 0xf7, 0x7f, 0x7b, 0xde, //
];

/// The tuning block on eight data lines: CMD21 [eMMC 6.6.5]. DAT7 to DAT4 carry the same bits as
/// DAT3 to DAT0.
pub const TUNING_128: [u8; 128] = {
    let mut block = [0; 128];
    let mut i = 0;
    while i < 64 {
        let (upper, lower) = (TUNING_64[i] >> 4, TUNING_64[i] & 0xf);
        block[2 * i] = upper << 4 | upper;
        block[2 * i + 1] = lower << 4 | lower;
        i += 1;
    }
    block
};

/// Gaps on the bus, in clocks [SD 4.12], [eMMC 6.15].
pub mod clocks {
    /// N_CR, minimum number of clocks from the end of a command to its response.
    pub const N_CR_MIN: u32 = 2;
    /// N_CR, maximum number of clocks from the end of a command to its response; after that the
    /// host reports a timeout.
    pub const N_CR_MAX: u32 = 64;
    /// N_ID: exact number of clocks from the end of CMD2 or ACMD41 (eMMC: CMD1) to its response.
    pub const N_ID: u32 = 5;
    /// N_AC, minimum number of clocks from the end of a read command to its data. The maximum is a
    /// time, see `Csd::read_timeout_ns`.
    pub const N_AC_MIN: u32 = 2;
    /// N_RC, minimum number of clocks from the end of a response to the next command.
    pub const N_RC: u32 = 8;
    /// N_CC, minimum number of clocks from the end of a command without response to the next
    /// command.
    pub const N_CC: u32 = 8;
    /// N_WR, minimum number of clocks from the end of a response or CRC status to the next data
    /// that the host sends.
    pub const N_WR: u32 = 2;
    /// N_ST: number of clocks from the end of CMD12 to the last data bit that the card sends.
    pub const N_ST: u32 = 2;
    /// N_CRC: number of clocks from the end of a written block to its CRC status.
    pub const N_CRC: u32 = 2;
    /// Length of a command or a short response, in bits.
    pub const SHORT: u32 = 48;
    /// Length of an R2 response, in bits.
    pub const LONG: u32 = 136;
    /// Clocks before the first command after power-up [SD 6.4.1], [eMMC 10.1].
    pub const POWER_UP: u32 = 74;
    /// Clocks after the last transaction, before the clock may stop [SD 4.4].
    pub const BEFORE_STOP: u32 = 8;
}

/// Clocks and time limits of SD [SD 4, 6].
pub mod sd {
    use super::{Speed, Timing, Width};

    /// Fastest clock during identification, in hertz [SD 4.2.1].
    pub const IDENTIFY_MAX_HZ: u32 = 400_000;
    /// Slowest clock during ACMD41, in hertz [SD 4.2.1].
    pub const IDENTIFY_MIN_HZ: u32 = 100_000;
    /// Time for the supply to rise and be stable before the clock starts [SD 6.4.1].
    pub const POWER_UP_NS: u64 = 1_000_000;
    /// Time in ns for which a power cycle must keep the supply below 0.5 V [SD 6.4.1.2].
    pub const POWER_OFF_NS: u64 = 1_000_000;
    /// Longest time from the first ACMD41 with a voltage window until the card is ready [SD 4.2.3].
    pub const INIT_NS: u64 = 1_000_000_000;
    /// Longest time in ns between two ACMD41 [SD 4.2.3].
    pub const INIT_POLL_MAX_NS: u64 = 50_000_000;
    /// Read access time of cards with fixed limits, and the upper bound for other cards
    /// [SD 4.6.2.1].
    pub const READ_NS: u64 = 100_000_000;
    /// Longest busy in ns after a written block, for cards up to 32 GB [SD 4.6.2.2].
    pub const WRITE_NS: u64 = 250_000_000;
    /// Longest busy after a written block, for SDXC and SDUC [SD 4.6.2.2].
    pub const WRITE_XC_NS: u64 = 500_000_000;
    /// Longest time in ns of the erase of one write block, if the SD status declares none [SD
    /// 4.6.2.3].
    pub const ERASE_BLOCK_NS: u64 = 250_000_000;
    /// Longest busy of a full user area logical erase, FULE [SD 4.6.2.3].
    pub const FULE_NS: u64 = 1_000_000_000;
    /// Longest busy of a discard [SD 4.6.2.3].
    pub const DISCARD_NS: u64 = 250_000_000;
    /// Longest time from CMD6 to its status block [SD 4.6.2.1].
    pub const SWITCH_NS: u64 = 100_000_000;
    /// Clocks from the end of CMD6's status block until the new function works [SD 4.3.10].
    pub const SWITCH_SETTLE_CLOCKS: u32 = 8;
    /// Time after the response to CMD11 at which bring-up checks that CMD and DAT are low. The card
    /// pulls them low some clocks after its end bit [SD 4.2.4.2]; Linux waits as long.
    pub const VOLTAGE_LINES_LOW_NS: u64 = 1_000_000;
    /// Shortest time in ns for which the clock must be stopped while the voltage changes after
    /// CMD11
    /// [SD 4.2.4.2].
    pub const VOLTAGE_CLOCK_OFF_NS: u64 = 5_000_000;
    /// Longest time from the clock at 1.8 V until the card releases DAT, after CMD11 [SD 4.2.4.2].
    pub const VOLTAGE_DAT_HIGH_NS: u64 = 1_000_000;
    /// Longest duration in ns of a whole tuning procedure by CMD19 [SD 4.2.4.5].
    pub const TUNING_NS: u64 = 150_000_000;
    /// Largest number of tuning blocks (CMD19) in a tuning procedure [SD 4.2.4.5].
    pub const TUNING_BLOCKS: u32 = 40;
    /// Longest busy of CMD20 [SD 4.13].
    pub const SPEED_CLASS_CONTROL_NS: u64 = 1_000_000_000;
    /// Longest busy of a write to an extension register (CMD49, CMD59) [SD 5.7].
    pub const EXTENSION_WRITE_NS: u64 = 1_000_000_000;
    /// Longest flush of the cache [SD 4.17].
    pub const FLUSH_NS: u64 = 1_000_000_000;
    /// Longest duration in ns of CMD42 with forced erase [SD 4.3.7].
    pub const FORCE_ERASE_NS: u64 = 180_000_000_000;

    const NARROW: &[Width] = &[Width::W1, Width::W4];
    const WIDE: &[Width] = &[Width::W4];

    /// The bus speeds of SD, slowest first [SD 3.9.2].
    pub const SPEEDS: [Speed; 7] = [
        Speed::new(Timing::Legacy, 25_000_000, NARROW),
        Speed::new(Timing::HighSpeed, 50_000_000, NARROW),
        Speed::new(Timing::Sdr12, 25_000_000, WIDE).only_1v8(),
        Speed::new(Timing::Sdr25, 50_000_000, WIDE).only_1v8(),
        Speed::new(Timing::Ddr50, 50_000_000, WIDE).only_1v8().ddr(),
        Speed::new(Timing::Sdr50, 100_000_000, WIDE).only_1v8().tuned(),
        Speed::new(Timing::Sdr104, 208_000_000, WIDE).only_1v8().tuned(),
    ];

    /// Returns the fastest clock of a timing in hertz; for a timing that SD does not have, the
    /// clock of identification. Firmware that calls only this function does not contain the table.
    pub const fn max_hz(timing: Timing) -> u32 {
        const HZ: [u32; Timing::COUNT] = Speed::fastest_hz(&SPEEDS, IDENTIFY_MAX_HZ);
        HZ[timing as usize % Timing::COUNT]
    }

    /// Returns SD's limits for a timing (fastest clock, clock edges, voltages); `None` for a timing
    /// that only eMMC has.
    pub fn speed(timing: Timing) -> Option<&'static Speed> {
        const { &SPEEDS }.iter().find(|speed| speed.timing == timing)
    }
}

/// Clocks and time limits of eMMC [eMMC 5, 6, 10].
pub mod emmc {
    use super::{Speed, Timing, Width};

    /// Fastest clock during identification, in hertz [eMMC 10.5].
    pub const IDENTIFY_MAX_HZ: u32 = 400_000;
    /// Time for the supply to rise and be stable before the first command [eMMC 10.1].
    pub const POWER_UP_NS: u64 = 1_000_000;
    /// Longest time from the first CMD1 until the device is ready [eMMC 6.4.2]. The first power-up
    /// after partitioning takes longer, see `ExtCsd::first_power_up_time_ns`.
    pub const INIT_NS: u64 = 1_000_000_000;
    /// Longest busy of CMD6 in ns, if EXT_CSD declares none. The standard has no value; hosts
    /// usually use this one.
    pub const SWITCH_NS: u64 = 500_000_000;
    /// Longest duration in ns of a whole tuning procedure by CMD21 [eMMC 6.6.5].
    pub const TUNING_NS: u64 = 150_000_000;
    /// Largest number of tuning blocks (CMD21) in a tuning procedure [eMMC 6.6.5].
    pub const TUNING_BLOCKS: u32 = 40;
    /// Longest busy of CMD5 if EXT_CSD declares none: the largest value of the field
    /// [eMMC 7.4, 217].
    pub const SLEEP_NS: u64 = 100 << 0x17;
    /// Longest time in ns of a flush of the cache. The standard sets no limit; hosts usually use
    /// this one.
    pub const FLUSH_NS: u64 = 30_000_000_000;
    /// Shortest time in ns for which RST_n is held low [eMMC 6.15.10].
    pub const RESET_PULSE_NS: u64 = 1_000;
    /// Shortest time from the end of the reset pulse to the first command [eMMC 6.15.10].
    pub const RESET_RECOVERY_NS: u64 = 200_000;
    /// Longest duration of CMD42 with forced erase [eMMC 6.6.19].
    pub const FORCE_ERASE_NS: u64 = 180_000_000_000;
    /// Longest time from CMD low to the boot acknowledge [eMMC 6.3.3].
    pub const BOOT_ACK_NS: u64 = 50_000_000;
    /// Longest time from CMD low to the boot data [eMMC 6.3.3].
    pub const BOOT_DATA_NS: u64 = 1_000_000_000;

    const ALL: &[Width] = &[Width::W1, Width::W4, Width::W8];
    const WIDE: &[Width] = &[Width::W4, Width::W8];
    const EIGHT: &[Width] = &[Width::W8];

    /// The bus speeds of eMMC, slowest first [eMMC 5.3.2].
    pub const SPEEDS: [Speed; 6] = [
        Speed::new(Timing::Legacy, 26_000_000, ALL).also_1v8(),
        Speed::new(Timing::HighSpeed, 52_000_000, ALL).also_1v8(),
        Speed::new(Timing::Ddr52, 52_000_000, WIDE).also_1v8().ddr(),
        Speed::new(Timing::Hs200, 200_000_000, WIDE).only_1v8().tuned(),
        // HS400 uses the sampling point of HS200, which is tuned before the switch to HS400.
        Speed::new(Timing::Hs400, 200_000_000, EIGHT).only_1v8().ddr().tuned(),
        Speed::new(Timing::Hs400Es, 200_000_000, EIGHT).only_1v8().ddr(),
    ];

    /// Returns the fastest clock of a timing in hertz; for a timing that eMMC does not have, the
    /// clock of identification. Firmware that calls only this function does not contain the table.
    pub const fn max_hz(timing: Timing) -> u32 {
        const HZ: [u32; Timing::COUNT] = Speed::fastest_hz(&SPEEDS, IDENTIFY_MAX_HZ);
        HZ[timing as usize % Timing::COUNT]
    }

    /// Returns eMMC's limits for a timing (fastest clock, clock edges, voltages); `None` for a
    /// timing that only SD cards have.
    pub fn speed(timing: Timing) -> Option<&'static Speed> {
        const { &SPEEDS }.iter().find(|speed| speed.timing == timing)
    }
}

/// Time limits of SDIO [SDIO 3, 4, 6].
pub mod sdio {
    /// Longest time from the first CMD5 with a voltage window until the card is ready [SDIO 3.2].
    pub const INIT_NS: u64 = 1_000_000_000;
    /// Longest time in ns from CMD53 to its data, or of the busy after it, unless the function
    /// declares another time [SDIO 5.3].
    pub const DATA_NS: u64 = 1_000_000_000;
    /// Longest time in ns to enable a function if its tuples declare none [SDIO 16].
    pub const ENABLE_NS: u64 = 1_000_000_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_that_of_the_tables() {
        let sd = |timing, width| sd::speed(timing).unwrap().bytes_per_second(width);
        assert_eq!(sd(Timing::Legacy, Width::W4), 12_500_000);
        assert_eq!(sd(Timing::HighSpeed, Width::W4), 25_000_000);
        assert_eq!(sd(Timing::Ddr50, Width::W4), 50_000_000);
        assert_eq!(sd(Timing::Sdr50, Width::W4), 50_000_000);
        assert_eq!(sd(Timing::Sdr104, Width::W4), 104_000_000);
        let emmc = |timing| emmc::speed(timing).unwrap().bytes_per_second(Width::W8);
        assert_eq!(emmc(Timing::HighSpeed), 52_000_000);
        assert_eq!(emmc(Timing::Ddr52), 104_000_000);
        assert_eq!(emmc(Timing::Hs200), 200_000_000);
        assert_eq!(emmc(Timing::Hs400), 400_000_000);
        assert!(sd::speed(Timing::Hs400).is_none() && emmc::speed(Timing::Sdr104).is_none());
        assert!(sd::SPEEDS.iter().all(|speed| sd::max_hz(speed.timing) == speed.max_hz));
        assert!(emmc::SPEEDS.iter().all(|speed| emmc::max_hz(speed.timing) == speed.max_hz));
        assert_eq!((sd::max_hz(Timing::Hs400), emmc::max_hz(Timing::Sdr104)), (400_000, 400_000));
    }

    #[test]
    fn tuning_blocks_have_the_shape_of_the_standard() {
        // First and last bytes of the table of eight lines [eMMC 6.6.5].
        assert_eq!(TUNING_128[..8], [0xff, 0xff, 0x00, 0xff, 0xff, 0xff, 0x00, 0x00]);
        assert_eq!(
            TUNING_128[56..72],
            [0x77, 0x77, 0xff, 0x77, 0xbb, 0xdd, 0xee, 0xff, 0xff, 0xff, 0xff, 0x00, 0xff, 0xff, 0xff, 0x00]
        );
        assert_eq!(TUNING_128[120..], [0xff, 0x77, 0x77, 0xff, 0x77, 0xbb, 0xdd, 0xee]);
        // The second half equals the first half, one clock later.
        assert_eq!(TUNING_128[65..], TUNING_128[..63]);
    }
}
