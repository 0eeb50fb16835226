//! Output files of a command. Each is either complete or absent.

use super::Error;
use mmcq_lab::scene::Scene;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Ordinary files that a command reads, and those that it writes. A file that the command reads, or
/// that another option writes, is refused as an output.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Full path of each file, with a text that says which option reads or writes it.
    known: Vec<(PathBuf, String)>,
}

impl Files {
    /// Adds a file that the command reads. `what` names it in errors, such as `--image`.
    pub fn reads(mut self, what: &str, path: &Path) -> Self {
        if path.exists() {
            self.known.extend(ordinary(path).map(|file| (file, format!("{what} reads"))));
        }
        self
    }

    /// Adds the files of a scene's board and card as files that the command reads.
    pub fn reads_scene(self, scene: &Scene) -> Self {
        let named = [("--platform", Some(&scene.platform)), ("--card", scene.card.as_ref())];
        let is_file = |name: &&String| name.ends_with(".toml");
        named.into_iter().fold(self, |files, (option, name)| match name.filter(is_file) {
            Some(name) => files.reads(option, Path::new(name)),
            None => files,
        })
    }

    /// Adds an output file. Refuses a file that the command reads or that another option writes. A
    /// device such as `/dev/null` may be given twice.
    pub fn writes(&mut self, option: &str, path: &Path) -> Result<(), Error> {
        let Some(file) = ordinary(path) else { return Ok(()) };
        if let Some((_, other)) = self.known.iter().find(|(known, _)| *known == file) {
            let path = path.display();
            return Err(Error::Input(format!("{option} {path}: {other} the same file; expected another")));
        }
        self.known.push((file, format!("{option} writes")));
        Ok(())
    }

    /// Adds the output file at `path` as [`Files::writes`] does, and returns the target to write
    /// to, as [`Place::new`] does. `option`: name of the option that gave the path, for error
    /// texts.
    pub fn place(&mut self, option: &str, path: &Path) -> Result<Place, Error> {
        self.writes(option, path)?;
        Place::new(option, path)
    }

    /// Adds the output file of a picture as [`Files::writes`] does, and returns its place as
    /// [`Place::svg`] does.
    pub fn svg(&mut self, option: &str, path: &Path) -> Result<Place, Error> {
        self.writes(option, path)?;
        Place::svg(option, path)
    }
}

/// Returns the full path of an ordinary file that exists or can be made; `None` for a device.
fn ordinary(path: &Path) -> Option<PathBuf> {
    let path = behind_links(path);
    if path.exists() {
        return path.canonicalize().ok().filter(|file| file.is_file());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
}

/// Largest number of links that are followed to a file, as in Linux.
const LINKS_MAX: usize = 40;

/// Returns the path of the file to which a link leads, also if that file does not exist; of anything
/// else, the path itself.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Output file of a command. The command checks at its start that the file can be written, and
/// writes the file at its end.
pub struct Place {
    /// Path of the file; if the user gave a link, that of the file behind it.
    path: PathBuf,
    /// The opened device or named pipe. `None`: an ordinary file, which is written under another
    /// name and then moved to the path.
    device: Option<File>,
}

impl Place {
    /// Checks that the file of an option such as `--report FILE` can be written.
    pub fn new(option: &str, path: &Path) -> Result<Self, Error> {
        let refused = |error: std::io::Error| Error::Input(format!("{option} {}: {error}", path.display()));
        // What the shell has opened, such as /dev/stdout, is written where it is.
        let is_handed =
            ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"].iter().any(|at| path.starts_with(at));
        let mut device = None;
        if path.exists() {
            // This also refuses a folder, and a file that must not be written. A named pipe is opened
            // once: its reader takes the end of the first writer as the end of the file.
            let opened = File::options().append(true).open(path).map_err(refused)?;
            device = Some(opened).filter(|_| is_handed || !path.is_file());
        }
        let path = behind_links(path);
        if device.is_none() {
            // The temporary file is removed at once, so that a program that is ended early leaves
            // nothing.
            beside(&path).map_err(refused)?;
        }
        Ok(Place { path, device })
    }

    /// Checks the file of a picture like [`Place::new`]. Pictures are SVG, so a name that ends as
    /// that of another format is refused.
    pub fn svg(option: &str, path: &Path) -> Result<Self, Error> {
        Place::is_svg(option, path)?;
        Place::new(option, path)
    }

    /// Refuses the file of a picture if the end of its name stands for another format than SVG.
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
        if let Some(mut file) = self.device {
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
