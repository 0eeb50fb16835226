//! What every image does, on whatever board. An image has the modules `board` (the machine) and
//! `start` (how it comes up), the type `Stack`, and this folder as its module `plan`; `expect.rs`
//! is not of the image: it is the other side.

pub mod alone;
pub mod firmware;
pub mod judge;
pub mod pattern;
