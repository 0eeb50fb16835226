//! Draws packets of the SDIO experiment as one picture: each setting's window in its own row, on
//! one time axis.

use super::packet::Packet;
use super::trace::Step;
use crate::trace::picture::{escaped, head};
use crate::trace::steps::{self, Lane};
use crate::trace::{What, time};
use mmcq_sim::cpu::Context;
use std::fmt::Write;

const WIDTH: f64 = 1_300.0;
const LEFT: f64 = 104.0;
const TOP: f64 = 50.0;
const LANE: f64 = 19.0;
const BOX: f64 = 15.0;
/// Height in pixels of the row that names a setting.
const HEAD: f64 = 24.0;
const LETTER: f64 = 5.6;

/// A box of the picture: start, end, text that is shown if there is room, description, colour.
struct Piece {
    from_ns: u64,
    to_ns: u64,
    label: String,
    detail: String,
    colour: &'static str,
}

/// A row of the picture: its name and its boxes.
type Row = (&'static str, Vec<Piece>);

/// Returns the picture as the text of an SVG file; time 0 is the fall of DAT1.
pub fn write(packets: &[Packet], title: &str) -> String {
    let panels: Vec<(&Packet, Vec<Row>)> = packets.iter().map(|packet| (packet, rows(packet))).collect();
    let lead_ns = packets.iter().map(|p| p.capture.start_ns - p.capture.from_ns).max().unwrap_or(0);
    let tail_ns = packets.iter().map(|p| p.capture.until_ns - p.capture.start_ns).max().unwrap_or(1);
    let px_per_ns = WIDTH / (lead_ns + tail_ns) as f64;
    let height_of = |rows: &[Row]| HEAD + LANE * rows.len() as f64;
    let bottom = TOP + panels.iter().map(|(_, rows)| height_of(rows)).sum::<f64>();
    let (full, height) = (LEFT + WIDTH + 16.0, bottom + 26.0);
    let mut out = head((full, height), LEFT, 10, title);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"38\" fill=\"#546e7a\">Steps, each from the end of the one before: {}. Dark on DAT: the clock stands, \
         for want of room in the FIFO.</text>",
        Step::ALL.map(Step::name).join(", ")
    );
    let tick_ns = tick_ns(px_per_ns);
    for tick in 0..=tail_ns / tick_ns {
        let x = LEFT + (lead_ns + tick * tick_ns) as f64 * px_per_ns;
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#eceff1\"/>\n\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#546e7a\">{}</text>",
            bottom + 15.0,
            time(tick * tick_ns)
        );
    }
    let mut y = TOP;
    for (packet, rows) in &panels {
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\" font-size=\"12\" font-weight=\"bold\">{}</text>",
            y + 16.0,
            escaped(&heading(packet))
        );
        y += HEAD;
        let x = |at_ns: u64| LEFT + ((lead_ns + at_ns) as f64 - packet.capture.start_ns as f64) * px_per_ns;
        for (name, pieces) in rows {
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n\
                 <line x1=\"{LEFT}\" y1=\"{b:.1}\" x2=\"{:.1}\" y2=\"{b:.1}\" stroke=\"#cfd8dc\"/>",
                LEFT - 6.0,
                y + 11.0,
                x(packet.capture.until_ns),
                b = y + BOX
            );
            for piece in pieces {
                draw(piece, (x(piece.from_ns), x(piece.to_ns)), y, &mut out);
            }
            y += LANE;
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the heading of a packet's row: the setting, the latency, and the time for which the bus
/// clock was stopped.
fn heading(packet: &Packet) -> String {
    let start_ns = packet.capture.start_ns;
    let at = |wanted: Step| packet.steps.iter().find(|(step, ..)| *step == wanted).map(|s| s.2 - start_ns);
    let of = |step| at(step).map_or_else(|| "never".to_owned(), time);
    let (cleared, acknowledged) = (of(Step::Clear), of(Step::Acknowledge));
    let held_ns: u64 = stops(packet).map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    let name = packet.setting;
    format!(
        "{name}: cleared after {cleared}, acknowledged after {acknowledged}, clock stopped for {}",
        time(held_ns)
    )
}

fn stops(packet: &Packet) -> impl Iterator<Item = (u64, u64)> + '_ {
    let stopped = packet.capture.events.iter().filter(|event| event.what == What::ClockStopped);
    stopped.map(|event| (event.start_ns, event.end_ns))
}

/// Returns the distance in ns between two ticks of the time axis (1, 2, 5, 10 and so on), large
/// enough for the ticks' numbers. `px_per_ns`: scale of the axis in pixels per ns.
fn tick_ns(px_per_ns: f64) -> u64 {
    let mut tick_ns = 1_000;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(18) {
        if tick_ns as f64 * px_per_ns >= 80.0 {
            break;
        }
        tick_ns = (tick_ns as f64 * factor) as u64;
    }
    tick_ns
}

