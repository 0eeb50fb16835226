//! Reads the TOML profile of an I/O card: a `description` and an `[io]` table with its functions.

use super::config::{self, Cis, FunctionConfig, IoConfig};
use super::function::{Function, Loopback};
use super::quirk::IoQuirks;
use super::registers::capability;
use super::type_a::{self, Source, TypeA};
use super::{IoCard, type_a::HEADER_BYTES};
use crate::card::ProfileError;
use crate::card::profile::Place;
use crate::document;
use serde::Deserialize;
use toml::Spanned;

/// OCR bits of 2.7 to 3.6 V.
const VOLTAGES: u32 = 0x00ff_8000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    io: IoKeys,
    #[serde(default)]
    quirk: IoQuirks,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IoKeys {
    source: String,
    cccr_revision: u8,
    sd_revision: u8,
    manufacturer: u16,
    device: u16,
    max_khz: Spanned<u32>,
    max_block_bytes: Spanned<u16>,
    multi_block: bool,
    direct_during_data: bool,
    high_speed: bool,
    #[serde(default)]
    uhs: Vec<Uhs>,
    #[serde(default)]
    async_interrupt: bool,
    rca: Spanned<u16>,
    time: TimeKeys,
    function: Spanned<Vec<FunctionKeys>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeKeys {
    source: String,
    power_up_ms: Spanned<f64>,
    voltage_release_us: Option<Spanned<f64>>,
}

#[derive(Clone, Copy, Deserialize)]
enum Uhs {
    #[serde(rename = "sdr50")]
    Sdr50 = 1,
    #[serde(rename = "sdr104")]
    Sdr104 = 2,
    #[serde(rename = "ddr50")]
    Ddr50 = 4,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionKeys {
    source: String,
    kind: Kind,
    class: u8,
    max_block_bytes: Spanned<u16>,
    enable_us: Spanned<f64>,
    enable_timeout_ms: Spanned<u32>,
    access_us: Spanned<f64>,
    write_busy_us: Spanned<f64>,
    packets: Option<PacketKeys>,
}

#[derive(Clone, Copy, Deserialize)]
enum Kind {
    #[serde(rename = "type-a")]
    TypeA,
    #[serde(rename = "loopback")]
    Loopback,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketKeys {
    payload_bytes: Spanned<u32>,
    per_second: Spanned<f64>,
    buffer_packets: Spanned<usize>,
    count: Option<u64>,
}

/// Behaviour of an I/O function, as a profile selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A Bluetooth Type-A function with a source of packets.
    TypeA(Source),
    /// The test function [`Loopback`] with FIFO, memory and interrupt.
    Loopback,
}

/// A card profile from which an I/O card can be built.
#[derive(Clone, Debug)]
pub struct IoProfile {
    name: String,
    description: String,
    sources: Vec<(String, String)>,
    config: IoConfig,
    /// For each function: its behaviour, the time in ns to the first block of a read, and the busy
    /// time in ns after a written block.
    behind: Vec<(Behind, u64, u64)>,
}

impl IoProfile {
    /// Reads a profile from TOML text; `name` is used as the file's name in error messages.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ProfileError> {
        let place = Place { text, name };
        let file: File = document::read(text).map_err(|error| place.document(&error))?;
        let io = &file.io;
        let mut sources =
            vec![("io".to_owned(), io.source.clone()), ("io.time".to_owned(), io.time.source.clone())];
        if !file.quirk.source.is_empty() {
            sources.push(("quirk".to_owned(), file.quirk.source.clone()));
        } else if file.quirk != IoQuirks::default() {
            let message = "missing field `source` in the table [quirk]".to_owned();
            return Err(ProfileError::Toml { name: name.into(), line: 1, message });
        }
        let Some(tran_speed) = config::tran_speed(*io.max_khz.get_ref()) else {
            return Err(place.value("max_khz", &io.max_khz, "a clock that TRAN_SPEED can say, like 25000"));
        };
        if *io.rca.get_ref() == 0 {
            return Err(place.value("rca", &io.rca, "1 to 65535"));
        }
        let keys = io.function.get_ref();
        if !(1..=7).contains(&keys.len()) {
            return Err(place.value("function", &io.function, "1 to 7 functions"));
        }
        let mut functions = Vec::new();
        let mut behind = Vec::new();
        for (keys, number) in keys.iter().zip(1..) {
            sources.push((format!("io.function {number}"), keys.source.clone()));
            functions.push(function(&place, keys)?);
            behind.push((
                packets(&place, keys)?,
                place.us("access_us", &keys.access_us)?,
                place.us("write_busy_us", &keys.write_busy_us)?,
            ));
        }
        let max_block_bytes = block_bytes(&place, &io.max_block_bytes)?;
        let mut chains = vec![config::common_chain(io.manufacturer, io.device, max_block_bytes, tran_speed)];
        chains.extend(functions.iter().map(|function| config::function_chain(function, VOLTAGES)));
        for bytes in &file.quirk.cis {
            if !bytes.get_ref().put_into(&mut chains) {
                let lens: Vec<String> = chains.iter().map(|chain| chain.len().to_string()).collect();
                let expected = format!("a place in one of the chains, of {} bytes", lens.join(", "));
                return Err(place.value("cis", bytes, &expected));
            }
        }
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let config = IoConfig {
            revision: io.cccr_revision,
            sd_revision: io.sd_revision,
            capabilities: bit(io.multi_block, capability::MULTI_BLOCK)
                | bit(io.direct_during_data, capability::DIRECT),
            ocr: VOLTAGES,
            high_speed: io.high_speed,
            uhs: io.uhs.iter().fold(0, |all, &one| all | one as u8),
            async_interrupt: io.async_interrupt,
            max_block_bytes,
            power_up_ns: place.ms("power_up_ms", &io.time.power_up_ms)?,
            voltage_release_ns: match &io.time.voltage_release_us {
                Some(us) => place.us("voltage_release_us", us)?,
                None => 0,
            },
            rca: *io.rca.get_ref(),
            functions,
            cis: Cis::chains(&chains),
            quirks: file.quirk.clone(),
        };
        Ok(IoProfile { name: name.to_owned(), description: file.description, sources, config, behind })
    }

    /// Returns the name given to [`IoProfile::from_toml`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns one line about the card.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the sources of the numbers in the profile, as pairs of table and source.
    #[must_use]
    pub fn sources(&self) -> &[(String, String)] {
        &self.sources
    }

    /// Returns the identity of the card, which the caller may change before it builds the card.
    pub fn config_mut(&mut self) -> &mut IoConfig {
        &mut self.config
    }

    /// Returns the behaviour of each function, function 1 first, which the caller may change before
    /// it builds the card.
    pub fn behind_mut(&mut self) -> impl Iterator<Item = &mut Behind> {
        self.behind.iter_mut().map(|(behind, ..)| behind)
    }

    /// Builds the card. Also returns the packet counters of its Type-A functions, each with its
    /// function number.
    #[must_use]
    pub fn build(&self) -> (IoCard, Vec<(u8, type_a::Handle)>) {
        let mut handles = Vec::new();
        let mut functions: Vec<Box<dyn Function>> = Vec::new();
        for (&(behind, access_ns, busy_ns), number) in self.behind.iter().zip(1u8..) {
            functions.push(match behind {
                Behind::TypeA(source) => {
                    let function = TypeA::new(source, access_ns, busy_ns);
                    handles.push((number, function.counts()));
                    Box::new(function)
                }
                Behind::Loopback => Box::new(Loopback::new(access_ns, busy_ns)),
            });
        }
        (IoCard::new(self.config.clone(), functions), handles)
    }
}

fn block_bytes(place: &Place<'_>, key: &Spanned<u16>) -> Result<u16, ProfileError> {
    let bytes = *key.get_ref();
    if (1..=2048).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(place.value("max_block_bytes", key, "1 to 2048"))
    }
}

