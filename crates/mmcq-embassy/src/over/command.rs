//! Translates mmcq's commands to commands of the crate `sdio`, where a command's index and its form
//! of response are parts of its type.

use crate::bus::words;
use aligned::{A4, Aligned};
use mmcq::host::{Data, Direction, Phase};
use mmcq::spec::command::{Command, Resp};
use mmcq::spec::response::Response;
use sdio::common::BlockSize;
use sdio::{
    BlockCommand, BlockReadCommand, BlockWriteCommand, ByteCommand, ByteReadCommand, ByteWriteCommand,
    ControlCommand, MmcBus, MmcError, ResponseLen,
};

/// Form of a command's response: there is no response.
const NONE: u8 = 0;
/// Form of a command's response: 48 bits.
const R1: u8 = 1;
/// Form of a command's response: 48 bits, followed by busy.
const R1B: u8 = 2;
/// Form of a command's response: 48 bits without CRC.
const R3: u8 = 3;
/// Form of a command's response: 136 bits.
const R2: u8 = 4;

struct Words<const FORM: u8>([u32; 4]);

impl<const FORM: u8> sdio::Response for Words<FORM> {
    const CRC: bool = matches!(FORM, R1 | R1B | R2);
    const BUSY: bool = FORM == R1B;
    const LEN: ResponseLen = match FORM {
        NONE => ResponseLen::Zero,
        R2 => ResponseLen::R136,
        _ => ResponseLen::R48,
    };

    fn from_words(buf: &[u32; 4]) -> Self {
        Words(*buf)
    }
}

struct Plain<const INDEX: u8, const FORM: u8>(u32);

impl<const INDEX: u8, const FORM: u8> sdio::Command for Plain<INDEX, FORM> {
    const INDEX: u8 = INDEX;
    type Resp<'a> = Words<FORM>;

    fn arg(&self) -> u32 {
        self.0
    }
}

impl<const INDEX: u8, const FORM: u8> ControlCommand for Plain<INDEX, FORM> {}

/// A command with data in `M`: a borrow of the buffer that is exactly as long as the data.
struct Moving<const INDEX: u8, M> {
    arg: u32,
    size: BlockSize,
    blocks: u32,
    memory: M,
}

impl<const INDEX: u8, M> sdio::Command for Moving<INDEX, M> {
    const INDEX: u8 = INDEX;
    type Resp<'a>
        = Words<R1>
    where
        Self: 'a;

    fn arg(&self) -> u32 {
        self.arg
    }
}

impl<const INDEX: u8, M> BlockCommand for Moving<INDEX, M> {
    fn block_size(&self) -> BlockSize {
        self.size
    }

    fn block_count(&self) -> u32 {
        self.blocks
    }
}

type Into<'m> = &'m mut Aligned<A4, [u8]>;
type From<'m> = &'m Aligned<A4, [u8]>;

impl<const INDEX: u8> BlockReadCommand for Moving<INDEX, Into<'_>> {
    fn buf(&mut self) -> &mut Aligned<A4, [u8]> {
        self.memory
    }
}

impl<const INDEX: u8> BlockWriteCommand for Moving<INDEX, From<'_>> {
    fn buf(&self) -> &Aligned<A4, [u8]> {
        self.memory
    }
}

/// A CMD53 in byte mode, with its argument and its data.
struct Bytes<M>(u32, M);

impl<M> sdio::Command for Bytes<M> {
    const INDEX: u8 = 53;
    type Resp<'a>
        = Words<R1>
    where
        Self: 'a;

    fn arg(&self) -> u32 {
        self.0
    }
}

impl ByteCommand for Bytes<Into<'_>> {
    fn byte_count(&self) -> usize {
        self.1.len()
    }
}

impl ByteCommand for Bytes<From<'_>> {
    fn byte_count(&self) -> usize {
        self.1.len()
    }
}

impl ByteReadCommand for Bytes<Into<'_>> {
    fn buf(&mut self) -> &mut Aligned<A4, [u8]> {
        self.1
    }
}

impl ByteWriteCommand for Bytes<From<'_>> {
    fn buf(&self) -> &Aligned<A4, [u8]> {
        self.1
    }
}

fn form(resp: Resp) -> u8 {
    match resp {
        Resp::None => NONE,
        Resp::R1 | Resp::R5 | Resp::R6 | Resp::R7 => R1,
        Resp::R1b => R1B,
        Resp::R3 | Resp::R4 => R3,
        Resp::R2 => R2,
    }
}

fn block_size(bytes: u16) -> BlockSize {
    match bytes {
        1 => BlockSize::B1,
        2 => BlockSize::B2,
        4 => BlockSize::B4,
        8 => BlockSize::B8,
        16 => BlockSize::B16,
        32 => BlockSize::B32,
        64 => BlockSize::B64,
        128 => BlockSize::B128,
        256 => BlockSize::B256,
        512 => BlockSize::B512,
        1024 => BlockSize::B1024,
        2048 => BlockSize::B2048,
        _ => BlockSize::Unknown,
    }
}

