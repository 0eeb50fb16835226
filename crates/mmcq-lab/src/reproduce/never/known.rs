//! Open losses: cells in which mmcq is below the best of Linux, with the known reason.
//!
//! Each open loss is printed with its figures. The sweep fails if a cell that is not in the list is
//! below. It also fails if a cell in the list is not below any more: that cell must then be removed
//! from the list.

use super::{Cell, Load};

/// An open loss: a cell in which mmcq is below the best of Linux for a known reason.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Names of the cell's board and card.
    pub place: (&'static str, &'static str),
    /// Load of the cell's jobs.
    pub load: Load,
    /// Size in bytes of a request of the cell's jobs.
    pub bytes: u64,
    /// Number of requests that each of the cell's jobs has under way.
    pub depth: u32,
    /// Number of jobs that run at the same time in the cell.
    pub jobs: u32,
    /// Time in microseconds to wake a thread in this case.
    pub wake_us: u32,
    /// Reason why mmcq is below Linux in this cell.
    pub reason: &'static str,
}

/// All open losses in the cells of the thin grid.
pub const KNOWN: &[Known] = &[];

/// Returns the open loss in a list that is this cell; `None`: the cell is not in the list.
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