fn draw(piece: &Piece, (from, to): (f64, f64), y: f64, out: &mut String) {
    let width = (to - from).max(0.4);
    let length = time(piece.to_ns.saturating_sub(piece.from_ns));
    let _ = write!(
        out,
        "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BOX}\" fill=\"{}\"><title>{}, {length}</title></rect>",
        piece.colour,
        escaped(&piece.detail)
    );
    let room = |text: &str| text.chars().count() as f64 * LETTER + 3.0;
    let longer = format!("{} {length}", piece.label);
    let short = piece.label.split(' ').next().unwrap_or_default();
    let inside = [longer.as_str(), &piece.label, short].into_iter().find(|text| room(text) <= width);
    if let Some(text) = inside.filter(|_| !piece.label.is_empty()) {
        let (x, y) = (from + width / 2.0, y + 11.0);
        let _ =
            write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", escaped(text));
    }
    out.push('\n');
}

fn rows(packet: &Packet) -> Vec<Row> {
    let capture = &packet.capture;
    let piece = |from_ns: u64, to_ns: u64, label: &str, detail: &str, colour| Piece {
        from_ns: from_ns.max(capture.from_ns),
        to_ns: to_ns.min(capture.until_ns),
        label: label.to_owned(),
        detail: detail.to_owned(),
        colour,
    };
    let steps = packet.steps.iter().enumerate().map(|(n, (step, from_ns, to_ns))| {
        let colour = if n % 2 == 0 { "#d1c4e9" } else { "#b39ddb" };
        piece(*from_ns, *to_ns, step.name(), step.name(), colour)
    });
    let until_ns = [capture.until_ns];
    let ends = capture.card_irqs.iter().skip(1).map(|i| i.0).chain(until_ns);
    let asking = capture.card_irqs.iter().zip(ends).filter(|((_, low), _)| *low);
    let asking = asking
        .map(|((from_ns, _), to_ns)| piece(*from_ns, to_ns, "low", "DAT1 low: the card asks", "#f48fb1"));
    let mut running = Vec::new();
    let mut from_ns = capture.from_ns;
    for (stop_ns, go_ns) in stops(packet).chain([(capture.until_ns, capture.until_ns)]) {
        running.push(piece(from_ns, stop_ns, "", "clock runs", "#90a4ae"));
        from_ns = go_ns;
    }
    let (mut cmd, mut dat) = (Vec::new(), Vec::new());
    for step in steps::steps(capture).iter().filter(|step| step.label != "clock stopped") {
        let colour = match step.lane {
            Lane::Dat => "#a5d6a7",
            Lane::Cmd if step.label.starts_with('R') => "#ffcc80",
            Lane::Cmd => "#ffab91",
        };
        let lane = if step.lane == Lane::Cmd { &mut cmd } else { &mut dat };
        lane.push(piece(step.from_ns, step.to_ns, &step.label, &step.detail, colour));
    }
    dat.extend(
        stops(packet).map(|(from, to)| piece(from, to, "", "clock stopped: no room in the FIFO", "#37474f")),
    );
    let contexts = steps::contexts(capture, 0);
    let spent = |wanted: fn(Context) -> bool, colour: &'static str| {
        let these = contexts.iter().filter(move |(.., context)| wanted(*context));
        let boxes = these.map(move |(from_ns, to_ns, context)| {
            let name = steps::context_name(capture, *context);
            piece(*from_ns, *to_ns, if wanted(Context::Hard) { "" } else { &name }, &name, colour)
        });
        boxes.collect::<Vec<Piece>>()
    };
    let mut idle = Vec::new();
    let mut from_ns = capture.from_ns;
    for &(busy_ns, until_ns, _) in contexts.iter().chain([&(capture.until_ns, 0, Context::Hard)]) {
        if busy_ns > from_ns {
            idle.push(piece(from_ns, busy_ns, "", "idle", "#c5e1a5"));
        }
        from_ns = until_ns;
    }
    vec![
        ("steps", steps.collect()),
        ("DAT1 (interrupt)", asking.collect()),
        ("CLK", running),
        ("CMD", cmd),
        ("DAT", dat),
        ("hard interrupt", spent(|c| c == Context::Hard, "#e57373")),
        ("tasklet", spent(|c| c == Context::Deferred, "#ffb74d")),
        ("thread", spent(|c| matches!(c, Context::Thread(_)), "#81d4fa")),
        ("idle", idle),
    ]
}
