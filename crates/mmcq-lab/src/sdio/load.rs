//! SDIO function that a user has described in a file, as a load: how often it has a packet, and the
//! bus commands by which the driver handles each packet.

use super::platform::Board;
use mmcq::host::{Auto, Data, Direction, Phase};
use mmcq::spec::command::sdio::{self as cmd, Amount, Extended};
use mmcq_sim::document;
use serde::Deserialize;
use std::path::Path;

/// Largest number of blocks in a CMD53 in block mode.
const BLOCKS_MAX: u32 = 511;
/// Largest number of bytes that one command (step) of the driver transfers.
const STEP_BYTES_MAX: u32 = 1 << 16;
/// Largest number of commands that the driver may send to handle one packet.
const STEPS_MAX: usize = 64;
/// Number (1 to 7) of the card's SDIO function that the user's file describes.
pub const FUNCTION: u8 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    per_second: f64,
    #[serde(default = "File::buffer_packets")]
    buffer_packets: usize,
    poll_us: Option<f64>,
    #[serde(default = "File::block_bytes")]
    block_bytes: u16,
    #[serde(default = "File::access_us")]
    access_us: f64,
    work_us: Option<f64>,
    #[serde(default = "File::for_ms")]
    for_ms: u64,
    step: Vec<StepKeys>,
}

impl File {
    fn buffer_packets() -> usize {
        4
    }

    fn block_bytes() -> u16 {
        512
    }

    fn access_us() -> f64 {
        2.0
    }

    fn for_ms() -> u64 {
        4_000
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepKeys {
    name: Option<String>,
    read: Option<u32>,
    write: Option<u32>,
    value: Option<u8>,
    bytes: Option<u32>,
    #[serde(default)]
    increments: bool,
    #[serde(default = "StepKeys::function")]
    function: u8,
    #[serde(default)]
    clears: bool,
}

impl StepKeys {
    fn function() -> u8 {
        FUNCTION
    }
}

/// A step of the driver for each packet: a CMD52, or CMD53 commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the step in the tables that show where a packet's time was spent.
    pub name: String,
    /// Whether the step writes to the card; false: it reads.
    pub write: bool,
    /// Number of the function that is accessed: 0 (the card's common registers) or [`FUNCTION`].
    pub function: u8,
    /// Address of the first register that the step (a CMD52 or CMD53) accesses.
    pub address: u32,
    /// Byte that the step writes, if the step is a CMD52 that writes.
    pub value: u8,
    /// Number of bytes to transfer by CMD53; `None`: one register, by CMD52.
    pub bytes: Option<u32>,
    /// Whether CMD53 increments the register address after each byte.
    pub increments: bool,
    /// Whether this step clears the function's interrupt.
    pub clears: bool,
}

impl Step {
    /// Returns the number of bytes that the step transfers: 1 for CMD52.
    pub fn moved_bytes(&self) -> u32 {
        self.bytes.unwrap_or(1)
    }

    fn extended(&self, count: Amount, address: u32) -> Extended {
        let Step { write, function, increments, .. } = *self;
        Extended { write, function, addr: address, increment: increments, count }
    }

    /// Returns the commands of Linux's driver for this step: whole blocks in block mode, then the
    /// remaining bytes in byte mode.
    fn phases(&self, block_bytes: u16) -> Vec<Phase> {
        let plain = |command, data| Phase { command, data, auto: Auto::None, tuning: false };
        let Some(bytes) = self.bytes else {
            let command = match self.write {
                true => cmd::io_write(self.function, self.address, self.value),
                false => cmd::io_read(self.function, self.address),
            };
            return vec![plain(command, None)];
        };
        let direction = if self.write { Direction::Write } else { Direction::Read };
        let (mut phases, mut done) = (Vec::new(), 0);
        while done < bytes {
            let (left, block) = (bytes - done, u32::from(block_bytes));
            let address = if self.increments { self.address + done } else { self.address };
            let (count, block_size, blocks) = match left > block {
                true => {
                    let blocks = (left / block).min(BLOCKS_MAX);
                    (Amount::Blocks(blocks as u16), block_bytes, blocks)
                }
                false => (Amount::Bytes(left as u16), left as u16, 1),
            };
            let command = cmd::io_rw_extended(self.extended(count, address));
            phases.push(plain(command, Some(Data { direction, block_size, blocks })));
            done += u32::from(block_size) * blocks;
        }
        phases
    }
}

/// An SDIO function that a user describes in a file, as a load: when packets arrive, and the
/// driver's steps for each packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Description of the function, one line of text.
    pub description: String,
    /// Time in ns from the arrival of one packet at the card to the arrival of the next.
    pub period_ns: u64,
    /// Number of packets that the card can buffer.
    pub buffer_packets: usize,
    /// Interval in ns at which the driver polls for packets; `None`: the driver waits for the
    /// card's interrupt.
    pub poll_ns: Option<u64>,
    /// Block size in bytes of CMD53 in block mode.
    pub block_bytes: u16,
    /// Time in ns that the card needs from a read command to the first data block.
    pub access_ns: u64,
    /// CPU time in ns that driver and user spend on each packet; `None`: the board's value.
    pub work_ns: Option<u64>,
    /// Length in ns of the measurement, after the warm-up.
    pub for_ns: u64,
    /// Commands that the driver sends for each packet, in order.
    pub steps: Vec<Step>,
}

