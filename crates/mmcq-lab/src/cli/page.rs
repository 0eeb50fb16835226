//! A file that is either whole or not there.

use super::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A place for a page, known to be writable before the work and filled after it.
pub struct Place {
    path: PathBuf,
    /// A new or ordinary file is written beside its place and moved there. A device has none.
    beside: Option<NamedTempFile>,
}

impl Place {
    /// Of `--report FILE`, say.
    pub fn new(option: &str, path: &Path) -> Result<Self, Error> {
        let refused = |error: std::io::Error| Error::Input(format!("{option} {}: {error}", path.display()));
        if path.exists() {
            // Also says what a folder is, or a file that is not to be written.
            std::fs::File::options().append(true).open(path).map_err(refused)?;
        }
        let beside = match path.exists() && !path.is_file() {
            true => None,
            false => Some(beside(path).map_err(refused)?),
        };
        Ok(Place { path: path.to_owned(), beside })
    }

    /// Fills it.
    pub fn write(self, text: &str) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::Run(format!("{}: {error}", self.path.display()));
        match self.beside {
            None => std::fs::write(&self.path, text).map_err(failed),
            Some(mut file) => {
                file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
                file.persist(&self.path).map(|_| ()).map_err(|error| failed(error.error))
            }
        }
    }
}

fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".mmcq-");
    #[cfg(unix)]
    let readable = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    // The user's mask takes its part.
    #[cfg(unix)]
    builder.permissions(readable);
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// The command line, as a shell takes it.
pub fn command_line() -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c))
    };
    let words = std::env::args_os().skip(1).map(|word| {
        let word = word.to_string_lossy().into_owned();
        if plain(&word) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    ["mmcq".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
