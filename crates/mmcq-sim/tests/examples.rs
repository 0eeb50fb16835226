//! The examples that people copy run, and fit on a screen.

#[path = "../examples/async_queue.rs"]
mod async_queue;
#[path = "../examples/blocking.rs"]
mod blocking;
#[path = "../examples/emmc_partitions.rs"]
mod emmc_partitions;
#[path = "../examples/fault_and_recovery.rs"]
mod fault_and_recovery;
#[path = "../examples/sdio_function.rs"]
mod sdio_function;
#[path = "../examples/streaming_write.rs"]
mod streaming_write;

macro_rules! runs {
    ($($name:ident),+) => {
        /// The names of the examples above.
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                $name::main().unwrap();
            }
        )+
    };
}

runs!(async_queue, blocking, emmc_partitions, fault_and_recovery, sdio_function, streaming_write);

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
