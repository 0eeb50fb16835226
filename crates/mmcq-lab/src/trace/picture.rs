//! Draws a capture as a picture: rows of named boxes over a time axis, like a labelled photograph
//! of an oscilloscope. Idle times are folded to a fixed width.

use super::capture::Capture;
use super::steps::{self, Lane};
use super::window::time;
use crate::system::Held;
use mmcq_sim::cpu::Context;
use std::fmt::Write;

/// Width in pixels of the rows, without the names.
const WIDTH: f64 = 1_400.0;
/// Width in pixels of the space for the names, left of the rows.
const LEFT: f64 = 96.0;
const TOP: f64 = 44.0;
const LANE: f64 = 30.0;
const BOX: f64 = 22.0;
/// Width in pixels at which each folded idle time is drawn.
const FOLD: f64 = 34.0;
/// Largest number of rows for requests that are under way at the same time.
const ROWS_MAX: usize = 12;
/// Approximate width in pixels of a letter of the text.
const LETTER: f64 = 6.2;
/// Width in pixels below which a box is joined with neighbouring boxes of the same kind.
const NARROW: f64 = 4.0;

/// A box in a row of the picture.
#[derive(Clone)]
struct Piece {
    from_ns: u64,
    to_ns: u64,
    label: String,
    detail: String,
    colour: &'static str,
}

/// Returns the first lines of an SVG file. `full` and `height`: size of the picture in pixels.
/// `title`: its title, which begins `left` pixels from the left edge. `font`: size of the other
/// text in pixels.
pub(crate) fn head((full, height): (f64, f64), left: f64, font: u32, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {height}\" width=\"{full}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"{font}\">\n<rect width=\"{full}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"15\">{}</text>\n",
        escaped(title)
    )
}

