//! Parses job files and fio command lines into [`Job`]s.
//!
//! A job file has lines of these kinds: `[section]`, `option=value`, `flag`, `include FILE`, and
//! comments from `;` or `#` to the end of the line. `[global]` sets defaults for later sections,
//! and may occur again. On a command line, the options before the first `--name` are global. One
//! dash means the same as two. Words without a dash are job files; the first may be the program.

use super::error::{Note, ParseError, Place};
use super::job::Job;
use super::options;
use std::path::Path;

/// Size in bytes of the longest job file that is read.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Largest depth of nested `include` lines.
pub const INCLUDE_DEPTH_MAX: u32 = 16;
/// Largest number of files that one run reads.
pub const FILES_MAX: u32 = 64;
/// Largest number of sections in a run.
pub const SECTIONS_MAX: usize = 4096;
/// Largest number of options in a section.
const OPTIONS_MAX: usize = 4096;

/// Source of files and environment variables: the system, or fixed values in a test.
pub trait Sources {
    /// Returns the value of the environment variable `name`, if it is set.
    fn variable(&self, name: &str) -> Option<String>;
    /// Returns the content of the file at this path.
    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>>;
}

/// Source of job files and environment variables that uses those of this process.
pub struct System;

impl Sources for System {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        use std::io::Read;
        let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Format of the report: option `--output-format=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text to be read by people.
    Normal,
    /// JSON with fio's keys.
    Json,
    /// JSON with all histogram buckets.
    JsonPlus,
    /// Terse version 3: one line for each job.
    Terse,
}

impl OutputFormat {
    /// Returns the format that has this name in fio; `None`: there is no such format.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "normal" => OutputFormat::Normal,
            "json" => OutputFormat::Json,
            "json+" => OutputFormat::JsonPlus,
            "terse" | "minimal" => OutputFormat::Terse,
            _ => return None,
        })
    }
}

/// All jobs of a run, and those options of the command line that concern the whole run.
#[derive(Clone, Debug, Default)]
pub struct JobFile {
    /// Sections of the job file except `[global]`, in order.
    pub jobs: Vec<Job>,
    /// Options of `[global]` in order; repeated options are kept.
    pub global_options: Vec<(String, String)>,
    /// Report formats of `--output-format=`, in order; empty if the option is not given.
    pub formats: Vec<OutputFormat>,
    /// Path of the report's file (option `--output=`); `None`: standard output.
    pub output: Option<String>,
    /// Notes about options that were accepted without effect.
    pub notes: Vec<Note>,
    /// Sections and options as they were parsed, one per line. As a job file these lines give the
    /// same jobs.
    pub lines: Vec<String>,
}

impl JobFile {
    /// Applies an option to every job, as if it were the last option of each section. `change` is
    /// `option=value`; `shown` names the change in errors.
    pub fn set(&mut self, change: &str, shown: &str) -> Result<(), ParseError> {
        let place = Place::Whole(shown.to_owned());
        let (name, value) = split_option(change);
        for job in &mut self.jobs {
            self.notes.extend(options::apply(job, name, value, &place)?);
            job.given.extend(value.map(|value| (name.to_owned(), value.to_owned())));
            job.check()?;
        }
        Ok(())
    }
}

impl JobFile {
    /// Returns these jobs for a use that writes no report of fio.
    ///
    /// # Errors
    /// The jobs name a file for the report (option `--output`).
    pub fn without_output(self) -> Result<Self, String> {
        match &self.output {
            None => Ok(self),
            Some(path) => {
                Err(format!("--output={path}: `mmcq run` alone writes fio's report; expected none"))
            }
        }
    }

    /// Returns a note for each job whose `iodepth=` has no effect, since its I/O engine waits for
    /// each request.
    pub fn capped(&self) -> Vec<Note> {
        let capped = self.jobs.iter().filter(|job| job.ioengine.blocks() && job.depth() < job.iodepth);
        let note = |job: &Job| Note {
            place: Place::Job(job.name.clone()),
            option: format!("iodepth={}", job.iodepth),
            reason: "the I/O engine waits for each request; expected ioengine=libaio beside it".to_owned(),
        };
        capped.map(note).collect()
    }
}

/// Reads the job file `path`.
pub fn parse_file(path: &Path, sources: &dyn Sources) -> Result<JobFile, ParseError> {
    let mut reader = Reader::new(sources);
    let read = reader.file(path, &Place::Argument(1), 0);
    reader.supported(read)?;
    reader.finish(&path.display().to_string())
}

/// Reads the text of a job file; `name` is the file's name in errors.
pub fn parse_text(name: &str, text: &[u8], sources: &dyn Sources) -> Result<JobFile, ParseError> {
    let mut reader = Reader::new(sources);
    let read = reader.text(name, Path::new(name), text, 0);
    reader.supported(read)?;
    reader.finish(name)
}

/// Reads lines as [`JobFile::lines`] has them. They have no comments: a `#` or `;` is part of a
/// name or value.
pub fn parse_lines<'l>(
    name: &str,
    lines: impl Iterator<Item = &'l str>,
    sources: &dyn Sources,
) -> Result<JobFile, ParseError> {
    let mut reader = Reader::new(sources);
    let mut read = Ok(());
    for (line, number) in lines.zip(1..) {
        let place = Place::Line { file: name.to_owned(), line: number };
        let section = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        read = read.and_then(|()| match (section, split_option(line)) {
            (Some(section), _) => reader.begin_section(section, place),
            (None, (option, value)) => reader.option(option, value, &place),
        });
    }
    reader.supported(read)?;
    reader.finish(name)
}

