//! Draws the rates of a grid: lines over one of its axes, or a bar for each point.

use super::grid::Axis;
use super::{Row, told};
use crate::page::chart::{COLOURS, short};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;

/// Largest number of bars, lines or values of an axis in a picture.
const SHOWN_MAX: usize = 60;
const FONT: (&str, u32) = ("sans-serif", 13);
/// Approximate width of a letter in pixels.
const LETTER: i32 = 7;

/// Least width of a picture in pixels.
const WIDTH: u32 = 640;
const LETTERS: usize = 84;
const RULE: RGBColor = RGBColor(0xcc, 0xcc, 0xcc);

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Point of a line, or a bar. Its rate is the mean over the rows that belong to it.
struct Cell {
    /// Name of the line that this point belongs to, or of this bar.
    of: String,
    /// Value of this point on the horizontal axis; empty for a bar.
    at: String,
    /// Sum of the rates in MiB/s of the rows that belong to this point or bar, and number of these
    /// rows.
    rate: (f64, u32),
    /// Largest limit in MiB/s (what wire and card allow) of the rows that belong to this point or
    /// bar.
    limit: Option<f64>,
    /// Largest 99th percentile of the latency, in us, of the rows that belong to this point or bar.
    p99_us: f64,
}

/// Returns a picture of the rates in these rows, whose points vary along these axes. `load` names
/// the load in the title.
///
/// # Errors
/// There is nothing to draw, or too much; the error is one line.
pub fn of(axes: &[Axis], rows: &[Row], load: &str) -> Result<String, String> {
    let along = along(axes);
    let cells = cells(axes, along, rows);
    if cells.is_empty() {
        return Err("--plot: no row has a rate; expected a point that runs".to_owned());
    }
    let (lines, places) = (distinct(&cells, |cell| &cell.of), distinct(&cells, |cell| &cell.at));
    let most = lines.len().max(places.len());
    if most > SHOWN_MAX {
        return Err(format!("--plot: {most} values beside each other; expected at most {SHOWN_MAX}"));
    }
    let mut svg = String::new();
    let mut fixed = told::fixed(&told::names(axes), rows.first());
    if let Some(seeds) = axes.iter().find(|axis| axis.key == "seed") {
        fixed.push(format!("mean of {} seeds", seeds.values.len()));
    }
    let title = told::title("Rate", load, &fixed, LETTERS);
    let drawn = match along {
        Some(axis) => draw_lines(&axis.key, (&lines, &places), &cells, &title, &mut svg),
        None => draw_bars(&cells, &title, &mut svg),
    };
    drawn.map_err(|error| format!("--plot: the picture cannot be drawn: {error}"))?;
    Ok(svg)
}

/// Returns the axis that lies along the picture's horizontal axis: the last one, except seed and
/// platform, that has several values which all begin with a digit. `None`: there is none.
fn along(axes: &[Axis]) -> Option<&Axis> {
    let counts = |axis: &&Axis| {
        let numbers = axis.values.iter().all(|value| value.starts_with(|c: char| c.is_ascii_digit()));
        axis.key != "seed" && axis.key != "platform" && axis.values.len() > 1 && numbers
    };
    axes.iter().rev().find(counts)
}

/// Returns the cells that the picture shows, in the order of the rows. Rows that differ only in
/// seed or direction are one cell. `axes`: the columns that vary; `along`: the one of them on the
/// horizontal axis, if there is one.
fn cells(axes: &[Axis], along: Option<&Axis>, rows: &[Row]) -> Vec<Cell> {
    let mut all: Vec<Cell> = Vec::new();
    for row in rows {
        let value = |name: &str| row.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let text = |name: &str| match value(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let Some(rate) = value("run_mib_s").and_then(Value::as_f64) else { continue };
        let limit = value("limit_mib_s").and_then(Value::as_f64);
        let p99_us = value("lat_p99_us").and_then(Value::as_f64).unwrap_or_default();
        let others = axes.iter().filter(|axis| along.is_none_or(|x| x.key != axis.key) && axis.key != "seed");
        let of = others.map(|axis| text(&axis.key)).collect::<Vec<_>>().join(" ");
        let at = along.map_or(String::new(), |axis| text(&axis.key));
        match all.iter_mut().find(|cell| (&cell.of, &cell.at) == (&of, &at)) {
            Some(cell) => {
                cell.rate = (cell.rate.0 + rate, cell.rate.1 + 1);
                cell.p99_us = cell.p99_us.max(p99_us);
                cell.limit = [cell.limit, limit].into_iter().flatten().reduce(f64::max);
            }
            None => all.push(Cell { of, at, rate: (rate, 1), limit, p99_us }),
        }
    }
    all
}

impl Cell {
    fn mean(&self) -> f64 {
        self.rate.0 / f64::from(self.rate.1)
    }
}

fn distinct<'a>(cells: &'a [Cell], of: impl Fn(&'a Cell) -> &'a String) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for text in cells.iter().map(of) {
        if !all.contains(&text.as_str()) {
            all.push(text);
        }
    }
    all
}

