//! Draws a grid as a picture: two axes, and a figure as the colour of each cell.

use super::{Row, row, told};
use crate::page::chart::short;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The three columns of a sweep's rows that a heat map shows: two axes and a colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// Column whose values are on the horizontal axis.
    pub x: String,
    /// Column whose values are on the vertical axis, from top to bottom.
    pub y: String,
    /// Column whose figures are shown by colour: the colour of a cell is their mean over its rows.
    pub z: String,
}

impl std::str::FromStr for Heat {
    type Err = String;

    /// Parses `X,Y,Z`, the names of three columns.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(',').collect::<Vec<_>>()[..] {
            [x, y, z] if ![x, y, z].contains(&"") => {
                Ok(Heat { x: x.to_owned(), y: y.to_owned(), z: z.to_owned() })
            }
            _ => Err("expected three columns X,Y,Z: cost.wake_us,job.bs,mib_s".to_owned()),
        }
    }
}

/// Largest number of values on an axis of a picture.
const VALUES_MAX: usize = 200;
/// Number of letters after which a picture's title continues on the next line.
const LETTERS: usize = 84;

/// Squares of the heat map, with the sum of the figures that belong to each.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    heat: Heat,
    /// Values of both axes, in the order of the rows.
    axes: [Vec<String>; 2],
    /// For each square of the picture, by its column and row: the sum of the figures that belong to
    /// it, and how many they are.
    sums: BTreeMap<(usize, usize), (f64, u32)>,
    /// First row that was added. The picture's title names from it the board, card, setting and
    /// seed that no axis changes. `None`: no row was added.
    first: Option<Row>,
    /// Directions of the rows (read, write).
    directions: BTreeSet<String>,
}

impl Cells {
    /// Makes an empty picture of these columns.
    ///
    /// # Errors
    /// A column is not among `names`; the error is one line.
    pub fn new(heat: Heat, names: &[String]) -> Result<Self, String> {
        if let Some(unknown) = [&heat.x, &heat.y, &heat.z].into_iter().find(|name| !names.contains(name)) {
            return Err(format!("--heat: {unknown} is no column; expected one of: {}", names.join(", ")));
        }
        Ok(Cells { heat, ..Cells::default() })
    }

    /// Adds the figure of a row to the cell of the row's x and y values. A row without the figure
    /// is left out.
    pub fn add(&mut self, row: &Row) {
        let value = |name: &str| row.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let Some(z) = value(&self.heat.z).and_then(Value::as_f64) else { return };
        self.first.get_or_insert_with(|| row.clone());
        self.directions.extend(value("direction").and_then(Value::as_str).map(str::to_owned));
        let names = [&self.heat.x, &self.heat.y];
        let [x, y] = [0, 1].map(|axis: usize| {
            let text = match value(names[axis]) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            let known = self.axes[axis].iter().position(|known| *known == text);
            known.unwrap_or_else(|| {
                self.axes[axis].push(text);
                self.axes[axis].len() - 1
            })
        });
        let (sum, count) = self.sums.entry((x, y)).or_default();
        *sum += z;
        *count += 1;
    }

    /// Returns the picture as SVG. `load` names the load in the title, `axes` are the columns that
    /// vary.
    ///
    /// # Errors
    /// There is nothing to draw, or too much; the error is one line.
    pub fn svg(&self, load: &str, axes: &[String]) -> Result<String, String> {
        let [columns, rows] = [0, 1].map(|axis: usize| self.axes[axis].len());
        if self.sums.is_empty() {
            return Err(format!("--heat: no row has a figure in column {}", self.heat.z));
        }
        if columns.max(rows) > VALUES_MAX {
            return Err(format!(
                "--heat: an axis of {} values; expected at most {VALUES_MAX}",
                columns.max(rows)
            ));
        }
        let mut svg = String::new();
        let title = self.title(load, axes);
        self.draw(&title, &mut svg)
            .map_err(|error| format!("--heat: the picture cannot be drawn: {error}"))?;
        Ok(svg)
    }

    /// Returns the title of the picture in lines: the value and the load, the axes with one value,
    /// and what is drawn across and down.
    fn title(&self, load: &str, axes: &[String]) -> Vec<String> {
        let mut fixed = told::fixed(axes, self.first.as_ref());
        let shown = [&self.heat.x, &self.heat.y];
        let others: Vec<&str> =
            axes.iter().filter(|axis| !shown.contains(axis)).map(String::as_str).collect();
        if !others.is_empty() {
            fixed.push(format!("mean over {}", others.join(", ")));
        }
        let of_direction = row::figures().0.contains(&self.heat.z);
        if of_direction && self.directions.len() > 1 {
            fixed.push("mean of reads and writes".to_owned());
        }
        let mut title = told::title(&told::with_unit(&self.heat.z), load, &fixed, LETTERS);
        title.push(format!(
            "across: {}; down: {}",
            told::with_unit(&self.heat.x),
            told::with_unit(&self.heat.y)
        ));
        title
    }

