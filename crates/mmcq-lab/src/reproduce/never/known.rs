//! Open losses: cells of the sweep in which mmcq is slower than the best setting of Linux, or has a
//! longer percentile, with the known reason.
//!
//! Each open loss is printed with its figures. The sweep fails if mmcq is slower in a cell that is
//! not in the list. It also fails if mmcq is not slower any more in a cell of the list: that cell
//! must then be removed from the list.

use super::{Cell, Load};

/// An open loss: a combination of board, card, load and settings (a cell) in which mmcq is slower
/// than the best of Linux, or has a longer 99th percentile, for a known reason.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Names of the board and the card of the cell (one combination of board, card and load in the
    /// sweep).
    pub place: (&'static str, &'static str),
    /// Load of the jobs in this case.
    pub load: Load,
    /// Size in bytes of each request of the jobs.
    pub bytes: u64,
    /// Number of requests that each job of this cell (one compared case) has under way.
    pub depth: u32,
    /// Number of jobs that run at the same time in the cell.
    pub jobs: u32,
    /// Time in microseconds to wake a thread in this case.
    pub wake_us: u32,
    /// Reason why mmcq is slower than Linux, or has a longer percentile, with this board, card and
    /// load.
    pub reason: &'static str,
}

/// All cells (combinations of board, card, load and settings) of the smaller of the sweep's grids
/// in which mmcq is known to be slower than Linux, or to have a longer 99th percentile.
pub const KNOWN: &[Known] = &[];

/// Returns the entry for this cell in a list of cells in which mmcq is known to be slower than
/// Linux; `None`: the list does not have this cell.
pub(super) fn find<'a>(list: &'a [Known], cell: &Cell) -> Option<&'a Known> {
    list.iter().find(|known| known.is(cell))
}

impl Known {
    fn is(&self, cell: &Cell) -> bool {
        let Cell { place, load, bytes, depth, jobs, wake_us, pause } = *cell;
        pause.is_none()
            && (self.place, self.load) == ((place.platform, place.card), load)
            && [self.bytes, u64::from(self.depth), u64::from(self.jobs), u64::from(self.wake_us)]
                == [bytes, u64::from(depth), u64::from(jobs), u64::from(wake_us)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grid;
    use super::*;

    #[test]
    fn each_open_loss_is_one_cell_of_the_grid_that_check_runs_and_has_a_reason() {
        let (cells, _) = Grid::THIN.cells(None);
        for known in KNOWN {
            assert_eq!(cells.iter().filter(|cell| known.is(cell)).count(), 1, "{known:?}");
            assert_eq!(
                KNOWN.iter().filter(|other| cells.iter().any(|c| known.is(c) && other.is(c))).count(),
                1
            );
            assert!(known.reason.split_whitespace().count() > 4, "{known:?}");
        }
    }
}
