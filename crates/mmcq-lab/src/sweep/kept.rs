//! Finds the complete points in a file of rows whose sweep was interrupted, so that the sweep can
//! continue.

use std::io::{BufRead, Result as IoResult};

/// Part of a file of rows that a continued sweep keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Number of complete points (combinations of values of the sweep) in the file.
    pub points: usize,
    /// Number of bytes of the rows of complete points, including the line with the columns' names.
    pub bytes: u64,
}

/// Reads the file of an earlier sweep, whose rows are in the order of the sweep's points
/// (combinations of values). Returns how many points, and how many bytes of the file, are complete.
/// The last point in the file does not count, since it may lack some of its rows. `head`: first
/// line of the file, if it has one. `begin` returns the text with which the rows of a point begin;
/// `None` after the last point.
///
/// # Errors The file cannot be read. `Ok(Err(line))`: the line with this number does not belong to
/// the grid.
pub fn kept(
    mut file: impl BufRead,
    head: &str,
    mut begin: impl FnMut(usize) -> Option<String>,
) -> IoResult<Result<Kept, u64>> {
    let (mut at, mut number, mut line) = (0_u64, 0_u64, Vec::new());
    let (mut kept, mut here): (Kept, Option<String>) = (Kept { points: 0, bytes: 0 }, None);
    let mut wants_head = !head.is_empty();
    loop {
        line.clear();
        let size = file.read_until(b'\n', &mut line)? as u64;
        if size == 0 {
            return Ok(Ok(kept));
        }
        number += 1;
        let whole = line.last() == Some(&b'\n');
        let fits =
            |begin: &str| line.starts_with(begin.as_bytes()) || !whole && begin.as_bytes().starts_with(&line);
        if wants_head {
            if !fits(head) {
                return Ok(Err(number));
            }
            wants_head = false;
            if whole {
                kept.bytes = size;
            }
        } else if !here.as_deref().is_some_and(fits) {
            // The previous point is complete, since rows of the next one follow.
            let points = kept.points + usize::from(here.is_some());
            let next = begin(points).filter(|begin| fits(begin));
            if next.is_none() {
                return Ok(Err(number));
            }
            (here, kept) = (next, Kept { points, bytes: at });
        }
        at += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [&str; 4] = ["0,a,1\n", "0,a,2\n", "1,b,7\n", "2,c,8\n"];

    fn begin(point: usize) -> Option<String> {
        ["0,a,", "1,b,", "2,c,"].get(point).map(|text| (*text).to_owned())
    }

    #[test]
    fn a_file_that_ends_anywhere_is_known_up_to_its_last_whole_point() {
        let text = format!("n,x\n{}", ROWS.concat());
        for end in 0..=text.len() {
            let kept = kept(&text.as_bytes()[..end], "n,x\n", begin).unwrap().unwrap();
            let starts = [(0, 0), (4, 0), (16, 1), (22, 2)];
            let (bytes, points) = starts.into_iter().rev().find(|(at, _)| *at == 0 || end > *at).unwrap();
            let bytes = if bytes == 0 && end >= 4 { 4 } else { bytes };
            assert_eq!(kept, Kept { points, bytes: bytes as u64 }, "{end}");
        }
    }

    #[test]
    fn a_line_of_another_grid_is_named() {
        for (text, line) in [
            ("m,x\n", 1),
            ("hello", 1),
            ("n,x\n0,z,1\n", 2),
            ("n,x\n0,a,1\n2,c,1\n", 3),
            ("n,x\n0,a,1\n1,b,1\n0,a", 4),
            ("n,x\n0,a,1\n1,b,1\n2,c,1\n3", 5),
        ] {
            assert_eq!(kept(text.as_bytes(), "n,x\n", begin).unwrap(), Err(line), "{text:?}");
        }
    }
}
