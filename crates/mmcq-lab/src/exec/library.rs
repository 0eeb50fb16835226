//! Library that is loaded into a program (`LD_PRELOAD`). The system's C compiler builds it from
//! `preload/` when it is first needed, and the user's cache folder keeps it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = concat!(
    include_str!("preload/jobs.c"),
    include_str!("preload/clocks.c"),
    include_str!("preload/waits.c"),
    include_str!("preload/held.c"),
    include_str!("preload/paths.c"),
    include_str!("preload/locks.c"),
    include_str!("preload/descriptors.c"),
    include_str!("preload/moves.c"),
    include_str!("preload/streams.c"),
    include_str!("preload/aio.c"),
);

/// Returns the FNV-1a hash of a source text, so that each version of the source has its own file.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn cache() -> Result<PathBuf, String> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    cache.map(|path| path.join("mmcq")).ok_or_else(|| {
        "the C part is kept in a cache, and neither XDG_CACHE_HOME nor HOME says where; expected one of them"
            .to_owned()
    })
}

/// Returns the path of the library for `LD_PRELOAD`, and compiles the library if the cache folder
/// does not have it.
pub fn library() -> Result<PathBuf, String> {
    let folder = cache()?;
    let path = folder.join(format!("preload-{}-{:016x}.so", env!("CARGO_PKG_VERSION"), hash(SOURCE)));
    if !path.exists() {
        compile(&folder, &path)?;
    }
    Ok(path)
}

fn compile(folder: &Path, path: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(cannot)?;
    // Builds in a temporary folder and then moves the file, so that it is never seen half written.
    let room = tempfile::tempdir_in(folder).map_err(cannot)?;
    let (source, made) = (room.path().join("preload.c"), room.path().join("preload.so"));
    std::fs::write(&source, SOURCE).map_err(cannot)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let shown = compiler.display();
    let output = Command::new(&compiler)
        .args(["-O2", "-shared", "-fPIC", "-w", "-pthread", "-o"])
        .args([&made, &source])
        .arg("-ldl")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!("{shown}: {error}; the first run compiles a small C library; expected a C compiler (apt-get install gcc libc6-dev)")
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // Shows the linker's own message (of a full disk, for example) before the line "ld returned
        // 1".
        let first = said
            .lines()
            .find(|line| line.contains("No space left"))
            .or_else(|| said.lines().find(|line| line.contains("error")))
            .or(said.lines().next())
            .unwrap_or("no reason given");
        return Err(format!("{shown} cannot compile the C library that is loaded into programs: {first}"));
    }
    std::fs::rename(&made, path).map_err(cannot)
}
