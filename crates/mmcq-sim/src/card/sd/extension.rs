//! Extension registers of an SD card, CMD48 and CMD49 [SD 5.7]: general information, power
//! management and performance.

use super::super::Reply;
use super::super::status::State;
use super::super::trouble::NEVER_NS;
use super::config::SdConfig;
use super::{SdCard, Transfer};

/// Function number (FNO) in CMD48 and CMD49: the general information.
const GENERAL: u8 = 0;
/// Function number (FNO) in CMD48 and CMD49: the power management function.
const POWER: u8 = 1;
/// Function number (FNO) in CMD48 and CMD49: the performance enhancement function.
const PERFORMANCE: u8 = 2;
/// Standard function code of the power management function.
const POWER_CODE: u8 = 1;
/// Standard function code of the performance enhancement function.
const PERFORMANCE_CODE: u8 = 2;

/// Address of the status register in the power management function.
const POWER_STATUS: u32 = 1;
/// Address of the setting register in the power management function.
const POWER_SETTING: u32 = 2;
/// Address of the cache enable register in the performance enhancement function.
const CACHE_ENABLE: u32 = 260;
/// Address of the cache flush register in the performance enhancement function.
const CACHE_FLUSH: u32 = 261;
/// Address of the command queue's enable register in the performance enhancement function.
const QUEUE_MODE: u32 = 262;

/// Busy time in ns after a write to an extension register.
const WRITE_NS: u64 = 1_000_000;
/// Time in ns from the power-off notification until the card is ready for it.
const POWER_OFF_NS: u64 = 5_000_000;

/// Which bytes of a function's extension registers a CMD48 reads or a CMD49 writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    function: u8,
    /// Byte address in the function; bits 16:9 are the page.
    address: u32,
    /// Number of bytes. With `masked` it is the mask of the bits that the write changes in one
    /// byte.
    len: u16,
    masked: bool,
}

impl Place {
    pub(super) fn new(arg: u32, write: bool) -> Self {
        let masked = write && arg >> 26 & 1 == 1;
        let low = (arg & 0x1ff) as u16;
        Place {
            function: (arg >> 27 & 0xf) as u8,
            address: arg >> 9 & 0x1_ffff,
            len: if masked { low & 0xff } else { low + 1 },
            masked,
        }
    }
}

/// Values that the host has written to extension registers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extensions {
    /// Time in ns at which the card is ready for power-off; `None`: the host gave no notification.
    power_off_ns: Option<u64>,
    cache: bool,
    /// Time in ns at which the flush ends; `None`: no flush.
    flush_ns: Option<u64>,
    queue: QueueMode,
    /// Mode to which the host has switched the queue, and the time in ns at which the mode takes
    /// effect.
    queue_next: Option<(QueueMode, u64)>,
}

/// Mode of the command queue: bits 1:0 of its enable register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueueMode {
    #[default]
    Off,
    /// The card chooses the order of tasks.
    Voluntary,
    /// The card executes tasks in the order in which the host has sent them.
    Sequential,
}

impl QueueMode {
    fn of(value: u8) -> Self {
        match value & 3 {
            1 => QueueMode::Voluntary,
            3 => QueueMode::Sequential,
            _ => QueueMode::Off,
        }
    }
}

impl Extensions {
    pub(super) fn queue_is_on(&self) -> bool {
        self.queue != QueueMode::Off
    }

    pub(super) fn queue_is_sequential(&self) -> bool {
        self.queue == QueueMode::Sequential
    }

    /// Puts a new mode of the command queue into effect if its time (`queue_next`) has come.
    /// Returns whether the mode has changed.
    pub(super) fn queue_changes(&mut self, now_ns: u64) -> bool {
        let next = self.queue_next.take_if(|next| next.1 <= now_ns);
        self.queue = next.map_or(self.queue, |next| next.0);
        next.is_some()
    }
}

impl SdConfig {
    /// Returns whether the card supports CMD48 and CMD49.
    pub(crate) fn has_extensions(&self) -> bool {
        self.cache || self.power_off_notification || self.queue.is_some()
    }

    /// Returns the general information register set [SD 5.7.3].
    fn general_information(&self) -> [u8; 512] {
        let mut info = [0u8; 512];
        let mut sets = Vec::new();
        if self.power_off_notification {
            sets.push((POWER_CODE, POWER));
        }
        if self.cache || self.queue.is_some() {
            sets.push((PERFORMANCE_CODE, PERFORMANCE));
        }
        let length = 16 + 48 * sets.len() as u16;
        info[2..4].copy_from_slice(&length.to_le_bytes());
        info[4] = sets.len() as u8;
        for (n, &(code, function)) in sets.iter().enumerate() {
            let at = 16 + 48 * n;
            info[at] = code;
            let next = if n + 1 < sets.len() { at as u16 + 48 } else { 0 };
            info[at + 40..at + 42].copy_from_slice(&next.to_le_bytes());
            // The function has one register set, at its first address.
            info[at + 42] = 1;
            info[at + 44..at + 48].copy_from_slice(&(u32::from(function) << 18).to_le_bytes());
        }
        info
    }
}

