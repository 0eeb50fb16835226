//! Output files that are either complete or absent.

use super::Error;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Output file of a command. The command checks at its start that the file can be written, and
/// writes the file at its end.
pub struct Place {
    path: PathBuf,
    /// Whether the path is a device. An ordinary file is written under another name and then moved
    /// to the path.
    device: bool,
}

impl Place {
    /// Checks that the file of an option such as `--report FILE` can be written.
    pub fn new(option: &str, path: &Path) -> Result<Self, Error> {
        let refused = |error: std::io::Error| Error::Input(format!("{option} {}: {error}", path.display()));
        if path.exists() {
            // This also refuses a folder, and a file that must not be written.
            File::options().append(true).open(path).map_err(refused)?;
        }
        let device = path.exists() && !path.is_file();
        if !device {
            // The temporary file is removed at once, so that a program that is ended early leaves
            // nothing.
            beside(path).map_err(refused)?;
        }
        Ok(Place { path: path.to_owned(), device })
    }

    /// Checks the file of a picture like [`Place::new`]. Pictures are SVG, so a name that promises
    /// another format is refused.
    pub fn svg(option: &str, path: &Path) -> Result<Self, Error> {
        Place::is_svg(option, path)?;
        Place::new(option, path)
    }

    /// Refuses a file of a picture whose name promises another format than SVG.
    pub fn is_svg(option: &str, path: &Path) -> Result<(), Error> {
        let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
        match end.filter(|end| end != "svg") {
            None => Ok(()),
            Some(end) => {
                let (name, svg) = (path.display(), path.with_extension("svg"));
                let svg = svg.display();
                Err(Error::Input(format!(
                    "{option} {name}: pictures are SVG; expected {svg}, of which `rsvg-convert {svg} -o {name}`, \
                     Inkscape or a browser make a {}",
                    end.to_uppercase()
                )))
            }
        }
    }

    /// Writes a text to the file.
    pub fn write(self, text: &str) -> Result<(), Error> {
        self.fill(|file| file.write_all(text.as_bytes()))
    }

    /// Calls `write` with the open file to write the file's content.
    pub fn fill<E: Display>(self, write: impl FnOnce(&mut File) -> Result<(), E>) -> Result<(), Error> {
        let failed = |error: &dyn Display| Error::Run(format!("{}: {error}", self.path.display()));
        if self.device {
            let mut file = File::options().write(true).open(&self.path).map_err(|e| failed(&e))?;
            return write(&mut file).map_err(|error| failed(&error));
        }
        let mut file = beside(&self.path).map_err(|error| failed(&error))?;
        write(file.as_file_mut()).map_err(|error| failed(&error))?;
        file.as_file().sync_all().map_err(|error| failed(&error))?;
        file.persist(&self.path).map(|_| ()).map_err(|error| failed(&error.error))
    }
}

fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".mmcq-");
    #[cfg(unix)]
    let readable = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    // The user's umask still removes permissions.
    #[cfg(unix)]
    builder.permissions(readable);
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Returns the command line of this program, quoted so that a shell accepts it.
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
