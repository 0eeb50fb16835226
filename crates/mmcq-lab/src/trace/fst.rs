//! Writes a waveform as a Fast Signal Trace (FST), the compressed format of GTKWave.

use super::lines::Clk;
use super::wave::{Format, Head};
use fst_writer::{
    FstBodyWriter, FstFileType, FstHeaderWriter, FstInfo, FstScopeType, FstSignalId, FstSignalType,
    FstVarDirection, FstVarType, FstWriteError,
};
use std::io::{self, Seek, Write};

/// Largest number of clock cycles of a window whose clock edges are written one by one.
pub(super) const CYCLES_MAX: u64 = 30_000_000;
/// Number of bytes of changes that are compressed together. Writing needs this much memory.
const SECTION_BYTES: usize = 4 << 20;

/// FST file whose header has been written.
pub(super) struct Fst<W: Write + Seek> {
    ids: Vec<FstSignalId>,
    /// Writer of the value changes; `None` when the file is complete.
    body: Option<FstBodyWriter<W>>,
}

impl<W: Write + Seek> Fst<W> {
    pub(super) fn new(head: &Head, clk: Clk, out: W) -> io::Result<Self> {
        let gated = match clk {
            Clk::Full => "",
            Clk::Gated => ", CLK is high while the clock runs",
        };
        let info = FstInfo {
            start_time: 0,
            timescale_exponent: if head.unit_ps() == 1 { -12 } else { -9 },
            version: format!("mmcq {}{gated}", env!("CARGO_PKG_VERSION")),
            date: format!("virtual time, 0 is {}", head.begin()),
            file_type: FstFileType::Verilog,
        };
        Fst::begin(head, &info, out).map_err(failed)
    }

    fn begin(head: &Head, info: &FstInfo, out: W) -> Result<Self, FstWriteError> {
        let mut file = FstHeaderWriter::new(out, info)?;
        file.scope("mmcq", "", FstScopeType::Module)?;
        let (bit, wire) = (FstSignalType::bit_vec(1), FstVarType::Wire);
        let lines = head.lines().into_iter();
        let ids = lines.map(|line| file.var(head.name(line), bit, wire, FstVarDirection::Implicit, None));
        let ids = ids.collect::<Result<_, _>>()?;
        file.up_scope()?;
        Ok(Fst { ids, body: Some(file.finish()?) })
    }
}

fn failed(error: FstWriteError) -> io::Error {
    match error {
        FstWriteError::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write + Seek> Format for Fst<W> {
    fn values(&mut self, at: u64, values: &[(usize, bool)]) -> io::Result<()> {
        let Some(body) = &mut self.body else { return Ok(()) };
        // A section may end only before a new time.
        if body.size() > SECTION_BYTES {
            body.flush().map_err(failed)?;
        }
        body.time_change(at).map_err(failed)?;
        for (place, value) in values {
            let value: &[u8] = if *value { b"1" } else { b"0" };
            body.signal_change(self.ids[*place], value).map_err(failed)?;
        }
        Ok(())
    }

    fn end(&mut self, at: u64) -> io::Result<()> {
        let Some(mut body) = self.body.take() else { return Ok(()) };
        body.time_change(at).map_err(failed)?;
        body.finish().map_err(failed)?.flush()
    }
}
