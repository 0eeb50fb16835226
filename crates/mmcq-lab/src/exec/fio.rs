//! Checks the user's fio and its jobs before `mmcq fio` runs them.
//!
//! Fio itself parses its job files (`--showcmd`), so that its own rules apply.

use super::programs::JOBS_MAX;
use crate::fio::options::RANDOM;
use crate::fio::value;
use crate::runner::{boot_area, is_partition};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Oldest supported minor version of fio 3. In older versions the helper thread sleeps in a way
/// that the laboratory cannot handle.
const MINOR_LEAST: u32 = 20;

/// I/O engines whose calls the laboratory intercepts.
const ENGINES: [&str; 6] = ["libaio", "psync", "sync", "vsync", "pvsync", "pvsync2"];

/// Largest number of I/Os that a job of fio may have under way: the size of its ring in the memory
/// that it shares with the laboratory.
const UNDER_WAY_MAX: u64 = super::shared::RING as u64;

/// Options that are refused, each with its reason and an alternative.
const REFUSED: [(&str, &str); 13] = [
    ("startdelay", "no time passes before the first job; expected jobs without it"),
    ("thinktime_spin", "no time passes while a job spins; expected thinktime alone"),
    ("flow", "no time passes while a job waits for its flow; expected jobs without it, or mmcq run"),
    ("gtod_cpu", "fio's clock is the laboratory's; expected jobs without it"),
    ("verify_async", "its threads would not be jobs; expected jobs without it"),
    ("idle-prof", "the CPUs are not this machine's; expected fio without it"),
    ("opendir", "files are places on the card; expected filename=/dev/mmcblk0"),
    ("filename_format", "files are places on the card; expected filename=/dev/mmcblk0"),
    ("filesize", "files are places on the card; expected size"),
    ("client", "fio runs here; expected fio without it"),
    ("server", "fio runs here; expected fio without it"),
    ("exec_prerun", "its time is not the card's; expected jobs without it"),
    ("exec_postrun", "its time is not the card's; expected jobs without it"),
];

/// Option as it was given to fio, for one job or for all jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    name: String,
    value: String,
}

/// Devices and files that the user's fio jobs use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    has_job: bool,
    /// Devices that the fio jobs name.
    pub devices: Vec<PathBuf>,
    /// Files that the jobs name and that are not devices.
    pub files: Vec<PathBuf>,
    /// Files that fio would create in a `directory`, with their lengths in bytes.
    pub made: Vec<(PathBuf, u64)>,
    /// Whether neither the jobs nor their common section name a device, a file or a directory.
    pub names_none: bool,
}

/// Returns the path of fio: searched in the user's PATH, or as given.
fn find(fio: &Path) -> Result<PathBuf, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = match fio.components().count() {
        1 => std::env::split_paths(&folders).map(|folder| folder.join(fio)).find(|path| path.is_file()),
        _ => Some(fio.to_owned()).filter(|path| path.is_file()),
    };
    found.ok_or_else(|| {
        format!("{}: not found; expected fio 3, in PATH or by --fio (apt-get install fio)", fio.display())
    })
}

/// Returns the path of a fio program whose clock the laboratory can replace.
///
/// # Errors
/// There is no fio, or its version or kind is not supported.
pub fn program(fio: &Path) -> Result<PathBuf, String> {
    let path = find(fio)?;
    let shown = path.display();
    let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
    let said = output.map_err(|error| format!("{shown}: {error}"))?.stdout;
    let said = String::from_utf8_lossy(&said);
    let version = said.trim();
    let minor = version.strip_prefix("fio-3.").map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    if minor.flatten().and_then(|minor| minor.parse::<u32>().ok()).is_none_or(|minor| minor < MINOR_LEAST) {
        let version: String = version.chars().filter(|c| !c.is_control()).take(40).collect();
        return Err(format!(
            "{shown}: says it is {version:?}; expected fio-3.{MINOR_LEAST} or newer of fio 3"
        ));
    }
    let bytes = std::fs::read(&path).map_err(|error| format!("{shown}: {error}"))?;
    let exported = b"\0fio_ts\0";
    if !bytes.windows(exported.len()).any(|part| part == exported) {
        return Err(format!(
            "{shown}: {version} does not export its clock (fio_ts); expected a fio that is linked dynamically, as Debian's"
        ));
    }
    Ok(path)
}

