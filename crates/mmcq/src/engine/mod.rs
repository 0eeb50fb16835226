//! The heart: slots, order, look-ahead, phases, deadlines. No waker is called here, no lock taken, no clock read.

mod buffer;
mod request;

pub use buffer::DmaBuf;
pub use request::{BLOCK_BYTES, Completion, Error, Kind, Output, Request, SlotId};
