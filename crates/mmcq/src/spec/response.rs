//! Responses as the host hands them over [SD 4.9], [eMMC 6.12].

/// The content of a response, without start bits, index and CRC.
///
/// A 48-bit response is in `words[0]` (bits 39:8 on the wire). A 136-bit response fills all four, bits 127:96 first;
/// the last byte (CRC and end bit) reads as zero, since many controllers do not keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// See above.
    pub words: [u32; 4],
}
