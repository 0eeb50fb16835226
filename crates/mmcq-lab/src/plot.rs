//! Draws a reproduced experiment as a picture: the rates of each of its cases (cells) as bars,
//! published values next to the model's, and the physical limit as a line.

use crate::reproduce::Row;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Kind of bar in the picture. It says which value of a row the bar shows: that of `setting`, as
/// published or from the model. It also has the bar's colour, and its text in the legend.
struct Bar {
    legend: &'static str,
    setting: &'static str,
    published: bool,
    colour: RGBColor,
}

const BARS: [Bar; 10] = [
    Bar { legend: "no queue, published", setting: "none", published: true, colour: RGBColor(176, 190, 197) },
    Bar { legend: "no queue, model", setting: "none", published: false, colour: RGBColor(96, 125, 139) },
    Bar {
        legend: "software queue, published",
        setting: "hsq-tag",
        published: true,
        colour: RGBColor(255, 204, 128),
    },
    Bar {
        legend: "software queue, model",
        setting: "hsq-tag",
        published: false,
        colour: RGBColor(245, 124, 0),
    },
    Bar {
        legend: "close each time, published",
        setting: "close",
        published: true,
        colour: RGBColor(159, 168, 218),
    },
    Bar {
        legend: "close each time, model",
        setting: "close",
        published: false,
        colour: RGBColor(63, 81, 181),
    },
    Bar {
        legend: "kept open, published",
        setting: "patch",
        published: true,
        colour: RGBColor(244, 143, 177),
    },
    Bar { legend: "kept open, model", setting: "patch", published: false, colour: RGBColor(194, 24, 91) },
    Bar { legend: "mmcq, same prices", setting: "mmcq", published: false, colour: RGBColor(67, 160, 71) },
    Bar { legend: "mmcq, own path", setting: "mmcq-own", published: false, colour: RGBColor(27, 94, 32) },
];

/// Returns an SVG picture of those rows of a reproduction whose unit is MiB/s or MB/s.
pub fn rates(rows: &[Row], title: &str) -> Result<String, String> {
    let mut svg = String::new();
    draw(rows, title, &mut svg).map_err(|error| format!("the picture cannot be drawn: {error}"))?;
    Ok(svg)
}

fn draw(rows: &[Row], title: &str, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let rates: Vec<&Row> = rows.iter().filter(|row| matches!(row.unit.as_str(), "MiB/s" | "MB/s")).collect();
    let mut units: Vec<&str> = rates.iter().map(|row| row.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    let mut cells: Vec<&str> = rates.iter().map(|row| row.cell.as_str()).collect();
    cells.dedup();
    let top = rates
        .iter()
        .flat_map(|row| [Some(row.model), row.published, row.limit])
        .flatten()
        .fold(1.0, f64::max);
    let value_of = |row: &Row, bar: &Bar| if bar.published { row.published } else { Some(row.model) };
    let drawn =
        |bar: &&Bar| rates.iter().any(|row| row.setting == bar.setting && value_of(row, bar).is_some());
    let bars: Vec<&Bar> = BARS.iter().filter(drawn).collect();
    let group = bars.len() as f64 + 1.5;
    let width = 900.max(110 * u32::try_from(cells.len())?);
    let area = SVGBackend::with_string(svg, (width, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..group * cells.len() as f64, 0.0..top * 1.62)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_desc(format!("rate, {}", units.join(" or ")))
        .light_line_style(WHITE)
        .draw()?;
    for (b, bar) in bars.iter().enumerate() {
        let boxes = cells.iter().enumerate().filter_map(|(c, cell)| {
            let row = rates.iter().find(|row| row.cell == *cell && row.setting == bar.setting)?;
            let value = value_of(row, bar)?;
            let left = group * c as f64 + b as f64 + 0.75;
            Some(Rectangle::new([(left, 0.0), (left + 0.9, value)], bar.colour.filled()))
        });
        let colour = bar.colour;
        chart
            .draw_series(boxes)?
            .label(bar.legend)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    for (c, cell) in cells.iter().enumerate() {
        let (left, right) = (group * c as f64 + 0.5, group * (c + 1) as f64 - 0.5);
        if let Some(limit) = rates.iter().find(|row| row.cell == *cell).and_then(|row| row.limit) {
            chart.draw_series([PathElement::new([(left, limit), (right, limit)], BLACK.stroke_width(1))])?;
        }
        let middle = chart.backend_coord(&((left + right) / 2.0, 0.0));
        let style = TextStyle::from(("sans-serif", 14).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new((*cell).to_owned(), (middle.0, middle.1 + 8), style))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE)
        .label_font(("sans-serif", 12))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_and_the_limit_are_drawn() {
        let row = |setting: &str, published| Row {
            cell: "rand read".to_owned(),
            setting: setting.to_owned(),
            unit: "MiB/s".to_owned(),
            published,
            fitted: false,
            model: 27.0,
            limit: Some(34.7),
        };
        let rows = [
            row("none", Some(27.04)),
            row("hsq-tag", None),
            Row { unit: "us".to_owned(), ..row("mmcq", None) },
        ];
        let svg = rates(&rows, "a title").unwrap();
        // Each kind of bar in the rows appears in the picture and in the legend, all others do not.
        // (The row `mmcq` has no rate.)
        let bars =
            BARS.iter().map(|bar| format!("#{:02X}{:02X}{:02X}", bar.colour.0, bar.colour.1, bar.colour.2));
        let drawn: Vec<usize> = bars.map(|colour| svg.matches(&colour).count().min(2)).collect();
        assert_eq!(drawn, [2, 2, 0, 2, 0, 0, 0, 0, 0, 0]);
        assert!(svg.contains("a title") && svg.contains("rand read"));
    }
}
