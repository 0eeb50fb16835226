//! Draws the charts of a page, as SVG whose width follows the width of the page. The page's style
//! replaces the colours of text and lines in dark mode.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Colour of text and lines, which the page's style replaces in dark mode.
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const RULE: RGBColor = RGBColor(0xcc, 0xcc, 0xcc);
/// Colours that can be seen on light and on dark: contrast at least 3 to 1.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0x3b, 0x7d, 0xd8),
    RGBColor(0xd9, 0x73, 0x0d),
    RGBColor(0x2e, 0x9e, 0x5b),
    RGBColor(0xd6, 0x45, 0x45),
    RGBColor(0x8e, 0x63, 0xce),
    RGBColor(0x0f, 0x98, 0xa0),
    RGBColor(0x7b, 0x87, 0x94),
    RGBColor(0xc2, 0x5a, 0x9e),
];
/// Width of a chart in pixels, narrow enough that its letters can be read on a telephone.
const WIDTH: u32 = 480;
/// Font of a chart's texts: name and size. On a telephone a chart is shown at three quarters of its
/// size, and plotters draws letters smaller than this number.
const FONT: (&str, u32) = ("sans-serif", 18);
/// Approximate width of a letter in pixels.
const LETTER: u32 = 9;

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Horizontal bar of several parts, each with its colour.
pub struct Bar {
    /// Label beside the bar that says what the bar shows.
    pub label: String,
    /// Parts of the bar from left to right: length and colour.
    pub parts: Vec<(f64, RGBColor)>,
}

/// Line of a chart, as a list of points.
pub struct Line {
    /// Points of the line, from left to right: x and y.
    pub points: Vec<(f64, f64)>,
    /// Colour of the line.
    pub colour: RGBColor,
}

/// Labels of a chart's axes, and the title for readers who cannot see the chart.
pub struct Axes<'a> {
    /// Title of the chart: what is drawn.
    pub title: &'a str,
    /// Label of the horizontal axis.
    pub x: &'a str,
    /// Label of the vertical axis.
    pub y: &'a str,
}

/// Returns the text with the characters escaped that an attribute or an element cannot contain.
fn escaped(text: &str) -> String {
    crate::trace::picture::escaped(text)
}

/// Returns a picture whose width follows the width of the page, with a title and the CSS class
/// `class`. The picture's own size and language are removed.
pub fn scaled(svg: &str, title: &str, class: &str) -> String {
    let (head, rest) = svg.split_once('>').unwrap_or(("", svg));
    let view = head.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"'));
    let view = view.map_or("0 0 100 100", |(view, _)| view);
    let title = escaped(title);
    format!(
        "<svg class=\"{class}\" viewBox=\"{view}\" width=\"100%\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"sans-serif\" font-size=\"11\">{}",
        rest.trim_end()
    )
}

fn picture(
    height: u32,
    axes: &Axes<'_>,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Drawn,
) -> Result<String, String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let drawn = draw(&area).and_then(|()| Ok(area.present()?));
    drop(area);
    drawn.map_err(|error| format!("the picture cannot be drawn: {error}"))?;
    Ok(scaled(&svg, axes.title, "chart"))
}

/// Returns the end of an axis that begins at 0. The end is always finite, since drawing an infinite
/// axis would not end.
fn end(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite() && *value > 0.0).reduce(f64::max).unwrap_or(1.0)
}