fn text_at(h: HPos) -> TextStyle<'static> {
    TextStyle::from(FONT.into_font()).pos(Pos::new(h, VPos::Center))
}

/// Writes the lines of a title, and returns the height that they take.
fn draw_title(area: &Area<'_>, title: &[String]) -> Result<i32, Box<dyn std::error::Error>> {
    for (row, line) in (0..).zip(title) {
        let size = if row == 0 { 16 } else { FONT.1 };
        let style = TextStyle::from((FONT.0, size).into_font());
        area.draw(&Text::new(line.clone(), (10, 10 + 20 * row), style))?;
    }
    Ok(10 + 20 * title.len() as i32)
}

fn draw_lines(
    key: &str,
    (lines, places): (&[&str], &[&str]),
    cells: &[Cell],
    title: &[String],
    svg: &mut String,
) -> Drawn {
    let top = cells.iter().map(Cell::mean).fold(f64::MIN_POSITIVE, f64::max);
    let legend = 20 * lines.iter().filter(|line| !line.is_empty()).count() as u32;
    let (width, height) = (WIDTH.max(52 * places.len() as u32 + 120), 340);
    let head = 10 + 20 * title.len() as u32;
    let area = SVGBackend::with_string(svg, (width, head + height + legend)).into_drawing_area();
    area.fill(&WHITE)?;
    draw_title(&area, title)?;
    let (_, below) = area.split_vertically(head);
    let (upper, lower) = below.split_vertically(height);
    let mut chart = ChartBuilder::on(&upper)
        .margin(10)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(-0.4..places.len() as f64 - 0.6, 0.0..top * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_label_formatter(&|y| short(*y))
        .x_desc(told::with_unit(key))
        .y_desc("rate, MiB/s")
        .axis_desc_style(FONT)
        .label_style(FONT)
        .light_line_style(WHITE)
        .draw()?;
    for (place, name) in places.iter().enumerate() {
        // This position is one in the whole picture.
        let (x, y) = chart.backend_coord(&(place as f64, 0.0));
        area.draw(&Text::new((*name).to_owned(), (x, y + 12), text_at(HPos::Center)))?;
    }
    for (row, line) in lines.iter().enumerate() {
        let colour = COLOURS[row % COLOURS.len()];
        let point = |(place, name): (usize, &&str)| {
            let cell = cells.iter().find(|cell| cell.of == *line && cell.at == *name)?;
            Some((place as f64, cell.mean()))
        };
        let points: Vec<(f64, f64)> = places.iter().enumerate().filter_map(point).collect();
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        chart.draw_series([PathElement::new(points, colour.stroke_width(2))])?;
        if !line.is_empty() {
            let y = 20 * row as i32 + 8;
            lower.draw(&Rectangle::new([(62, y - 5), (76, y + 5)], colour.filled()))?;
            lower.draw(&Text::new((*line).to_owned(), (84, y), text_at(HPos::Left)))?;
        }
    }
    area.present()?;
    Ok(())
}

fn draw_bars(cells: &[Cell], title: &[String], svg: &mut String) -> Drawn {
    let letters = cells.iter().map(|cell| cell.of.chars().count() as i32).max().unwrap_or(0);
    let mut title = title.to_vec();
    if cells.iter().any(|cell| cell.limit.is_some()) {
        title.push("black lines: what wire and card allow".to_owned());
    }
    let (left, long, head) = (letters * LETTER + 20, 360, 10 + 20 * title.len() as i32);
    let foot = head + 30 * cells.len() as i32 + 4;
    let size = (WIDTH.max((left + long + 230) as u32), (foot + 46) as u32);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    draw_title(&area, &title)?;
    let rates = cells.iter().flat_map(|cell| [Some(cell.mean()), cell.limit]).flatten();
    let most = rates.filter(|rate| rate.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    let x_of = |rate: f64| left + (f64::from(long) * rate / most) as i32;
    let step = step(most);
    for tick in (0..=TICKS_MAX).map(|at| f64::from(at) * step).take_while(|rate| *rate <= most) {
        area.draw(&PathElement::new([(x_of(tick), head), (x_of(tick), foot + 4)], RULE.stroke_width(1)))?;
        area.draw(&Text::new(short(tick), (x_of(tick), foot + 14), text_at(HPos::Center)))?;
    }
    area.draw(&PathElement::new([(left, foot), (left + long, foot)], BLACK.stroke_width(1)))?;
    let middle = (left + long / 2, foot + 34);
    area.draw(&Text::new("rate, MiB/s", middle, text_at(HPos::Center)))?;
    for (cell, y) in cells.iter().zip((head + 15..).step_by(30)) {
        let right = x_of(cell.mean());
        area.draw(&Text::new(cell.of.clone(), (left - 8, y), text_at(HPos::Right)))?;
        area.draw(&Rectangle::new([(left, y - 10), (right, y + 10)], COLOURS[0].filled()))?;
        let mut end = right;
        if let Some(limit) = cell.limit {
            let x = x_of(limit);
            area.draw(&PathElement::new([(x, y - 13), (x, y + 13)], BLACK.stroke_width(2)))?;
            end = end.max(x);
        }
        let said = format!("{} MiB/s, 99 % in {} us", short(cell.mean()), short(cell.p99_us));
        area.draw(&Text::new(said, (end + 6, y), text_at(HPos::Left)))?;
    }
    area.present()?;
    Ok(())
}

/// Largest number of ticks of an axis.
const TICKS_MAX: u32 = 6;

/// Returns the distance of an axis' ticks: 1, 2 or 5 times a power of 10, so that at most
/// [`TICKS_MAX`] of them reach `most`.
fn step(most: f64) -> f64 {
    let least = most / f64::from(TICKS_MAX);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(setting: &str, depth: u64, rate: f64) -> Row {
        vec![
            ("setting".into(), setting.into()),
            ("job.iodepth".into(), depth.into()),
            ("lat_p99_us".into(), 5300.0.into()),
            ("run_mib_s".into(), rate.into()),
            ("limit_mib_s".into(), 42.0.into()),
        ]
    }

    #[test]
    fn a_line_goes_through_each_value_of_the_axis_of_numbers() {
        let axes: Vec<Axis> =
            ["setting=none,mmcq", "job.iodepth=1,4,16"].map(|axis| axis.parse().unwrap()).to_vec();
        let rows: Vec<Row> = ["none", "mmcq"]
            .iter()
            .flat_map(|setting| [1, 4, 16].map(|depth| row(setting, depth, depth as f64)))
            .collect();
        let svg = of(&axes, &rows, "a.fio").unwrap();
        assert_eq!(
            (svg.matches("<circle").count(), svg.matches("<polyline").count() >= 2),
            (6, true),
            "{svg}"
        );
        for text in ["none", "mmcq", "job.iodepth, requests", "16", "rate, MiB/s", "Rate of a.fio"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn settings_alone_are_bars_with_what_99_percent_take() {
        let axes: Vec<Axis> = vec!["setting=none,mmcq".parse().unwrap()];
        let rows = [row("none", 1, 10.0), row("mmcq", 1, 20.0), row("mmcq", 1, 40.0)];
        let svg = of(&axes, &rows, "a.fio").unwrap();
        assert_eq!(svg.matches("<rect").count(), 1 + 2, "the ground and two bars: {svg}");
        assert!(svg.contains("30 MiB/s, 99 % in 5300 us") && svg.contains("none"), "{svg}");
        for text in ["Rate of a.fio", "rate, MiB/s", "black lines: what wire and card allow"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(of(&axes, &[], "a.fio").unwrap_err().contains("no row has a rate"));
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (most, expected) in [(5.9, 1.0), (42.0, 10.0), (100.0, 20.0), (0.7, 0.2), (6.0, 1.0)] {
            assert!((step(most) - expected).abs() < 1e-9, "{most}: {}", step(most));
        }
    }
}
