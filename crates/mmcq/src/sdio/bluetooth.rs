//! Bluetooth Type-A: HCI packets through a function's FIFO [SDIO Bluetooth 2].
//!
//! The driver receives a packet in six steps:
//! 1. read which function interrupts;
//! 2. read the function's interrupt register;
//! 3. clear that register;
//! 4. read the header, which has a length (24 bits, header included) and a type;
//! 5. read the payload;
//! 6. acknowledge.
//!
//! The driver must clear the interrupt before it reads the header, and acknowledge after it has
//! read the payload; otherwise an interrupt is lost.

use super::{At, CardInterrupt, Chain, Function, IoError};
use crate::engine::{self, DmaBuf};
use crate::task::Platform;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// FIFO register of the function, through which the packets go.
const DATA: At = At::Fifo(0x00);
/// Register of the function: 0 acknowledges a received packet, 1 requests it again.
const READ_RETRY: u32 = 0x10;
/// Register of the function. The function writes in it whether the host must send its last packet
/// again.
const WRITE_RETRY: u32 = 0x11;
/// Interrupt register of the function.
const INTERRUPT: u32 = 0x13;
/// Interrupt enable register of the function.
const INTERRUPT_ENABLE: u32 = 0x14;
/// Mode register of the function.
const MODE: u32 = 0x20;

/// Size of the header before each packet in bytes: length and type.
pub const HEADER_BYTES: u32 = 4;
/// Largest size of a packet with its header, in bytes.
pub const PACKET_BYTES_MAX: u32 = 65_543;
/// Number of times that a packet is requested, or sent, again.
pub const RETRIES: u8 = 3;

/// Kind and length of a packet that the host has received from a Bluetooth function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Type of the packet: ACL 2, SCO 3, event 4, ISO 5. Commands (1) only go to the card.
    pub kind: u8,
    /// Length of the payload in bytes; the payload is at the start of the buffer.
    pub bytes: u32,
}

/// A Bluetooth Type-A function, enabled. Receiving and sending may run at the same time.
#[derive(Debug)]
pub struct TypeA<'a, B: Platform, const N: usize> {
    function: Function<'a, B, N>,
    /// Whether the card still waits for the acknowledgement of a packet. The value outlives the
    /// future that received the packet.
    owes: AtomicBool,
}

impl<'a, B: Platform, const N: usize> TypeA<'a, B, N> {
    /// Resets the function, which may still wait for an acknowledgement by an earlier driver. Sets
    /// its block size to `block_bytes`, and enables it and its interrupt.
    pub async fn open(
        mut function: Function<'a, B, N>,
        irq: &mut CardInterrupt<'a, B, N>,
        block_bytes: u16,
    ) -> Result<Self, IoError> {
        function.reset().await?;
        function.set_block_size(block_bytes).await?;
        irq.enable(function.number()).await?;
        function.write_u8(MODE, 0, Chain::More).await?;
        function.write_u8(INTERRUPT_ENABLE, 1, Chain::Last).await?;
        Ok(TypeA { function, owes: AtomicBool::new(false) })
    }

    /// Receives the next packet. A damaged or invalid packet is requested again, up to [`RETRIES`]
    /// times; then its error is returned.
    pub async fn receive(
        &self,
        irq: &mut CardInterrupt<'a, B, N>,
        mut buf: DmaBuf,
    ) -> (Result<Packet, IoError>, DmaBuf) {
        let mut failures = 0;
        loop {
            let last = failures == RETRIES;
            match self.serve(irq, &mut buf, last).await {
                Ok(Some(packet)) => return (Ok(packet), buf),
                Err(error) if last => return (Err(error), buf),
                Err(_) => failures += 1,
                Ok(None) => {}
            }
        }
    }

    /// Waits for an interrupt, and receives its packet. `None`: the interrupt came from another
    /// function, or announced no packet. With `last`, a damaged or invalid packet is not requested
    /// again.
    async fn serve(
        &self,
        irq: &mut CardInterrupt<'a, B, N>,
        buf: &mut DmaBuf,
        last: bool,
    ) -> Result<Option<Packet>, IoError> {
        let f = &self.function;
        if self.owes.load(Relaxed) {
            self.answer(true).await?;
        }
        irq.wait().await?;
        let ours = irq.pending().await? & 1 << f.number() != 0;
        if !ours || f.read_u8(INTERRUPT, Chain::More).await? & 1 == 0 {
            irq.ack();
            return Ok(None);
        }
        self.owes.store(true, Relaxed);
        f.write_u8(INTERRUPT, 1, Chain::More).await?;
        let fetched = self.fetch(buf).await;
        self.answer(fetched.is_err() && !last).await?;
        irq.ack();
        fetched.map(Some)
    }

    /// Writes READ_RETRY, which answers the function about the last packet: requests the packet
    /// again if `again`, otherwise acknowledges it.
    async fn answer(&self, again: bool) -> Result<(), IoError> {
        let told = self.function.write_u8(READ_RETRY, u8::from(again), Chain::Last).await;
        self.owes.store(told.is_err(), Relaxed);
        told
    }

    /// Reads header and payload, one after the other, to the start of the buffer, which is aligned.
    async fn fetch(&self, buf: &mut DmaBuf) -> Result<Packet, IoError> {
        self.read(HEADER_BYTES, buf).await?;
        let [a, b, c, kind] = buf.first_chunk().copied().unwrap_or_default();
        let bytes = u32::from_le_bytes([a, b, c, 0]);
        let max_bytes = buf.len_bytes().saturating_add(HEADER_BYTES).min(PACKET_BYTES_MAX);
        if bytes <= HEADER_BYTES || bytes > max_bytes || !(2..=5).contains(&kind) {
            return Err(IoError::Packet { bytes, max_bytes, kind });
        }
        self.read(bytes - HEADER_BYTES, buf).await?;
        Ok(Packet { kind, bytes: bytes - HEADER_BYTES })
    }

    async fn read(&self, bytes: u32, buf: &mut DmaBuf) -> Result<(), IoError> {
        let memory = core::mem::replace(buf, DmaBuf::EMPTY);
        let result;
        (result, *buf) = self.function.read(DATA, bytes, memory, Chain::More).await;
        result
    }

    /// Sends a packet with `payload` bytes, which follow [`HEADER_BYTES`] of free space at the
    /// start of the buffer. If sending fails it is repeated, up to [`RETRIES`] times.
    pub async fn transmit(&self, kind: u8, payload: u32, mut buf: DmaBuf) -> (Result<(), IoError>, DmaBuf) {
        let bytes = payload.saturating_add(HEADER_BYTES);
        let max_bytes = buf.len_bytes().min(PACKET_BYTES_MAX);
        match buf.first_chunk_mut() {
            Some(room) if bytes <= max_bytes => *room = (bytes | u32::from(kind) << 24).to_le_bytes(),
            _ => return (Err(IoError::Packet { bytes, max_bytes, kind }), buf),
        }
        let mut failures = 0;
        loop {
            let result;
            (result, buf) = self.function.write(DATA, bytes, buf, Chain::Last).await;
            let wire =
                matches!(result, Err(IoError::Engine(engine::Error::Host(_)) | IoError::Refused { .. }));
            if !wire || failures == RETRIES {
                return (result, buf);
            }
            failures += 1;
            // The card drops the part of the packet that it has received. If this write fails, the
            // next try fails as well.
            let _ = self.function.write_u8(WRITE_RETRY, 1, Chain::Last).await;
        }
    }
}