/// Returns whether the command is a CMD53 in byte mode [SDIO 5.3].
fn is_bytes(command: Command) -> bool {
    command.index == 53 && command.arg & 1 << 27 == 0
}

/// Lists the commands without data: index and form of response.
macro_rules! plain {
    ($each:ident) => {
        $each! {
            (0, NONE) (1, R3) (2, R2) (3, R1) (4, NONE) (5, R3) (5, R1B) (6, R1) (6, R1B) (7, R1B) (7, NONE)
            (8, R1) (9, R2) (10, R2) (12, R1) (12, R1B) (13, R1) (15, NONE) (16, R1) (22, R1) (23, R1)
            (28, R1B) (29, R1B) (32, R1) (33, R1) (35, R1) (36, R1) (38, R1B) (41, R3) (42, R1) (52, R1) (55, R1)
        }
    };
}

/// Lists the commands that read blocks. Tuning is not among them, since such a bus needs none up to
/// 50 MHz.
macro_rules! reads {
    ($each:ident) => {
        $each! { 6 8 13 17 18 22 30 31 48 51 53 }
    };
}

macro_rules! writes {
    ($each:ident) => {
        $each! { 24 25 26 27 42 49 53 }
    };
}

/// Returns whether [`perform`] can execute this command (the other driver's crate knows only some).
pub(super) fn known(phase: &Phase) -> bool {
    macro_rules! plain_known {
        ($(($index:literal, $form:ident))*) => {
            matches!((phase.command.index, form(phase.command.resp)), $(($index, $form))|*)
        };
    }
    macro_rules! index_known {
        ($($index:literal)*) => { matches!(phase.command.index, $($index)|*) };
    }
    match phase.data {
        None => plain!(plain_known),
        Some(_) if form(phase.command.resp) != R1 => false,
        Some(_) if is_bytes(phase.command) => true,
        Some(data) if matches!(block_size(data.block_size), BlockSize::Unknown) => false,
        Some(Data { direction: Direction::Read, .. }) => reads!(index_known),
        Some(Data { direction: Direction::Write, .. }) => writes!(index_known),
    }
}

/// Executes a command with its data (a [`Phase`]) on the bus of another driver.
pub(super) async fn perform<B: MmcBus>(
    bus: &mut B,
    phase: &Phase,
    buffer: Option<Into<'_>>,
) -> Result<Response, MmcError> {
    let command = phase.command;
    let Some(data) = phase.data else { return plain_command(bus, command).await };
    let bytes = usize::from(data.block_size).saturating_mul(data.blocks as usize);
    let memory = buffer.filter(|buffer| buffer.len() >= bytes).ok_or(MmcError::BlockSize)?;
    let memory = &mut memory[..bytes];
    let words = match data.direction {
        Direction::Read if is_bytes(command) => bus.read_bytes(Bytes(command.arg, memory)).await?,
        Direction::Write if is_bytes(command) => bus.write_bytes(Bytes(command.arg, &*memory)).await?,
        Direction::Read => read_blocks(bus, command, data, memory).await?,
        Direction::Write => write_blocks(bus, command, data, memory).await?,
    };
    Ok(Response { words: words.0 })
}

async fn plain_command<B: MmcBus>(bus: &mut B, command: Command) -> Result<Response, MmcError> {
    macro_rules! send {
        ($(($index:literal, $form:ident))*) => {
            match (command.index, form(command.resp)) {
                $(($index, $form) => bus.send_command(Plain::<$index, $form>(command.arg)).await?.0,)*
                _ => return Err(MmcError::Unsupported),
            }
        };
    }
    Ok(Response { words: words(command.resp, plain!(send)) })
}

async fn read_blocks<B: MmcBus>(
    bus: &mut B,
    Command { index, arg, .. }: Command,
    data: Data,
    memory: Into<'_>,
) -> Result<Words<R1>, MmcError> {
    let (size, blocks) = (block_size(data.block_size), data.blocks);
    macro_rules! read {
        ($($index:literal)*) => {
            match index {
                $($index => bus.read_blocks(Moving::<$index, Into<'_>> { arg, size, blocks, memory }, false).await,)*
                _ => Err(MmcError::Unsupported),
            }
        };
    }
    reads!(read)
}

async fn write_blocks<B: MmcBus>(
    bus: &mut B,
    Command { index, arg, .. }: Command,
    data: Data,
    memory: From<'_>,
) -> Result<Words<R1>, MmcError> {
    let (size, blocks) = (block_size(data.block_size), data.blocks);
    macro_rules! write {
        ($($index:literal)*) => {
            match index {
                $($index => bus.write_blocks(Moving::<$index, From<'_>> { arg, size, blocks, memory }, false).await,)*
                _ => Err(MmcError::Unsupported),
            }
        };
    }
    writes!(write)
}