/// Draws horizontal bars, one below the other; `line` is a vertical line across all of them.
pub fn bars(axes: &Axes<'_>, bars: &[Bar], line: Option<f64>) -> Result<String, String> {
    let sum = |bar: &Bar| bar.parts.iter().map(|(length, _)| length).sum::<f64>();
    let most = end(bars.iter().map(sum).chain(line));
    let letters = bars.iter().map(|bar| bar.label.chars().count() as u32).max().unwrap_or(0);
    picture(30 * bars.len() as u32 + 66, axes, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(28)
            .x_label_area_size(50)
            .y_label_area_size(letters * LETTER + 10)
            .build_cartesian_2d(0.0..most * 1.12, 0.0..bars.len() as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_labels(5)
            .x_label_formatter(&|x| short(*x))
            .x_desc(axes.x)
            .axis_desc_style(FONT.into_font().color(&INK))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RULE)
            .axis_style(INK)
            .label_style(FONT.into_font().color(&INK))
            .draw()?;
        for (row, bar) in bars.iter().enumerate() {
            let middle = (bars.len() - row) as f64 - 0.5;
            let mut left = 0.0;
            for (length, colour) in &bar.parts {
                let corners = [(left, middle - 0.34), (left + length, middle + 0.34)];
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                left += length;
            }
            let beside = |h| FONT.into_font().color(&INK).pos(Pos::new(h, VPos::Center));
            let (x, y) = chart.backend_coord(&(0.0, middle));
            area.draw(&Text::new(bar.label.clone(), (x - 6, y), beside(HPos::Right)))?;
            let (x, y) = chart.backend_coord(&(left.max(line.unwrap_or(0.0)), middle));
            area.draw(&Text::new(short(left), (x + 5, y), beside(HPos::Left)))?;
        }
        if let Some(x) = line {
            let ends = [(x, 0.0), (x, bars.len() as f64)];
            chart.draw_series([PathElement::new(ends, INK.stroke_width(2))])?;
        }
        Ok(())
    })
}

/// Draws lines on common axes; `name_x` returns the label for a value on the horizontal axis.
pub fn lines(axes: &Axes<'_>, lines: &[Line], name_x: &dyn Fn(f64) -> String) -> Result<String, String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let places = || points().map(|point| point.0).filter(|x| x.is_finite());
    let least = places().reduce(f64::min).unwrap_or(0.0);
    let most = places().reduce(f64::max).unwrap_or(0.0);
    let most = if least < most { most } else { least + 1.0 };
    let top = end(points().map(|point| point.1));
    picture(270, axes, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(26)
            .x_label_area_size(50)
            .y_label_area_size(74)
            .build_cartesian_2d(least..most, 0.0..top * 1.06)?;
        chart
            .configure_mesh()
            .x_labels(5)
            .y_labels(5)
            .x_label_formatter(&|x| name_x(*x))
            .y_label_formatter(&|y| short(*y))
            .x_desc(axes.x)
            .y_desc(axes.y)
            .axis_desc_style(FONT.into_font().color(&INK))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RULE)
            .axis_style(INK)
            .label_style(FONT.into_font().color(&INK))
            .draw()?;
        for line in lines {
            chart.draw_series([PathElement::new(line.points.clone(), line.colour.stroke_width(2))])?;
        }
        Ok(())
    })
}

/// Returns a colour in the notation of a style sheet.
pub fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// Returns a number as text with a suitable number of digits.
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        least if least < 1.0 => 3,
        least if least < 10.0 => 2,
        least if least < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_takes_the_width_of_its_place_and_loads_nothing() {
        let axes = Axes { title: "rates & <limits>", x: "MiB/s", y: "" };
        let bar = |label: &str, length| Bar { label: label.to_owned(), parts: vec![(length, COLOURS[0])] };
        let svg = bars(&axes, &[bar("none", 27.0), bar("mmcq", 33.4)], Some(34.7)).unwrap();
        assert!(svg.starts_with("<svg class=\"chart\" viewBox=\"0 0 480 126\" width=\"100%\" role=\"img\""));
        assert!(svg.contains("rates &amp; &lt;limits&gt;") && !svg.contains("http"), "{svg}");
        assert_eq!(svg.matches("#3B7DD8").count(), 2);
        let line = Line { points: vec![(0.0, 1.0), (5.0, 2.0)], colour: COLOURS[1] };
        assert!(lines(&axes, &[line], &short).unwrap().contains("#D9730D"));
        let empty = Line { points: vec![], colour: COLOURS[1] };
        assert!(lines(&axes, &[empty], &short).is_ok() && bars(&axes, &[], None).is_ok());
        let flat = Line { points: vec![(7.0, 0.0); 3], colour: COLOURS[1] };
        assert!(lines(&axes, &[flat], &short).is_ok() && bars(&axes, &[bar("none", 0.0)], None).is_ok());
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.1234, 1.5, 33.44, 1234.5].map(short);
        assert_eq!(shown, ["0", "0.123", "1.5", "33.4", "1234"]);
    }
}