/// Returns the picture as the text of an SVG file.
pub fn write(capture: &Capture, title: &str) -> String {
    let lanes = lanes(capture);
    let axis = Axis::new(capture, &lanes);
    let height = TOP + LANE * lanes.len() as f64 + 44.0;
    let full = LEFT + WIDTH + 16.0;
    let mut out = head((full, height), LEFT, 11, title);
    axis.draw(&mut out, TOP + LANE * lanes.len() as f64);
    for (row, (name, pieces)) in lanes.iter().enumerate() {
        let y = TOP + LANE * row as f64;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <line x1=\"{LEFT}\" y1=\"{b}\" x2=\"{}\" y2=\"{b}\" stroke=\"#cfd8dc\"/>",
            LEFT - 8.0,
            y + 16.0,
            escaped(name),
            LEFT + WIDTH,
            b = y + BOX
        );
        let pieces = joined(pieces, &axis);
        let nexts = pieces.iter().skip(1).map(|next| axis.x(next.from_ns)).chain([LEFT + WIDTH]);
        for (piece, next_x) in pieces.iter().zip(nexts) {
            draw(piece, next_x, capture, &axis, y, &mut out);
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Joins data blocks (with their CRC status) that are too narrow to be seen separately.
fn joined(pieces: &[Piece], axis: &Axis) -> Vec<Piece> {
    let mut out: Vec<(Piece, u32)> = Vec::new();
    for piece in pieces {
        let status = piece.label == "crc";
        let narrow = axis.x(piece.to_ns) - axis.x(piece.from_ns) < NARROW * if status { 1.0 } else { 3.0 };
        match out.last_mut() {
            Some((last, count))
                if narrow
                    && *count > 0
                    && (status || last.label == piece.label)
                    && axis.x(piece.from_ns) - axis.x(last.to_ns) < NARROW =>
            {
                last.to_ns = piece.to_ns;
                *count += u32::from(!status);
            }
            _ => out.push((piece.clone(), u32::from(narrow && piece.label.ends_with(" B")))),
        }
    }
    let named = |(mut piece, count): (Piece, u32)| {
        if count > 1 {
            piece.label = format!("{count} x {}", piece.label);
            piece.detail = format!("{count} times {}", piece.detail);
        }
        piece
    };
    out.into_iter().map(named).collect()
}

/// Draws a box at the height `y`, with the longest text that fits into it or into the space before
/// the next box, which begins at `next_x`; both in pixels.
fn draw(piece: &Piece, next_x: f64, capture: &Capture, axis: &Axis, y: f64, out: &mut String) {
    let from = axis.x(piece.from_ns);
    let width = (axis.x(piece.to_ns) - from).max(0.6);
    let begin = time(piece.from_ns.saturating_sub(capture.from_ns));
    let length = time(piece.to_ns.saturating_sub(piece.from_ns));
    let _ = writeln!(
        out,
        "<g><title>{}: at {begin}, for {length}</title><rect x=\"{from:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{BOX}\" \
         fill=\"{}\" stroke=\"#37474f\" stroke-width=\"0.4\"/>",
        escaped(&piece.detail),
        piece.colour
    );
    let room = |text: &str| text.chars().count() as f64 * LETTER + 4.0;
    let longer = format!("{} {length}", piece.label);
    let inside = [&longer, &piece.label].into_iter().find(|text| room(text) <= width);
    let (text, x, anchor) = match inside {
        Some(text) => (text, from + width / 2.0, "middle"),
        None if from + width + room(&piece.label) <= next_x => (&piece.label, from + width + 3.0, "start"),
        None => (&piece.detail, 0.0, ""),
    };
    if !anchor.is_empty() {
        let y = y + 15.0;
        let _ =
            writeln!(out, "<text x=\"{x:.2}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>", escaped(text));
    }
    out.push_str("</g>\n");
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn lanes(capture: &Capture) -> Vec<(String, Vec<Piece>)> {
    let mut lanes = Vec::new();
    let (mut cmd, mut dat) = (Vec::new(), Vec::new());
    for step in steps::steps(capture) {
        let colour = match (step.label.as_str(), step.lane) {
            ("busy", _) => "#ef9a9a",
            ("clock stopped", _) => "#eceff1",
            ("crc", _) => "#ffe082",
            (_, Lane::Dat) if step.detail.starts_with("read") => "#a5d6a7",
            (_, Lane::Dat) => "#90caf9",
            (label, _) if label.starts_with('R') => "#ffcc80",
            _ => "#ffab91",
        };
        let lane = if step.lane == Lane::Cmd { &mut cmd } else { &mut dat };
        let from_ns = step.from_ns.max(capture.from_ns);
        lane.push(Piece { from_ns, to_ns: step.to_ns, label: step.label, detail: step.detail, colour });
    }
    let phases = steps::phases(capture).into_iter().map(|phase| Piece {
        from_ns: phase.from_ns.max(capture.from_ns),
        to_ns: phase.to_ns,
        detail: phase.label.clone(),
        label: phase.label,
        colour: "#d1c4e9",
    });
    lanes.push(("phase".to_owned(), phases.collect()));
    lanes.push(("CMD".to_owned(), cmd));
    lanes.push(("DAT".to_owned(), dat));
    if !capture.holds.is_empty() {
        lanes.push(("held".to_owned(), holds(capture)));
    }
    lanes.push(("interrupt".to_owned(), interrupts(capture)));
    let at_work = |core: &u8| capture.spans.iter().any(|span| span.core == *core);
    for core in (0..capture.cores as u8).filter(at_work) {
        let pieces = steps::contexts(capture, core).into_iter().map(|(from_ns, to_ns, context)| {
            let label = steps::context_name(capture, context);
            let colour = match context {
                Context::Hard => "#e57373",
                Context::Deferred => "#ffb74d",
                Context::Thread(_) => "#81d4fa",
            };
            Piece { from_ns, to_ns, detail: label.clone(), label, colour }
        });
        lanes.push((format!("core {core}"), pieces.collect()));
    }
    lanes.extend(requests(capture));
    lanes
}

fn holds(capture: &Capture) -> Vec<Piece> {
    let piece = |held: &Held| Piece {
        from_ns: held.from_ns.max(capture.from_ns),
        to_ns: held.to_ns.min(capture.until_ns),
        label: "held".to_owned(),
        detail: steps::held_name(held),
        colour: "#fff59d",
    };
    capture.holds.iter().map(piece).collect()
}

fn interrupts(capture: &Capture) -> Vec<Piece> {
    let ends = capture.interrupts.iter().skip(1).map(|i| i.0).chain([capture.until_ns]);
    let up = capture.interrupts.iter().zip(ends).filter(|((_, level), _)| *level);
    up.map(|((from_ns, _), to_ns)| Piece {
        from_ns: (*from_ns).max(capture.from_ns),
        to_ns,
        label: "up".to_owned(),
        detail: "interrupt line up".to_owned(),
        colour: "#ce93d8",
    })
    .collect()
}

/// Returns rows with boxes for the requests, each request in the first row that is free at its
/// time. If no row is free, the request is only counted.
fn requests(capture: &Capture) -> Vec<(String, Vec<Piece>)> {
    let mut rows: Vec<(u64, Vec<Piece>)> = Vec::new();
    let mut left_out = 0;
    for request in &capture.requests {
        let from_ns = request.submitted_ns.max(capture.from_ns);
        let to_ns = request.done.map_or(capture.until_ns, |(at_ns, _)| at_ns).min(capture.until_ns);
        let row = match rows.iter().position(|row| row.0 <= from_ns) {
            Some(row) => row,
            None if rows.len() < ROWS_MAX => {
                rows.push((0, Vec::new()));
                rows.len() - 1
            }
            None => {
                left_out += 1;
                continue;
            }
        };
        rows[row].0 = to_ns;
        let (label, job) = (request.label(), request.io.job + 1);
        let (detail, colour) = match request.done {
            Some((_, false)) => (format!("{label}, job {job}, failed"), "#e57373"),
            _ => (format!("{label}, job {job}"), "#b0bec5"),
        };
        rows[row].1.push(Piece { from_ns, to_ns, label, detail, colour });
    }
    let count = rows.len();
    let name = |n: usize| match n {
        0 => "requests".to_owned(),
        n if n + 1 == count && left_out > 0 => format!("{left_out} not shown"),
        _ => String::new(),
    };
    rows.into_iter().enumerate().map(|(n, row)| (name(n), row.1)).collect()
}

/// Time axis of the picture, with idle times folded.
struct Axis {
    from_ns: u64,
    /// Time intervals that are drawn: start and end in ns, and the x coordinate in pixels of the
    /// start.
    shown: Vec<(u64, u64, f64)>,
    px_per_ns: f64,
    step_ns: u64,
}

impl Axis {
    fn new(capture: &Capture, lanes: &[(String, Vec<Piece>)]) -> Axis {
        let mut busy: Vec<(u64, u64)> = lanes
            .iter()
            .filter(|(name, _)| !name.is_empty() && name != "requests")
            .flat_map(|(_, pieces)| pieces.iter().map(|p| (p.from_ns, p.to_ns)))
            .chain(capture.requests.iter().map(|r| r.submitted_ns.max(capture.from_ns)).map(|at| (at, at)))
            .chain([(capture.from_ns, capture.from_ns), (capture.until_ns, capture.until_ns)])
            .collect();
        busy.sort_unstable();
        let length: u64 = capture.until_ns - capture.from_ns;
        // An idle time longer than this is folded, except for a margin at both sides.
        let fold_ns = (length / 25).max(1);
        let margin_ns = fold_ns / 10;
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for (from, to) in busy {
            match stretches.last_mut() {
                Some(last) if from <= last.1.saturating_add(fold_ns) => last.1 = last.1.max(to),
                _ => stretches.push((from, to)),
            }
        }
        for stretch in &mut stretches {
            stretch.0 = stretch.0.saturating_sub(margin_ns).max(capture.from_ns);
            stretch.1 = (stretch.1 + margin_ns).min(capture.until_ns);
        }
        let shown_ns: u64 = stretches.iter().map(|(from, to)| to - from).sum();
        let folds = stretches.len().saturating_sub(1) as f64;
        let px_per_ns = (WIDTH - FOLD * folds) / shown_ns.max(1) as f64;
        let mut x = LEFT;
        let mut shown = Vec::new();
        for (from, to) in stretches {
            shown.push((from, to, x));
            x += (to - from) as f64 * px_per_ns + FOLD;
        }
        let mut step_ns = 1;
        while step_ns as f64 * px_per_ns < 90.0 {
            // The steps are 1, 2, 5, 10 and so on.
            step_ns = match step_ns.to_string().as_bytes()[0] {
                b'2' => step_ns / 2 * 5,
                _ => step_ns * 2,
            };
        }
        Axis { from_ns: capture.from_ns, shown, px_per_ns, step_ns }
    }

    fn x(&self, at_ns: u64) -> f64 {
        let n = self.shown.partition_point(|(from, ..)| *from <= at_ns).saturating_sub(1);
        let (from, to, x) = self.shown[n];
        x + at_ns.clamp(from, to).saturating_sub(from) as f64 * self.px_per_ns
    }

    fn draw(&self, out: &mut String, bottom: f64) {
        for (n, (from, to, _)) in self.shown.iter().enumerate() {
            let first = (from - self.from_ns).div_ceil(self.step_ns);
            let last = (to - self.from_ns) / self.step_ns;
            for tick in first..=last {
                let x = self.x(self.from_ns + tick * self.step_ns);
                let _ = writeln!(
                    out,
                    "<line x1=\"{x:.2}\" y1=\"{TOP}\" x2=\"{x:.2}\" y2=\"{bottom}\" stroke=\"#eceff1\"/>\n\
                     <text x=\"{x:.2}\" y=\"{}\" text-anchor=\"middle\" fill=\"#546e7a\">{}</text>",
                    bottom + 14.0,
                    time(tick * self.step_ns)
                );
            }
            let Some((next, _, x)) = self.shown.get(n + 1) else { continue };
            let _ = writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{TOP}\" width=\"{FOLD}\" height=\"{}\" fill=\"#f5f5f5\"/>\n\
                 <text x=\"{:.2}\" y=\"{}\" text-anchor=\"middle\" fill=\"#5b6b74\" font-size=\"9\">+{}</text>",
                x - FOLD,
                bottom - TOP,
                x - FOLD / 2.0,
                bottom + 28.0,
                time(next - to)
            );
        }
    }
}
