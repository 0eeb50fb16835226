//! Points of a grid. Axes are crossed (all combinations of their values) or zipped (their values
//! change together). The order of the points is always the same.

use std::str::FromStr;

/// Largest number of points of a grid; no machine could run more.
pub const POINTS_MAX: usize = 10_000_000;

/// Axis of a grid: a key and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Key of the value that the axis changes, as in `--set`, or platform, card, setting, seed.
    pub key: String,
    /// Values of the axis as the user wrote them.
    pub values: Vec<String>,
}

impl FromStr for Axis {
    type Err = String;

    /// Parses an axis `KEY=a,b,c`. Commas inside brackets or quotes do not separate values; `1..8`
    /// means eight numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |what: &str| format!("--over {text}: {what}");
        let (key, list) = text.split_once('=').ok_or_else(|| fault("expected KEY=VALUE,VALUE..."))?;
        let mut values = Vec::new();
        for part in parts(list) {
            match range(part) {
                Some((first, last)) if first > last => return Err(fault(&format!("{part}: runs backwards"))),
                Some((first, last)) if last - first >= POINTS_MAX as u64 => {
                    return Err(fault(&format!("{part}: expected at most {POINTS_MAX} numbers")));
                }
                Some((first, last)) => values.extend((first..=last).map(|n| n.to_string())),
                None => values.push(bare(part).to_owned()),
            }
        }
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(fault("expected KEY=VALUE,VALUE..., none of them empty"));
        }
        let mut sorted: Vec<&String> = values.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(fault(&format!("{} stands there twice", pair[0])));
        }
        Ok(Axis { key: key.to_owned(), values })
    }
}

/// Splits a list of values at commas that are not inside brackets or quotes.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut parts) = (0_u32, false, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