/// Returns the number of words before the options of a pasted command line: `fio` (or a path that
/// ends in it), and before it `sudo` with its options. A single word is always a job file.
pub fn program_words(words: &[impl AsRef<Path>]) -> usize {
    let is = |word: &Path, name: &str| word.file_name().is_some_and(|last| last == name);
    let after_sudo = match words.first() {
        Some(word) if is(word.as_ref(), "sudo") => {
            let option =
                |word: &&_| AsRef::<Path>::as_ref(*word).as_os_str().as_encoded_bytes().starts_with(b"-");
            1 + words[1..].iter().take_while(option).count()
        }
        _ => 0,
    };
    match words.get(after_sudo) {
        Some(word) if is(word.as_ref(), "fio") && words.len() > after_sudo + 1 => after_sudo + 1,
        _ => 0,
    }
}

/// Reads the arguments of a fio command line. The name of the program may stand before them.
pub fn parse_command_line(args: &[String], sources: &dyn Sources) -> Result<JobFile, ParseError> {
    let mut reader = Reader::new(sources);
    let read = reader.command_line(args);
    reader.supported(read)?;
    reader.finish("command line")
}

impl Reader<'_> {
    /// Reads the arguments of a fio command line into this reader: first all options, then the job
    /// files that the arguments name.
    fn command_line(&mut self, args: &[String]) -> Result<(), ParseError> {
        self.section = Section::Global;
        let mut files: Vec<(&str, Place)> = Vec::new();
        let mut args = args.iter().zip(1u32..).skip(program_words(args)).peekable();
        while let Some((arg, number)) = args.next() {
            let place = Place::Argument(number);
            let Some(option) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
                files.push((arg, place));
                continue;
            };
            if option.is_empty() {
                return Err(ParseError::new(
                    &place,
                    format!("'{arg}': expected an option such as --rw=read"),
                ));
            }
            let (name, mut value) = split_option(option);
            // As with getopt, the value may be the next word; a flag never takes a next word.
            let needs = name == "name" || is_run_option(name) || takes_value(name);
            if value.is_none()
                && needs
                && let Some((next, _)) = args.next_if(|(next, _)| !next.starts_with('-'))
            {
                value = Some(next);
            }
            if !self.run_option(name, value, &place)? {
                self.option(name, value, &place)?;
            }
        }
        self.end_section()?;
        for (nth, (path, place)) in files.into_iter().enumerate() {
            if nth > 0 {
                self.begin_file();
            }
            self.file(Path::new(path), &place, 0)?;
            self.end_section()?;
        }
        Ok(())
    }
}

/// Splits `name=value` and removes blanks around both parts.
fn split_option(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text.trim(), None),
    }
}