impl Load {
    /// Returns whether the file's name says that the file describes a function; false: the file
    /// describes a fio job.
    pub fn is_named(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "toml")
    }

    /// Reads a load from a file.
    ///
    /// # Errors
    /// The file cannot be read, or its content is wrong; the error is one line of text.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::of(&text).map_err(|line| format!("function {}: {line}", path.display()))
    }

    /// Parses a load from text.
    ///
    /// # Errors
    /// The content is wrong; the error is one line of text.
    pub fn of(text: &str) -> Result<Self, String> {
        let file: File =
            document::read(text).map_err(|error| format!("line {}: {error}", error.line(text)))?;
        let number = |key: &str, value: f64, least: f64, most: f64| match (least..=most).contains(&value) {
            true => Ok(value),
            false => Err(format!("{key} = {value}: expected {least} to {most}")),
        };
        let ns =
            |key: &str, us: f64, least: f64| number(key, us, least, 1e6).map(|us| (us * 1e3).round() as u64);
        let per_second = number("per_second", file.per_second, 0.1, 1e5)?;
        number("buffer_packets", file.buffer_packets as f64, 1.0, 1024.0)?;
        number("block_bytes", file.block_bytes.into(), 1.0, 512.0)?;
        number("for_ms", file.for_ms as f64, 1.0, 60_000.0)?;
        let steps =
            file.step.iter().zip(1..).map(|(keys, n)| step(keys, n)).collect::<Result<Vec<_>, _>>()?;
        let load = Load {
            description: file.description,
            period_ns: (1e9 / per_second).round() as u64,
            buffer_packets: file.buffer_packets,
            poll_ns: file.poll_us.map(|us| ns("poll_us", us, 1.0)).transpose()?,
            block_bytes: file.block_bytes,
            access_ns: ns("access_us", file.access_us, 0.0)?,
            work_ns: file.work_us.map(|us| ns("work_us", us, 0.0)).transpose()?,
            for_ns: file.for_ms * 1_000_000,
            steps,
        };
        load.holds()?;
        Ok(load)
    }

    /// Checks that the steps fit together: their number, the step that clears the interrupt, the
    /// first and the last step.
    fn holds(&self) -> Result<(), String> {
        let clears = self.steps.iter().filter(|step| step.clears).count();
        if self.steps.len() > STEPS_MAX {
            return Err(format!("step: {} of them; expected at most {STEPS_MAX}", self.steps.len()));
        }
        if clears != 1 {
            return Err(format!("step: clears = true in {clears} of them; expected one"));
        }
        if self.steps.last().is_some_and(|step| step.function == 0) {
            return Err(
                "the last step: function 0 does not see the end of a packet; expected function 1".into()
            );
        }
        let asks = |step: &Step| step.bytes.is_none() && !step.write && !step.clears;
        if self.poll_ns.is_some() && !(self.steps.len() > 1 && self.steps.first().is_some_and(asks)) {
            return Err(
                "poll_us: step 1 says whether there is a packet; expected a read of one register".into()
            );
        }
        Ok(())
    }

    /// Returns the bus commands that Linux's driver sends for a packet.
    pub fn phases(&self) -> Vec<Phase> {
        self.steps.iter().flat_map(|step| step.phases(self.block_bytes)).collect()
    }

    /// Returns the largest number of bytes that one of the steps transfers.
    pub fn bytes_max(&self) -> u32 {
        self.steps.iter().map(Step::moved_bytes).max().unwrap_or(1)
    }

    /// Returns the number of bytes that the steps with CMD53 transfer for a packet.
    pub fn packet_bytes(&self) -> u32 {
        self.steps.iter().filter_map(|step| step.bytes).sum()
    }

    /// Returns the board with its CPU time per packet (`work_ns`) replaced by this function's.
    pub fn on(&self, board: &Board) -> Board {
        let mut board = board.clone();
        if let Some(work_ns) = self.work_ns {
            board.cost.work_ns = work_ns;
        }
        board
    }
}

fn step(keys: &StepKeys, n: usize) -> Result<Step, String> {
    let fault = |what: &str| Err(format!("step {n}: {what}"));
    let (write, address) = match (keys.read, keys.write) {
        (Some(address), None) => (false, address),
        (None, Some(address)) => (true, address),
        _ => return fault("expected read = ADDRESS or write = ADDRESS"),
    };
    let end = u64::from(address) + if keys.increments { u64::from(keys.bytes.unwrap_or(1)) } else { 1 };
    if end > 0x2_0000 {
        return fault(&format!("address {address:#x}: expected registers below 0x20000"));
    }
    if keys.function > FUNCTION {
        return fault(&format!("function = {}: expected 0 or {FUNCTION}", keys.function));
    }
    if keys.function == 0 && (write || keys.bytes.is_some()) {
        return fault("of function 0 one register may be read; expected read without bytes");
    }
    if keys.bytes.is_some_and(|bytes| bytes == 0 || bytes > STEP_BYTES_MAX) {
        return fault(&format!("bytes: expected 1 to {STEP_BYTES_MAX}"));
    }
    if keys.increments && keys.bytes.is_none() {
        return fault("increments: expected bytes beside it");
    }
    if keys.value.is_some() && (!write || keys.bytes.is_some()) {
        return fault("value: expected a write without bytes");
    }
    if keys.clears && (keys.function == 0 || keys.bytes.is_some()) {
        return fault("clears: expected a register of function 1, without bytes");
    }
    let does = match (write, keys.bytes) {
        (false, None) => format!("read {address:#x}"),
        (true, None) => format!("write {address:#x}"),
        (false, Some(bytes)) => format!("read {bytes} bytes"),
        (true, Some(bytes)) => format!("write {bytes} bytes"),
    };
    Ok(Step {
        name: format!("{n} {}", keys.name.as_ref().unwrap_or(&does)),
        write,
        function: keys.function,
        address,
        value: keys.value.unwrap_or(0),
        bytes: keys.bytes,
        increments: keys.increments,
        clears: keys.clears,
    })
}
