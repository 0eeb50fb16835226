//! Violations of a standard by a card or host, as numbers. The sentences are in [`Breach::text`];
//! firmware that does not print them does not contain them.

use core::fmt;

/// Violations of the protocol by a card or host.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// The SD card does not work at 2.7 to 3.6 V.
    SdVoltage,
    /// The eMMC device does not work at 2.7 to 3.6 V.
    EmmcVoltage,
    /// The I/O card does not work at 2.7 to 3.6 V.
    IoVoltage,
    /// The SD card never finishes power-up.
    SdPowerUp,
    /// The eMMC device never finishes power-up.
    EmmcPowerUp,
    /// The I/O card never finishes power-up.
    IoPowerUp,
    /// The SD card answers CMD3 with the RCA 0.
    SdAddress,
    /// The I/O card answers CMD3 with the RCA 0.
    IoAddress,
    /// The response to CMD8 does not repeat the argument that was sent.
    Echo,
    /// The card's CSD gives no size.
    NoSize,
    /// The SD card refuses an access mode that it offers.
    AccessMode,
    /// The combo card's memory refuses the high-speed mode that it offers.
    ComboSpeed,
    /// The card works with none of the bus timings that were tried.
    NoTiming,
    /// Tuning has found no sampling point.
    NoSamplingPoint,
    /// The eMMC device works with no bus width.
    NoWidth,
    /// The card is older than MMC 4, so it has no EXT_CSD.
    TooOld,
    /// The eMMC device has sectors of 4 KiB (EXT_CSD byte 61): a host has switched them on.
    LargeSectors,
    /// The card answers CMD5, but has no I/O functions.
    NoFunctions,
    /// The I/O card showed functions in its first R4, and shows none in a later one.
    FunctionsLost,
    /// The I/O card refuses an access to one of its registers.
    Access,
    /// The card information (CIS) of an I/O function does not give its largest block size.
    NoBlockSize,
    /// The scratch memory, into which a register of the card was to be read, is missing or too
    /// short.
    ScratchLost,
    /// The SD card does not switch its cache on.
    CacheStaysOff,
    /// The SD card does not switch its command queue on or off.
    QueueStays,
    /// The card's queue reports tasks as ready that do not exist.
    QueueUnknown,
    /// The card's queue never reports a task as ready.
    QueueNeverReady,
    /// The card's queue gives wrong data.
    QueueWrongData,
    /// The card does not finish the flush of its cache in time.
    FlushNeverEnds,
    /// Clients wrote to the eMMC device without a pause, so its supply could not be switched off.
    WrittenWithoutPause,
    /// The eMMC device does not wake from sleep (CMD5).
    NeverWakes,
    /// The SD card never reports that it is ready for power-off.
    PowerOffNever,
    /// The given password is longer than 16 bytes, the most that a card accepts.
    LongPassword,
    /// The card is still unlocked after the command that locks it, and reports no failure.
    StaysOpen,
}

impl Breach {
    /// Returns a sentence that describes this violation of a standard.
    pub const fn text(self) -> &'static str {
        match self {
            Breach::SdVoltage => "the SD card does not run from 2.7 to 3.6 V",
            Breach::EmmcVoltage => "the eMMC device does not run from 2.7 to 3.6 V",
            Breach::IoVoltage => "the I/O card does not run from 2.7 to 3.6 V",
            Breach::SdPowerUp => "the SD card never finishes power-up",
            Breach::EmmcPowerUp => "the eMMC device never finishes power-up",
            Breach::IoPowerUp => "the I/O card never finishes power-up",
            Breach::SdAddress => "the SD card publishes no address",
            Breach::IoAddress => "the I/O card publishes no address",
            Breach::Echo => "CMD8 echoes something else",
            Breach::NoSize => "the CSD tells no size",
            Breach::AccessMode => "the SD card refuses the access mode it offers",
            Breach::ComboSpeed => "the combo card's memory refuses the high speed it offers",
            Breach::NoTiming => "no timing works",
            Breach::NoSamplingPoint => "tuning found no sampling point",
            Breach::NoWidth => "the eMMC device has no width",
            Breach::TooOld => "the card is older than MMC 4: no EXT_CSD",
            Breach::LargeSectors => "the eMMC device has sectors of 4 KiB, and blocks here have 512 bytes",
            Breach::NoFunctions => "the card answers CMD5, but has no I/O functions",
            Breach::FunctionsLost => "the I/O card has lost its functions",
            Breach::Access => "the I/O card refuses an access",
            Breach::NoBlockSize => "a function's tuples do not tell its largest block",
            Breach::ScratchLost => "the scratch memory is lost",
            Breach::CacheStaysOff => "the SD card does not switch its cache on",
            Breach::QueueStays => "the SD card does not switch its command queue",
            Breach::QueueUnknown => "the card's queue calls tasks ready that do not exist",
            Breach::QueueNeverReady => "the card's queue never gets ready",
            Breach::QueueWrongData => "the card's queue gives wrong data",
            Breach::FlushNeverEnds => "the card does not finish the flush of its cache",
            Breach::WrittenWithoutPause => "the eMMC device is written to without a pause",
            Breach::NeverWakes => "the eMMC device does not wake",
            Breach::PowerOffNever => "the SD card never gets ready for power-off",
            Breach::LongPassword => "a card's password has at most 16 bytes",
            Breach::StaysOpen => "the card stays open, and tells of no failure",
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