fn function(place: &Place<'_>, keys: &FunctionKeys) -> Result<FunctionConfig, ProfileError> {
    let timeout_ms = *keys.enable_timeout_ms.get_ref();
    if !timeout_ms.is_multiple_of(10) || timeout_ms > 655_350 {
        return Err(place.value("enable_timeout_ms", &keys.enable_timeout_ms, "tens of ms up to 655350"));
    }
    Ok(FunctionConfig {
        class: keys.class,
        max_block_bytes: block_bytes(place, &keys.max_block_bytes)?,
        enable_ns: place.us("enable_us", &keys.enable_us)?,
        enable_timeout_10ms: (timeout_ms / 10) as u16,
    })
}

fn packets(place: &Place<'_>, keys: &FunctionKeys) -> Result<Behind, ProfileError> {
    let (Kind::TypeA, Some(packets)) = (keys.kind, &keys.packets) else {
        return match (keys.kind, &keys.packets) {
            (Kind::Loopback, None) => Ok(Behind::Loopback),
            (Kind::Loopback, Some(packets)) => {
                Err(place.value("payload_bytes", &packets.payload_bytes, "no packets for a loopback"))
            }
            (Kind::TypeA, _) => Err(place.value(
                "max_block_bytes",
                &keys.max_block_bytes,
                "a table `packets` in a function of kind type-a",
            )),
        };
    };
    let payload_bytes = *packets.payload_bytes.get_ref();
    if !(4..=0xffff - HEADER_BYTES as u32).contains(&payload_bytes) {
        return Err(place.value("payload_bytes", &packets.payload_bytes, "4 to 65531"));
    }
    let per_second = *packets.per_second.get_ref();
    if !(1e-3..=1e6).contains(&per_second) {
        return Err(place.value("per_second", &packets.per_second, "0.001 to 1000000"));
    }
    if *packets.buffer_packets.get_ref() == 0 {
        return Err(place.value("buffer_packets", &packets.buffer_packets, "at least 1"));
    }
    Ok(Behind::TypeA(Source {
        payload_bytes,
        period_ns: (1e9 / per_second).round() as u64,
        packets: packets.count,
        buffer_packets: *packets.buffer_packets.get_ref(),
    }))
}
