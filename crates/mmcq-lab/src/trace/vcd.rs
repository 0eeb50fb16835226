//! Writes a waveform as a value change dump (VCD) [IEEE 1364-2005, 18].

use super::lines::{Clk, Line};
use super::wave::{Format, Head};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Largest number of clock cycles of a window whose clock edges are written one by one; the file
/// then has some hundred megabytes.
pub(super) const CYCLES_MAX: u64 = 3_000_000;

/// VCD file whose header has been written.
pub(super) struct Vcd<W> {
    ids: Vec<String>,
    /// Whether the lines' values at time 0 have been written.
    begun: bool,
    out: W,
}

impl<W: Write> Vcd<W> {
    pub(super) fn new(head: &Head, clk: Clk, mut out: W) -> io::Result<Self> {
        let lines = head.lines();
        let ids: Vec<String> = (0..lines.len()).map(id).collect();
        out.write_all(header(head, &lines, &ids, clk).as_bytes())?;
        Ok(Vcd { ids, begun: false, out })
    }
}

/// Returns the identifier by which the VCD file names signal number `n`. It consists of printable
/// characters except the space, of which ASCII has 94.
fn id(n: usize) -> String {
    let digit = |n: usize| char::from(b'!' + (n % 94) as u8);
    if n < 94 { digit(n).to_string() } else { [digit(n / 94 - 1), digit(n)].iter().collect() }
}

fn header(head: &Head, lines: &[Line], ids: &[String], clk: Clk) -> String {
    let mut out = String::new();
    let gated = match clk {
        Clk::Full => "",
        Clk::Gated => "  CLK is high while the clock runs\n",
    };
    let unit = if head.unit_ps() == 1 { "1 ps" } else { "1 ns" };
    let _ = write!(
        out,
        "$version mmcq {} $end\n$comment\n  time 0 is {} (virtual time)\n{gated}  \
         CPUn_hard, CPUn_soft, CPUn_job1 ...: the core is in a hard or soft interrupt, in this thread; none: idle\n  \
         HELD, if it is there: the engine holds the next start for the tail of a batch\n\
         $end\n$timescale {unit} $end\n$scope module mmcq $end\n",
        env!("CARGO_PKG_VERSION"),
        head.begin(),
    );
    for (line, id) in lines.iter().zip(ids) {
        let _ = writeln!(out, "$var wire 1 {id} {} $end", head.name(*line));
    }
    out.push_str("$upscope $end\n$enddefinitions $end\n");
    out
}

impl<W: Write> Format for Vcd<W> {
    fn values(&mut self, at: u64, values: &[(usize, bool)]) -> io::Result<()> {
        writeln!(self.out, "#{at}")?;
        let dump = !std::mem::replace(&mut self.begun, true);
        if dump {
            self.out.write_all(b"$dumpvars\n")?;
        }
        for (place, value) in values {
            writeln!(self.out, "{}{}", u8::from(*value), self.ids[*place])?;
        }
        if dump { self.out.write_all(b"$end\n") } else { Ok(()) }
    }

    fn end(&mut self, at: u64) -> io::Result<()> {
        writeln!(self.out, "#{at}")?;
        self.out.flush()
    }
}