fn range(part: &str) -> Option<(u64, u64)> {
    let (first, last) = part.split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Removes the quotes around a value.
fn bare(part: &str) -> &str {
    let inside = part.strip_prefix('"').and_then(|part| part.strip_suffix('"'));
    inside.filter(|inside| !inside.contains('"')).unwrap_or(part)
}

/// All points of a grid. Groups of axes are crossed; the axes of one group vary together. The last
/// group varies fastest.
#[derive(Clone, Debug)]
pub struct Grid {
    axes: Vec<Axis>,
    groups: Vec<Vec<usize>>,
    points: usize,
}

impl Grid {
    /// Makes a grid of these axes. Each of `zips` names axes that vary together, separated by
    /// commas.
    ///
    /// # Errors
    /// An axis is given twice, a zip names an unknown axis or axes of different length, or there
    /// are too many points; the error is one line.
    pub fn new(axes: Vec<Axis>, zips: &[String]) -> Result<Self, String> {
        for (at, axis) in axes.iter().enumerate() {
            if axes[..at].iter().any(|other| other.key == axis.key) {
                return Err(format!("--over {}: given twice; expected one list of values", axis.key));
            }
        }
        let mut groups: Vec<Vec<usize>> = (0..axes.len()).map(|axis| vec![axis]).collect();
        for zip in zips {
            let mut members = Vec::new();
            for key in zip.split(',') {
                let Some(axis) = axes.iter().position(|axis| axis.key == key) else {
                    return Err(format!("--zip {zip}: {key} is no axis; expected a key of --over"));
                };
                if members.contains(&axis) || !groups.contains(&vec![axis]) {
                    return Err(format!("--zip {zip}: {key} is zipped twice"));
                }
                members.push(axis);
            }
            let [first, others @ ..] = &members[..] else { continue };
            for other in others {
                let (a, b) = (&axes[*first], &axes[*other]);
                if a.values.len() != b.values.len() {
                    return Err(format!(
                        "--zip {zip}: {} has {} values and {} has {}; expected as many",
                        a.key,
                        a.values.len(),
                        b.key,
                        b.values.len()
                    ));
                }
            }
            let place = members.iter().min().copied().unwrap_or(0);
            let (first, place) = (vec![place], members.clone());
            for group in &mut groups {
                if *group == first {
                    *group = place.clone();
                }
            }
            groups.retain(|group| *group == place || !group.iter().any(|axis| place.contains(axis)));
        }
        let mut sizes = groups.iter().map(|group| axes[group[0]].values.len());
        let points = sizes.try_fold(1_usize, |all, size| all.checked_mul(size));
        let Some(points) = points.filter(|points| *points <= POINTS_MAX) else {
            return Err(format!("--over: too many points; expected at most {POINTS_MAX}"));
        };
        Ok(Grid { axes, groups, points })
    }

    /// Returns the axes in the order in which they were given.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the number of points of the grid (combinations of the axes' values).
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns a point as indices: for each axis, in the order of [`Grid::axes`], the index of the
    /// axis's value.
    pub fn places(&self, point: usize) -> Vec<usize> {
        let (mut left, mut places) = (point, vec![0; self.axes.len()]);
        for group in self.groups.iter().rev() {
            let size = self.axes[group[0]].values.len();
            group.iter().for_each(|axis| places[*axis] = left % size);
            left /= size;
        }
        places
    }

    /// Returns a point as pairs: for each axis its key, and its value at this point.
    pub fn point(&self, point: usize) -> Vec<(&str, &str)> {
        let places = self.places(point);
        let axes = self.axes.iter().zip(places);
        axes.map(|(axis, place)| (axis.key.as_str(), axis.values[place].as_str())).collect()
    }

    /// Returns whether a check of all values must include this point. It must if at most one group
    /// of axes (those that change together, `--zip`) is not at its first value. Groups with an axis
    /// of board or card are not counted: they may have any value. These points are few, and
    /// together they have every value on every board and card.
    pub fn is_telling(&self, point: usize) -> bool {
        let places = self.places(point);
        let scene = |group: &&Vec<usize>| {
            group.iter().any(|axis| ["platform", "card"].contains(&self.axes[*axis].key.as_str()))
        };
        let moved = |group: &&Vec<usize>| places[group[0]] > 0;
        self.groups.iter().filter(|group| !scene(group)).filter(moved).count() <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(over: &[&str], zips: &[&str]) -> Result<Grid, String> {
        let axes = over.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Grid::new(axes, &zips.iter().map(|zip| (*zip).to_owned()).collect::<Vec<_>>())
    }

    fn points(grid: &Grid) -> Vec<String> {
        let text =
            |point| grid.point(point).into_iter().map(|(_, value)| value).collect::<Vec<_>>().join(" ");
        (0..grid.points()).map(text).collect()
    }

    #[test]
    fn axes_are_crossed_and_the_last_is_the_fastest() {
        let crossed = grid(&["a=1,2", "seed=1..3"], &[]).unwrap();
        assert_eq!(points(&crossed), ["1 1", "1 2", "1 3", "2 1", "2 2", "2 3"]);
    }

    #[test]
    fn zipped_axes_go_together() {
        let zipped = grid(&["a=1,2", "b=x,y", "c=7,8"], &["a,c"]).unwrap();
        assert_eq!(points(&zipped), ["1 x 7", "1 y 7", "2 x 8", "2 y 8"]);
    }

    #[test]
    fn commas_in_brackets_and_quotes_part_nothing() {
        let axis: Axis = "job.bs=\"4k,8k\",[1,2],16k".parse().unwrap();
        assert_eq!(axis.values, ["4k,8k", "[1,2]", "16k"]);
    }

    #[test]
    fn telling_points_hold_every_value_with_every_card() {
        let grid = grid(&["card=p,q", "a=1,2,3", "b=1,2"], &[]).unwrap();
        let telling = (0..grid.points()).filter(|point| grid.is_telling(*point)).count();
        assert_eq!(telling, 2 * (1 + 2 + 1));
    }

    #[test]
    fn what_is_no_grid_is_refused_with_its_place() {
        for (over, zips, expected) in [
            (&["a=1", "a=2"][..], &[][..], "--over a: given twice"),
            (&["a=1,2", "b=1"], &["a,b"], "--zip a,b: a has 2 values and b has 1"),
            (&["a=1"], &["a,b"], "--zip a,b: b is no axis"),
            (&["a=1", "b=1", "c=1"], &["a,b", "b,c"], "--zip b,c: b is zipped twice"),
            (&["a=1,1"], &[], "--over a=1,1: 1 stands there twice"),
            (&["a=5..2"], &[], "5..2: runs backwards"),
            (&["a"], &[], "--over a: expected KEY=VALUE"),
            (&["a=1,,2"], &[], "none of them empty"),
            (&["a=1..9999", "b=1..9999"], &[], "too many points"),
            (&["a=0..18446744073709551615"], &[], "expected at most"),
        ] {
            let error = grid(over, zips).unwrap_err();
            assert!(error.contains(expected), "{error:?} does not have {expected:?}");
        }
    }
}