/// Parses words of fio's command line into options.
fn options<'a>(words: impl Iterator<Item = &'a str>) -> Vec<Given> {
    let mut all: Vec<Given> = Vec::new();
    let mut open = false;
    for word in words {
        match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
            Some(option) if !option.is_empty() => {
                let (name, value) = option.split_once('=').unwrap_or((option, ""));
                open = !option.contains('=');
                all.push(Given { name: name.to_owned(), value: value.to_owned() });
            }
            _ => {
                if let Some(last) = all.last_mut().filter(|_| std::mem::take(&mut open)) {
                    word.clone_into(&mut last.value);
                }
            }
        }
    }
    all
}

/// Returns the devices and files that these fio arguments use.
///
/// # Errors
/// An option is refused, or fio does not accept the arguments.
pub fn asked(fio: &Path, arguments: &[OsString]) -> Result<Asked, String> {
    // The preloaded library keeps fio from calibrating the CPU clock first.
    let library = super::library::library()?;
    let mut command = Command::new(fio);
    command.env("LD_PRELOAD", library).env("MMCQ_FIO_READS_JOBS", "1").env_remove("MMCQ_SHARED");
    let output = command.arg("--showcmd").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", fio.display()))?;
    let (shown, given): (Vec<u8>, Vec<u8>) =
        (output.stdout, arguments.iter().flat_map(|word| [word.as_bytes(), b"\n"].concat()).collect());
    let (shown, given) = (String::from_utf8_lossy(&shown), String::from_utf8_lossy(&given));
    let mut all = options(given.lines());
    all.extend(options(shown.split_whitespace()));
    let asked = read(&all, names_of_all(arguments))?;
    if !asked.has_job {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty());
        return Err(first.map_or_else(
            || "no job; expected fio's arguments after --".to_owned(),
            |line| line.trim().to_owned(),
        ));
    }
    Ok(asked)
}

/// Returns the names (`name=`) that fio's job files give in the section common to all jobs.
/// `--showcmd` shows these names as if each were a job.
fn names_of_all(arguments: &[OsString]) -> Vec<String> {
    let files = arguments.iter().filter(|word| !word.as_bytes().starts_with(b"-"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.flat_map(|text| names_in(&text)).collect()
}

/// Returns the names (`name=`) in the common section of one job file's text.
fn names_in(text: &str) -> Vec<String> {
    let mut of_all = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            of_all = line.starts_with("[global]");
        } else if let Some((_, name)) = line.split_once('=').filter(|(key, _)| of_all && key.trim() == "name")
        {
            names.push(name.trim().to_owned());
        }
    }
    names
}

/// Section of a job file while it is parsed: a job, or the part common to all jobs.
#[derive(Clone)]
struct Section {
    name: String,
    /// File names that the section's option `filename=` gives.
    files: Vec<String>,
    directory: Option<String>,
    bytes: Option<u64>,
    jobs: u32,
    files_each: u32,
    engine: String,
    /// Number of I/Os that the job may have under way, with an engine that does not block.
    depth: u64,
}

impl Section {
    const EMPTY: Section = Section {
        name: String::new(),
        files: Vec::new(),
        directory: None,
        bytes: None,
        jobs: 1,
        files_each: 1,
        engine: String::new(),
        depth: 1,
    };

