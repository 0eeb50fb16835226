//! Tests `mmcq reproduce never`, a sweep that searches for cases in which mmcq is slower: only what
//! the sweep itself promises, not its result.

use mmcq_lab::reproduce::Amount;
use mmcq_lab::reproduce::never::{self, Cell, Grid, Kept, KeptError, Load, Measured};
use mmcq_lab::runner::Setting;
use std::process::Command;

#[test]
fn there_are_thousands_of_cells_and_what_is_left_out_has_a_reason() {
    let (cells, reasons) = Grid::FULL.cells(None);
    assert!(cells.len() > 2000, "{}", cells.len());
    for load in Load::RATES.into_iter().chain([Load::Beside, Load::Flushed]) {
        assert!(cells.iter().any(|cell| cell.load == load), "{load:?}");
    }
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.contains("scheduler holds 128")), "{reasons:?}");
}

/// Checks that no setting is faster than the physical limit, whatever the order and the batches of
/// its requests are.
#[test]
#[ignore = "42 cells of the grid that `check tables` runs"]
fn no_setting_passes_the_limit() {
    let (cells, _) = Grid::THIN.cells(None);
    // Only cells in which requests merge or wait for each other; `check` runs the rest of the grid.
    let chosen = |cell: &&Cell| {
        let meets = cell.bytes <= 4096 && cell.under_way() > 1;
        let places = [("hsq-sprd", "hbg4a2"), ("generic", "sdxc-128g-uhs")];
        meets && cell.load != Load::Beside && places.contains(&(cell.place.platform, cell.place.card))
    };
    let cells: Vec<Cell> = cells.iter().filter(chosen).copied().collect();
    // Two of them flush each write.
    assert_eq!(cells.len(), 42);
    let measured = never::sweep(&cells, Amount::default(), &|_| ()).unwrap();
    let beyond: Vec<String> =
        measured.iter().filter_map(|m| m.passes().map(|by| format!("{}: {by:?}", m.cell))).collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
    // The limit is also not that of batches of half the size: it is above the best setting here.
    let split = measured.iter().find(|m| {
        (m.cell.load, m.cell.depth, m.cell.jobs, m.cell.place.card) == (Load::Write, 8, 1, "sdxc-128g-uhs")
    });
    let split = split.unwrap();
    assert!(split.limit() > split.best().1, "{split:?}");
}

/// Checks clients that pause after each request, alone and beside another client: mmcq leaves a
/// transfer open where that gains, and no setting is faster than the limit.
#[test]
fn in_pauses_ours_is_as_fast_as_the_better_of_close_and_patch() {
    let (cells, _) = Grid::THIN.cells(Some("stream-rtsx"));
    let cells: Vec<Cell> = cells.into_iter().filter(|cell| cell.pause.is_some()).collect();
    assert_eq!(cells.len(), 12);
    let measured = never::sweep(&cells, Amount::default(), &|_| ()).unwrap();
    for one in &measured {
        assert!(one.gain_percent() > -1.0 && one.passes().is_none(), "{one:?}");
    }
    // In this cell, open transfers are four times as fast as closing each transfer.
    let wanted = |m: &&Measured| m.cell.to_string().contains("write 64k, pauses of about 400 us, alone");
    let one = measured.iter().find(wanted).unwrap();
    let rate = |setting| one.of(setting).unwrap().mib_per_s;
    assert!(
        rate(Setting::Mmcq) > 4.0 * rate(Setting::Close) && rate(Setting::Patch) > 3.5 * rate(Setting::Close)
    );
    let (full, _) = Grid::FULL.cells(Some("stream-rtsx"));
    assert_eq!(full.iter().filter(|cell| cell.pause.is_some()).count(), 420);
}

#[test]
fn what_the_sweep_does_not_take_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for line in
        ["reproduce never --full", "reproduce never --platform fifo-allwinner", "reproduce hsq --thin"]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let output = command.current_dir(folder.path()).args(line.split_whitespace()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{line}: {error}");
    }
}

/// Checks that a sweep that was interrupted continues where it ended, and gives the same result as
/// an uninterrupted one.
#[test]
fn what_was_measured_is_kept_and_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("never.jsonl");
    let (cells, _) = Grid::THIN.cells(Some("generic"));
    let cells: Vec<Cell> =
        cells.into_iter().filter(|c| c.load == Load::RandRead && c.bytes == 4096).collect();
    let (first, second) = cells.split_at(1);
    let part = |cells: &[Cell]| {
        let kept = Kept::open(&path, 1).unwrap();
        never::sweep(cells, Amount::default(), &|one| kept.add(one).unwrap()).unwrap()
    };
    let mut all = part(first);
    all.extend(part(&second[..1]));
    // The file ends in the middle of a line.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"cell\": \"gen");
    std::fs::write(&path, text).unwrap();
    let kept = Kept::open(&path, 1).unwrap();
    let found: Vec<_> = cells[..2].iter().filter_map(|cell| kept.find(cell)).collect();
    assert_eq!(found, all);
    assert!(kept.find(&cells[2]).is_none());
    // Another seed is another measurement. A line that is not a measurement is refused.
    assert!(Kept::open(&path, 2).unwrap().find(&cells[0]).is_none());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    std::fs::write(&path, "[]\n").unwrap();
    assert!(matches!(Kept::open(&path, 1), Err(KeptError::Line { line: 1, .. })));
}