impl SdCard {
    fn extension_byte(&self, function: u8, address: u32, general: &[u8; 512], now_ns: u64) -> u8 {
        let x = &self.extensions;
        match (function, address) {
            (GENERAL, 0..512) => general[address as usize],
            (POWER, POWER_STATUS) => {
                let ready = x.power_off_ns.is_some_and(|ready_ns| now_ns >= ready_ns);
                0x10 | u8::from(ready)
            }
            (POWER, POWER_SETTING) => x.power_off_ns.is_some().into(),
            (PERFORMANCE, 4) => self.config.cache.into(),
            (PERFORMANCE, 6) => self.config.shown_depth(),
            (PERFORMANCE, CACHE_ENABLE) => x.cache.into(),
            (PERFORMANCE, CACHE_FLUSH) => x.flush_ns.is_some_and(|done_ns| now_ns < done_ns).into(),
            (PERFORMANCE, QUEUE_MODE) => match x.queue {
                QueueMode::Off => 0,
                QueueMode::Voluntary => 1,
                QueueMode::Sequential => 3,
            },
            _ => 0,
        }
    }

    /// Executes CMD48, which reads extension registers. `arg` names the function, the address and
    /// the number of bytes.
    pub(super) fn read_extension(&mut self, arg: u32, now_ns: u64) -> Reply {
        let place = Place::new(arg, false);
        let general = self.config.general_information();
        let mut bytes = Box::new([0u8; 512]);
        for (byte, address) in bytes.iter_mut().zip(place.address..).take(place.len.into()) {
            *byte = self.extension_byte(place.function, address, &general, now_ns);
        }
        let mut reply = self.go(48, State::Data, now_ns);
        self.interface.data_end_ns = None;
        self.transfer = Transfer::ReadExtension(bytes);
        reply.flow = super::super::Flow::Read { block_size: 512 };
        reply
    }

    /// Handles the data block of CMD49, which writes extension registers. Returns the end of busy
    /// in ns.
    pub(super) fn write_extension(&mut self, place: Place, data: &[u8], now_ns: u64) -> u64 {
        let mut done_ns = now_ns.saturating_add(WRITE_NS);
        if place.masked {
            let general = [0; 512];
            let old = self.extension_byte(place.function, place.address, &general, now_ns);
            let mask = place.len as u8;
            let value = data.first().map_or(old, |value| old & !mask | value & mask);
            return self.set_extension(place.function, place.address, value, now_ns);
        }
        for (&value, address) in data.iter().zip(place.address..).take(place.len.into()) {
            done_ns = done_ns.max(self.set_extension(place.function, address, value, now_ns));
        }
        done_ns
    }

    fn set_extension(&mut self, function: u8, address: u32, value: u8, now_ns: u64) -> u64 {
        let usual_ns = now_ns.saturating_add(WRITE_NS);
        let on = value & 1 == 1;
        let quirks = &self.config.quirks;
        match (function, address) {
            (POWER, POWER_SETTING) if on && self.config.power_off_notification => {
                let never = quirks.power_off_never_ready;
                let (done_ns, _) =
                    self.flash.flush(&mut self.medium, now_ns, usual_ns.saturating_add(POWER_OFF_NS));
                self.extensions.power_off_ns = Some(if never { NEVER_NS } else { done_ns });
                usual_ns
            }
            (PERFORMANCE, CACHE_ENABLE) if self.config.cache => {
                let done_ns =
                    if on { usual_ns } else { self.flash.flush(&mut self.medium, now_ns, usual_ns).0 };
                self.extensions.cache = on;
                self.flash.journal.volatile = on;
                done_ns
            }
            (PERFORMANCE, CACHE_FLUSH) if on && self.config.cache => {
                let queued = self.extensions.queue_is_on();
                let hangs = quirks.command_queue_broken || quirks.queue_flush_hangs;
                let (done_ns, errors) = if quirks.flush_hangs || queued && hangs {
                    (NEVER_NS, 0)
                } else {
                    self.flash.flush(&mut self.medium, now_ns, usual_ns)
                };
                self.status.raise(errors);
                self.extensions.flush_ns = Some(done_ns);
                // Busy ends after one second at the latest; the flush register shows when the flush
                // has ended.
                done_ns.min(now_ns.saturating_add(1_000_000_000))
            }
            (PERFORMANCE, QUEUE_MODE) if self.config.queue.is_some() => {
                if on && quirks.command_queue_broken {
                    self.interface.trouble.violate("the command queue", now_ns);
                }
                let lazy_ns = usual_ns.saturating_add(quirks.queue_late_ms.saturating_mul(1_000_000));
                self.extensions.queue_next = Some((QueueMode::of(value), lazy_ns));
                usual_ns
            }
            _ => usual_ns,
        }
    }
}