    /// Handles an option of this section if the option is about files or their lengths.
    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        let number = || value.parse().map_err(|_| format!("fio's {option}={value}: expected a number"));
        match option {
            "filename" => {
                self.files = value.split(':').filter(|f| !f.is_empty()).map(str::to_owned).collect()
            }
            "directory" if value.contains(':') => {
                return Err(format!("fio's directory={value}: several are not followed; expected one"));
            }
            "directory" => self.directory = Some(value.to_owned()),
            "size" => self.bytes = value::size(value, 1024).ok(),
            "numjobs" => self.jobs = number()?,
            "nrfiles" => self.files_each = number()?,
            "ioengine" => value.clone_into(&mut self.engine),
            "iodepth" => self.depth = value::size(value, 1024).unwrap_or(self.depth),
            _ => {}
        }
        Ok(())
    }

    /// Returns the files that fio creates in its `directory`, each with its length. The files have
    /// fio's default names, or the names that `filename` gives.
    fn made(&self, directory: &str) -> Result<Vec<(PathBuf, u64)>, String> {
        let Section { name, files, bytes, jobs, files_each, .. } = self;
        let each = if files.is_empty() { u64::from(*files_each) } else { files.len() as u64 };
        let bytes = bytes.map(|bytes| bytes / each.max(1)).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| {
            format!("fio's directory={directory}, job {name}: files have their length for ever; expected size=, as in size=1G")
        })?;
        let own = (0..*jobs).flat_map(|job| (0..*files_each).map(move |file| format!("{name}.{job}.{file}")));
        let names: Vec<String> = if files.is_empty() { own.collect() } else { files.clone() };
        Ok(names.into_iter().map(|name| (Path::new(directory).join(name), bytes)).collect())
    }

    /// Ends this section of fio's job file: adds the job's devices and files to `asked`. Returns
    /// false if the job names no file.
    fn close(self, asked: &mut Asked) -> Result<bool, String> {
        if self.engine == "libaio" && self.depth > UNDER_WAY_MAX {
            let Section { name, depth, .. } = self;
            return Err(format!("fio's iodepth {depth}, job {name}: expected {UNDER_WAY_MAX} at most"));
        }
        if let Some(directory) = &self.directory {
            for (path, bytes) in self.made(directory)? {
                match asked.made.iter_mut().find(|(known, _)| *known == path) {
                    Some((_, known)) => *known = bytes.max(*known),
                    None => asked.made.push((path, bytes)),
                }
            }
            return Ok(true);
        }
        let mut others = self.files.iter().filter(|file| is_partition(file) && boot_area(file).is_none());
        if let Some(part) = others.next() {
            return Err(format!(
                "fio's filename={part}: a partition of its own on the card; expected /dev/mmcblk0, or a boot area"
            ));
        }
        for file in &self.files {
            let list = if file.starts_with("/dev/") { &mut asked.devices } else { &mut asked.files };
            let path = PathBuf::from(file);
            if !list.contains(&path) {
                list.push(path);
            }
        }
        Ok(!self.files.is_empty())
    }
}

