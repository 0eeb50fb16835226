//! Tests that the examples, which people copy, run and fit on a screen.

#[path = "../examples/async_queue.rs"]
mod async_queue;
#[path = "../examples/blocking.rs"]
mod blocking;
#[path = "../examples/direct.rs"]
mod direct;
#[path = "../examples/emmc_partitions.rs"]
mod emmc_partitions;
#[path = "../examples/fault_and_recovery.rs"]
mod fault_and_recovery;
#[path = "../examples/first_board.rs"]
mod first_board;
#[path = "../examples/sdio_function.rs"]
mod sdio_function;
#[path = "../examples/streaming_write.rs"]
mod streaming_write;

macro_rules! runs {
    ($($name:ident),+) => {
        /// The names of all examples of this crate.
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                $name::main().unwrap();
            }
        )+
    };
}

runs!(
    async_queue,
    blocking,
    direct,
    emmc_partitions,
    fault_and_recovery,
    first_board,
    sdio_function,
    streaming_write
);

#[test]
fn each_has_at_most_forty_lines_and_runs_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 40, "{}: {lines} lines", path.display());
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(NAMES.contains(&name.as_str()), "{name} is not run");
    }
}

/// Checks that the guide's first board needs less than ten lines before the first call of the
/// stack.
#[test]
fn a_first_board_of_the_guide_is_under_ten_lines_of_glue() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/first-card.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, rest) = guide.split_once("// The board: from here").expect("the guide marks its board");
    let (board, _) = rest.split_once("// to here.").expect("and where it ends");
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines: Vec<&str> = board.lines().skip(1).filter(code).collect();
    assert!(lines.len() < 10, "{} lines:\n{}", lines.len(), lines.join("\n"));
    assert!(lines.iter().all(|line| line.len() <= 100), "long lines are no fewer lines");
    assert!(board.contains("Home<") && board.contains("on_irq"), "with its interrupt handler");
}
