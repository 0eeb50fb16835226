//! The code that all images share. An image has the modules `board` (the machine) and `start`
//! (reset code), the type `Stack`, and this folder as its module `plan`. `expect.rs` does not
//! belong to the image: it is its counterpart on the development computer.

pub mod alone;
pub mod firmware;
pub mod judge;
pub mod pattern;