fn read(all: &[Given], mut names_of_all: Vec<String>) -> Result<Asked, String> {
    let (mut of_all, mut job) = (Section::EMPTY, None::<Section>);
    let mut without: Option<String> = None;
    let mut close = |job: Option<Section>, asked: &mut Asked| -> Result<(), String> {
        let Some(job) = job else { return Ok(()) };
        let name = job.name.clone();
        if !job.close(asked)? {
            without.get_or_insert(name);
        }
        Ok(())
    };
    let mut asked = Asked::default();
    for Given { name, value } in all {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| refused == name) {
            return Err(format!("fio's {name}: {why}"));
        }
        match name.as_str() {
            "name" => {
                close(job.take(), &mut asked)?;
                if let Some(at) = names_of_all.iter().position(|name| name == value) {
                    names_of_all.remove(at);
                } else if value != "global" {
                    asked.has_job = true;
                    job = Some(Section { name: value.clone(), ..of_all.clone() });
                }
            }
            "numjobs" if value.parse::<u32>().is_ok_and(|jobs| jobs > JOBS_MAX) => {
                return Err(format!("fio's numjobs {value}: expected {JOBS_MAX} at most"));
            }
            "ioengine" if !ENGINES.contains(&value.as_str()) => {
                return Err(format!("fio's ioengine {value}: expected one of {}", ENGINES.join(", ")));
            }
            "io_submit_mode" if value == "offload" => {
                let why = "its threads would not be jobs; expected inline";
                return Err(format!("fio's io_submit_mode=offload: {why}"));
            }
            "rw" | "readwrite" if value == "random" => {
                return Err(format!("fio's {name}=random: expected {RANDOM}"));
            }
            "rw" | "readwrite" if value.contains("trim") => {
                return Err(format!(
                    "fio's {name}={value}: discards are not followed; expected reads and writes"
                ));
            }
            _ => job.as_mut().unwrap_or(&mut of_all).take(name, value)?,
        }
    }
    close(job, &mut asked)?;
    let of_none = of_all.files.is_empty() && of_all.directory.is_none();
    asked.names_none = of_none && asked.devices.is_empty() && asked.files.is_empty() && asked.made.is_empty();
    match without.filter(|_| !asked.names_none) {
        Some(job) => {
            Err(format!("job {job}: no filename, and others have one; expected filename=/dev/mmcblk0"))
        }
        None => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Asked, String> {
        read(&options(line.split_whitespace()), vec!["of-all".to_owned()])
    }

    #[test]
    fn jobs_and_files_are_found() {
        let asked = of("--filename=/dev/mmcblk0 --numjobs=2 --name=a --rw read --name b -numjobs=5 -filename=x:/dev/sda --name=c").unwrap();
        assert!(asked.has_job);
        assert_eq!(asked.devices, ["/dev/mmcblk0", "/dev/sda"].map(PathBuf::from));
        assert_eq!(asked.files, ["x"].map(PathBuf::from));
        assert!(!of("--output=x --name=global").unwrap().has_job);
        assert!(of("--name=a --rw=read").unwrap().names_none);
        assert!(of("--name=of-all --filename=x --name=a").is_ok());
        assert!(of("--name=a --iodepth=512 --name=b --iodepth=256 --ioengine=libaio").is_ok());
        let text = "[a]\nname=a\n[global]\nrw=read\n name = all of them \n;name=no\n[b]\nname=b";
        assert_eq!(names_in(text), ["all of them"]);
    }

    #[test]
    fn files_of_a_directory_are_those_that_fio_makes() {
        let made = |line| of(line).map(|asked| asked.made);
        let files =
            |names: &[&str], bytes| names.iter().map(|n| (PathBuf::from(n), bytes)).collect::<Vec<_>>();
        assert_eq!(
            made("--directory=/d --size=1m --name=a --numjobs=2 --name=b --nrfiles=2 --name=c -filename=x"),
            Ok([
                files(&["/d/a.0.0", "/d/a.1.0"], 1 << 20),
                files(&["/d/b.0.0", "/d/b.0.1"], 1 << 19),
                files(&["/d/x"], 1 << 20)
            ]
            .concat())
        );
        assert!(!of("--name=a --directory=/d --size=1m").unwrap().names_none);
        for (line, part) in [
            ("--name=a --directory=/d", "job a: files have their length for ever; expected size="),
            ("--name=a --directory=/d --size=10%", "expected size="),
            ("--name=a --directory=/d:/e --size=1m", "expected one"),
            ("--name=a --directory=/d --size=1m --nrfiles=x", "fio's nrfiles=x"),
        ] {
            assert!(made(line).unwrap_err().contains(part), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_named() {
        for (line, part) in [
            ("--name=a --ioengine=io_uring", "ioengine io_uring: expected one of libaio"),
            ("--name=a --ioengine=null", "ioengine null: expected one of libaio"),
            ("--name=a --startdelay=1", "fio's startdelay: no time"),
            ("--name=a --rw=randtrim", "discards"),
            ("--name=a --rw=random", "fio's rw=random: expected randread, randwrite or randrw"),
            ("--name=a --filename=/dev/mmcblk0rpmb", "a partition of its own"),
            ("--name=a --numjobs=65", "fio's numjobs 65: expected 64"),
            ("--name=a --filename=x --name=b", "job b: no filename"),
            ("--name=b --name=of-all --filename=x", "job b: no filename"),
            ("--name=a --io_submit_mode=offload", "expected inline"),
            ("--name=a --thinktime=5 --thinktime_spin=2", "fio's thinktime_spin: no time passes"),
            ("--flow=1 --name=a --name=b --flow=3", "fio's flow: no time passes"),
            ("--ioengine=libaio --name=a --iodepth=257", "fio's iodepth 257, job a: expected 256 at most"),
            ("--iodepth=1k --name=a --ioengine=libaio --name=b", "job a: expected 256 at most"),
        ] {
            assert!(of(line).unwrap_err().contains(part), "{line}");
        }
    }
}