/// Returns the lines of a job file in which each job has the options of `[global]` as its own.
fn without_global(lines: &[String]) -> Vec<String> {
    let (mut global, mut all, mut is_global) = (Vec::new(), Vec::new(), false);
    for line in lines {
        match line.strip_prefix('[') {
            Some("global]") => is_global = true,
            Some(_) => {
                is_global = false;
                all.push(line.clone());
                all.extend_from_slice(&global);
            }
            None if is_global => global.push(line.clone()),
            None => all.push(line.clone()),
        }
    }
    all
}

/// Returns whether this option of a job needs a value.
fn takes_value(name: &str) -> bool {
    let name = options::ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, n)| n);
    options::USED.iter().any(|o| o.name == name && !o.flag)
}

/// Returns whether this option concerns the run as a whole, not a job.
fn is_run_option(name: &str) -> bool {
    matches!(
        name,
        "output-format" | "output" | "max-jobs" | "section" | "terse-version" | "eta" | "alloc-size"
    )
}

enum Section {
    /// Lines before the first `[section]` of a file.
    Outside,
    Global,
    Job(Box<Job>),
    /// A section that `--section` leaves out.
    Skipped,
}

/// Options with their values, in order.
type Given = Vec<(String, String)>;

struct Reader<'a> {
    sources: &'a dyn Sources,
    global: Job,
    section: Section,
    /// Options of `[global]` in a further job file, which only the jobs of that file have: lines,
    /// and options with their values. `None`: the first job file.
    own_global: Option<(Vec<String>, Given)>,
    /// Whether the next job waits for the end of all jobs before it.
    is_walled: bool,
    out: JobFile,
    wanted: Vec<String>,
    max_jobs: Option<u32>,
    files: u32,
    /// Options of fio that are not supported, with their places.
    unsupported: Vec<(String, Place)>,
}

impl<'a> Reader<'a> {
    fn new(sources: &'a dyn Sources) -> Self {
        Reader {
            sources,
            global: Job::new("global", Place::Argument(0)),
            section: Section::Outside,
            own_global: None,
            is_walled: false,
            out: JobFile::default(),
            wanted: Vec::new(),
            max_jobs: None,
            files: 0,
            unsupported: Vec::new(),
        }
    }

    /// Returns one error that names all options that are not supported, so that the user can
    /// correct them together. Without such an option, returns `read`.
    fn supported(&self, read: Result<(), ParseError>) -> Result<(), ParseError> {
        let Some(((first, place), others)) = self.unsupported.split_first() else { return read };
        if others.is_empty() {
            return Err(ParseError::new(place, format!("option '{first}' of fio is not supported here")));
        }
        let others: Vec<String> = others.iter().map(|(name, at)| format!("'{name}' ({at})")).collect();
        let (count, others) = (others.len() + 1, others.join(", "));
        let message = format!("{count} options of fio are not supported here: '{first}', {others}");
        Err(ParseError::new(place, message))
    }

    fn finish(mut self, name: &str) -> Result<JobFile, ParseError> {
        self.end_section()?;
        let place = Place::Whole(name.to_string());
        if self.out.jobs.is_empty() {
            let message = if self.wanted.is_empty() {
                "expected at least one job, a line such as [read] or --name=read".to_string()
            } else {
                format!("expected a section named {}", self.wanted.join(" or "))
            };
            return Err(ParseError::new(&place, message));
        }
        let workers: u64 = self.out.jobs.iter().map(|j| u64::from(j.numjobs)).sum();
        let max = self.max_jobs.unwrap_or(super::job::MAX_WORKERS);
        if workers > u64::from(max) {
            return Err(ParseError::new(
                &place,
                format!("{workers} workers: expected at most max-jobs={max}"),
            ));
        }
        Ok(self.out)
    }

    /// Reads the job file `path` and handles its lines; `depth` counts nested `include` lines.
    fn file(&mut self, path: &Path, place: &Place, depth: u32) -> Result<(), ParseError> {
        let shown = path.display().to_string();
        self.files += 1;
        if self.files > FILES_MAX || depth > INCLUDE_DEPTH_MAX {
            let message =
                format!("include {shown}: expected at most {INCLUDE_DEPTH_MAX} levels and {FILES_MAX} files");
            return Err(ParseError::new(place, message));
        }
        let bytes = self
            .sources
            .file(path)
            .map_err(|error| ParseError::new(place, format!("cannot read job file '{shown}': {error}")))?;
        if depth == 0 {
            self.section = Section::Outside;
        }
        self.text(&shown, path, &bytes, depth)
    }

