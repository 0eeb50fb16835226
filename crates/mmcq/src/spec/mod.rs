//! What the standards say, as pure data: commands, responses, card registers, checksums, timing.
//!
//! Read first: `command.rs` (what goes to the card), `response.rs` (what comes back). One file a chapter after that.
//! Every parser is total: any input gives a value or an error, never a panic, a loop or an overflow.

pub mod command;
pub mod response;