    fn draw(&self, title: &[String], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let [columns, rows] = [0, 1].map(|axis: usize| self.axes[axis].len() as i32);
        let longest = self.axes[1].iter().map(|text| text.chars().count() as i32).max().unwrap_or(0);
        let (left, top, cell) = (24 + 8 * longest, 46 + 20 * title.len() as i32, (64, 30));
        let letters = title.iter().map(|line| line.chars().count() as i32).max().unwrap_or(0);
        let width = (left + columns * cell.0 + 20).max(24 + 8 * letters);
        let size = (width, top + rows * cell.1 + 20);
        let area = SVGBackend::with_string(svg, (size.0.try_into()?, size.1.try_into()?)).into_drawing_area();
        area.fill(&WHITE)?;
        let font = |size: i32| TextStyle::from(("sans-serif", size).into_font());
        let at = |pos: Pos, size: i32| font(size).pos(pos);
        let (centre, right) = (Pos::new(HPos::Center, VPos::Center), Pos::new(HPos::Right, VPos::Center));
        for (row, line) in (0..).zip(title) {
            let size = if row == 0 { 16 } else { 13 };
            area.draw(&Text::new(line.clone(), (12, 12 + 20 * row), font(size)))?;
        }
        let means = self.sums.iter().map(|(at, (sum, count))| (*at, sum / f64::from(*count)));
        let means: Vec<((usize, usize), f64)> = means.collect();
        let least = means.iter().map(|(_, z)| *z).fold(f64::INFINITY, f64::min);
        let most = means.iter().map(|(_, z)| *z).fold(f64::NEG_INFINITY, f64::max);
        for (x, text) in (0..).zip(&self.axes[0]) {
            let place = (left + x * cell.0 + cell.0 / 2, top - 14);
            area.draw(&Text::new(text.clone(), place, at(centre, 12)))?;
        }
        for (y, text) in (0..).zip(&self.axes[1]) {
            let place = (left - 8, top + y * cell.1 + cell.1 / 2);
            area.draw(&Text::new(text.clone(), place, at(right, 12)))?;
        }
        for ((x, y), z) in means {
            let share = if most > least { (z - least) / (most - least) } else { 0.5 };
            let (x, y) = (left + x as i32 * cell.0, top + y as i32 * cell.1);
            let corners = [(x, y), (x + cell.0 - 2, y + cell.1 - 2)];
            area.draw(&Rectangle::new(corners, colour(share).filled()))?;
            let ink = if share > 0.5 { BLACK } else { WHITE };
            let middle = (x + cell.0 / 2 - 1, y + cell.1 / 2 - 1);
            let said = Text::new(short(z), middle, at(centre, 12).color(&ink));
            area.draw(&said)?;
        }
        area.present()?;
        Ok(())
    }
}

/// Returns a colour from dark (share 0) to light (share 1). Its lightness alone shows the share,
/// for readers who cannot tell red from green.
fn colour(share: f64) -> RGBColor {
    const STEPS: [(f64, f64, f64); 5] = [
        (68.0, 1.0, 84.0),
        (59.0, 82.0, 139.0),
        (33.0, 145.0, 140.0),
        (94.0, 201.0, 98.0),
        (253.0, 231.0, 37.0),
    ];
    let place = share.clamp(0.0, 1.0) * (STEPS.len() - 1) as f64;
    let at = (place as usize).min(STEPS.len() - 2);
    let (a, b, part) = (STEPS[at], STEPS[at + 1], place - at as f64);
    let mix = |a: f64, b: f64| (a + (b - a) * part) as u8;
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_the_mean_of_its_rows() {
        let names = ["a", "b", "z"].map(str::to_owned);
        let mut cells = Cells::new("a,b,z".parse().unwrap(), &names).unwrap();
        for (a, b, z) in [(1, "x", 10.0), (1, "x", 20.0), (2, "x", 99.0), (2, "y", 41.0)] {
            let row: Row = vec![("a".into(), a.into()), ("b".into(), b.into()), ("z".into(), z.into())];
            cells.add(&row);
        }
        let svg = cells.svg("a.fio", &names[..2]).unwrap();
        assert_eq!(svg.matches("<rect").count(), 1 + 3, "the ground and three cells");
        for text in ["15", "99", "41", "z of a.fio", "across: a; down: b"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.contains("#FDE725") && svg.contains("#440154"), "the ends of the scale");
    }

    #[test]
    fn what_cannot_be_shown_is_said() {
        let names = ["a".to_owned(), "z".to_owned()];
        let error = Cells::new("a,b,z".parse().unwrap(), &names).unwrap_err();
        assert!(error.contains("b is no column; expected one of: a, z"), "{error}");
        assert!("a,b".parse::<Heat>().is_err() && "a,,b".parse::<Heat>().is_err());
        let cells = Cells::new("a,a,z".parse().unwrap(), &names).unwrap();
        assert!(cells.svg("a.fio", &[]).unwrap_err().contains("no row has a figure"));
    }
}