    /// Handles the lines of one job file; `depth` counts the nested `include` lines.
    fn text(&mut self, name: &str, path: &Path, bytes: &[u8], depth: u32) -> Result<(), ParseError> {
        let at = |line: u32| Place::Line { file: name.to_string(), line };
        if bytes.len() > FILE_BYTES_MAX {
            return Err(ParseError::new(&at(1), format!("expected at most {FILE_BYTES_MAX} bytes")));
        }
        // Some editors write a byte order mark before the first line.
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        for (line, number) in bytes.split(|b| *b == b'\n').zip(1u32..) {
            let place = at(number);
            let line = std::str::from_utf8(line)
                .ok()
                .filter(|text| !text.contains('\0'))
                .ok_or_else(|| ParseError::new(&place, "not text: expected lines of UTF-8"))?;
            let line = line.split([';', '#']).next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let section = rest.strip_suffix(']').map(str::trim).filter(|s| !s.is_empty());
                let section = section.ok_or_else(|| {
                    ParseError::new(&place, format!("'{line}': expected a section such as [name]"))
                })?;
                self.begin_section(section, place)?;
            } else if let Some(target) = line.strip_prefix("include").filter(|t| t.starts_with([' ', '\t'])) {
                let target = self.expand(target.trim(), &place)?;
                let target = path.parent().unwrap_or(Path::new("")).join(target);
                self.file(&target, &place, depth + 1)?;
            } else {
                let (name, value) = split_option(line);
                self.option(name, value, &place)?;
            }
        }
        Ok(())
    }

    fn begin_section(&mut self, name: &str, place: Place) -> Result<(), ParseError> {
        self.end_section()?;
        if name == "global" {
            self.section = Section::Global;
            if self.own_global.is_none() {
                self.out.lines.push(format!("[{name}]"));
            }
            return Ok(());
        }
        if !self.wanted.is_empty() && !self.wanted.iter().any(|w| w == name) {
            self.section = Section::Skipped;
            return Ok(());
        }
        let mut job = self.global.clone();
        job.name = name.to_string();
        job.place = place;
        self.out.lines.push(format!("[{name}]"));
        if let Some((lines, given)) = &self.own_global {
            self.out.lines.extend_from_slice(lines);
            job.given.clone_from(given);
        }
        if std::mem::take(&mut self.is_walled) {
            job.stonewall = true;
            self.out.lines.push("stonewall".to_owned());
        }
        self.section = Section::Job(Box::new(job));
        Ok(())
    }

    /// Begins a further job file. As in fio, its jobs wait for the end of all jobs before it, and
    /// `[global]` of a file before it has no effect on them.
    fn begin_file(&mut self) {
        self.global = Job::new("global", Place::Argument(0));
        self.is_walled = true;
        if self.own_global.replace(Default::default()).is_none() {
            // What was global so far becomes an option of each job so far.
            self.out.lines = without_global(&self.out.lines);
            let global = std::mem::take(&mut self.out.global_options);
            for job in &mut self.out.jobs {
                job.given.splice(0..0, global.iter().cloned());
            }
        }
    }

    /// Adds the line of an option to [`JobFile::lines`].
    fn keep_line(&mut self, line: String) {
        match (&self.section, &mut self.own_global) {
            (Section::Global, Some((lines, _))) => lines.push(line),
            (Section::Global, None) if self.out.lines.is_empty() => {
                // Options of a command line stand before any section.
                self.out.lines = vec!["[global]".to_owned(), line];
            }
            _ => self.out.lines.push(line),
        }
    }

    fn end_section(&mut self) -> Result<(), ParseError> {
        if let Section::Job(job) = std::mem::replace(&mut self.section, Section::Outside) {
            self.out.notes.extend(job.check()?);
            if self.out.jobs.len() >= SECTIONS_MAX {
                let message = format!("[{}]: expected at most {SECTIONS_MAX} jobs", job.name);
                return Err(ParseError::new(&job.place, message));
            }
            self.out.jobs.push(*job);
        }
        Ok(())
    }

    /// Handles an option that concerns the run as a whole. Returns false if the option does not
    /// concern the run.
    fn run_option(&mut self, name: &str, value: Option<&str>, place: &Place) -> Result<bool, ParseError> {
        let fail = |expected: &str| {
            Err(ParseError::new(place, format!("{name}={}: expected {expected}", value.unwrap_or(""))))
        };
        match (name, value) {
            ("output-format", Some(list)) => {
                for word in list.split(',') {
                    match OutputFormat::from_name(word.trim()) {
                        Some(format) => self.out.formats.push(format),
                        None => return fail("normal, json, json+ or terse"),
                    }
                }
            }
            ("minimal", _) => self.out.formats.push(OutputFormat::Terse),
            ("output", Some(path)) if !path.is_empty() => self.out.output = Some(path.to_string()),
            ("max-jobs", Some(n)) => match n.parse() {
                Ok(n) if (1..=super::job::MAX_WORKERS).contains(&n) => self.max_jobs = Some(n),
                _ => return fail("a number from 1 to 4096"),
            },
            ("section", Some(name)) => self.wanted.push(name.to_string()),
            ("terse-version", Some("3")) | ("eta" | "alloc-size", Some(_)) => {}
            ("terse-version", _) => return fail("3"),
            ("output-format" | "output" | "max-jobs" | "section" | "eta" | "alloc-size", _) => {
                return fail("a value");
            }
            ("name", Some(name)) if !name.is_empty() => {
                self.begin_section(name, place.clone())?;
                if let Section::Job(job) = &mut self.section {
                    job.given.push(("name".to_string(), name.to_string()));
                }
            }
            ("name", _) => return fail("a job's name"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Handles option `name` of the present section; `value` is `None` if it has no `=`.
    fn option(&mut self, name: &str, value: Option<&str>, place: &Place) -> Result<(), ParseError> {
        let expanded = value.map(|v| self.expand(v, place)).transpose()?;
        let (job, given) = match (&mut self.section, &mut self.own_global) {
            (Section::Skipped, _) => return Ok(()),
            (Section::Outside, _) => {
                let message = format!("'{name}' stands before any section: expected a line such as [global]");
                return Err(ParseError::new(place, message));
            }
            (Section::Global, Some((_, given))) => (&mut self.global, Some(given)),
            (Section::Global, None) => (&mut self.global, Some(&mut self.out.global_options)),
            (Section::Job(job), _) => (&mut **job, None),
        };
        if name == "name" {
            let new = expanded.filter(|v| !v.is_empty());
            job.name = new.ok_or_else(|| ParseError::new(place, "name=: expected a job's name"))?;
            let line = format!("name={}", job.name);
            self.keep_line(line);
            return Ok(());
        }
        if options::is_unsupported(name) {
            self.unsupported.push((name.to_owned(), place.clone()));
            return Ok(());
        }
        let note = options::apply(job, name, expanded.as_deref(), place)?;
        self.out.notes.extend(note);
        let line = expanded.as_ref().map_or(name.to_owned(), |value| format!("{name}={value}"));
        let given = given.unwrap_or(&mut job.given);
        if let Some(value) = expanded {
            given.push((name.to_string(), value));
        }
        if given.len() > OPTIONS_MAX {
            return Err(ParseError::new(
                place,
                format!("expected at most {OPTIONS_MAX} options in a section"),
            ));
        }
        self.keep_line(line);
        Ok(())
    }

    /// Returns the text with each `${NAME}` replaced by that environment variable; it must exist.
    fn expand(&self, text: &str, place: &Place) -> Result<String, ParseError> {
        const VALUE_BYTES_MAX: usize = 4096;
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, left) = after
                .split_once('}')
                .ok_or_else(|| ParseError::new(place, format!("'{text}': expected '}}' after '${{'")))?;
            let value = self.sources.variable(name).ok_or_else(|| {
                ParseError::new(
                    place,
                    format!("'{text}': expected the environment variable {name} to be set"),
                )
            })?;
            out.push_str(before);
            out.push_str(&value);
            rest = left;
            if out.len() > VALUE_BYTES_MAX {
                break;
            }
        }
        out.push_str(rest);
        if out.len() > VALUE_BYTES_MAX {
            return Err(ParseError::new(
                place,
                format!("expected a value of at most {VALUE_BYTES_MAX} bytes"),
            ));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
