//! Parses iozone's command line into jobs, and writes iozone's table. The table has one line for
//! each pair of file size and record size, one column for each test, and rates in KiB/s. Supported
//! are the tests that use `read` and `write`: 0 (write, rewrite), 1 (read, reread) and 2 (random
//! read, random write).

use crate::fio::stats::Stats;
use crate::fio::{JobFile, System, parse_text};
use std::fmt::Write;
use std::path::Path;

/// Smallest and largest file of `-a` without `-n`, `-g`, `-s`, in KiB.
const FILES_KIB: (u64, u64) = (64, 512 << 10);
/// Smallest and largest record of `-a` without `-y`, `-q`, `-r`, in KiB.
const RECORDS_KIB: (u64, u64) = (4, 16 << 10);
/// Size of the file and of a record if `-a` is not given, in KiB.
const ONE_KIB: (u64, u64) = (512, 4);
/// File size in KiB above which `-a` leaves out records below [`LARGE_KIB`], unless `-r`, `-s`,
/// `-y`, `-q` or `-z` is given.
const CROSSOVER_KIB: u64 = 16 << 10;
const LARGE_KIB: u64 = 64;
/// Largest file and record that a command line may give, in KiB.
const KIB_MAX: u64 = 1 << 30;
/// Letters of the supported options that have a value.
const VALUED: &str = "srfiyqng";
/// Letters of the supported options without a value.
const FLAGS: &str = "azIewMR";
/// Columns of the table: number of the test, then name and `rw=` of its jobs.
const TESTS: [(u32, [(&str, &str); 2]); 3] = [
    (0, [("write", "write"), ("rewrite", "write")]),
    (1, [("read", "read"), ("reread", "read")]),
    (2, [("random_read", "randread"), ("random_write", "randwrite")]),
];
/// iozone's two header lines of the table.
const NAMES: &str = "                                                              \
     random    random     bkwd    record    stride\n              kB  reclen    write  rewrite    \
     read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread\n";

/// What an iozone command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iozone {
    /// Pairs of file size and record size in KiB to run.
    sizes_kib: Vec<(u64, u64)>,
    /// Numbers of iozone's tests to run, such as 0 for write and rewrite.
    tests: Vec<u32>,
    file: String,
    direct: bool,
    /// Whether the time of the flush counts as time of the writes.
    flush: bool,
    /// iozone's messages about its options, which are printed first.
    said: Vec<String>,
    line: String,
}

/// Returns the number of words before the options of a pasted command line: `iozone`, or a path
/// that ends in it, and `sudo` before it. 0: the line has only options.
fn program_words(words: &[String]) -> usize {
    let is = |word: &str, name: &str| Path::new(word).file_name().is_some_and(|last| last == name);
    let sudo = usize::from(words.first().is_some_and(|word| is(word, "sudo")));
    if words.get(sudo).is_some_and(|word| is(word, "iozone")) { sudo + 1 } else { 0 }
}

/// Returns whether these words are an iozone command line. They are one if the first word is
/// `iozone` (or `sudo` before it), or an option that fio does not have, such as `-az` or `-i0`.
pub fn is_line(words: &[String]) -> bool {
    if program_words(words) > 0 {
        return true;
    }
    let Some(option) = words.first().and_then(|word| word.strip_prefix('-')) else { return false };
    let flags = option.starts_with('a') && option.chars().all(|c| FLAGS.contains(c));
    let number = option.strip_prefix('i').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    flags || number
}

/// Splits options as getopt does. Returns each option as its letter and its value.
fn letters(words: &[String]) -> Result<Vec<(char, String)>, String> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let cluster = word.strip_prefix('-').filter(|rest| !rest.is_empty());
        let cluster = cluster.ok_or_else(|| format!("iozone: '{word}': expected an option such as -i0"))?;
        for (at, letter) in cluster.char_indices() {
            if VALUED.contains(letter) {
                let rest = &cluster[at + letter.len_utf8()..];
                let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
                let value = value.ok_or_else(|| format!("iozone's -{letter}: expected a value"))?;
                found.push((letter, value));
                break;
            }
            if !FLAGS.contains(letter) {
                let (flags, valued) = (FLAGS, VALUED);
                let shown = letter.escape_default();
                return Err(format!(
                    "iozone's -{shown}: not supported here; expected one of {flags}{valued}"
                ));
            }
            found.push((letter, String::new()));
        }
    }
    Ok(found)
}

/// Parses a size as iozone does and returns KiB; a number without a unit counts KiB.
fn kib(letter: char, text: &str) -> Result<u64, String> {
    let wrong = || format!("iozone's -{letter} {text}: expected a size in kB, or as 16k, 4m, 1g");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "k" => 1,
        "m" => 1 << 10,
        "g" => 1 << 20,
        _ => return Err(wrong()),
    };
    let size = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(scale));
    size.filter(|kib| (1..=KIB_MAX).contains(kib)).ok_or_else(wrong)
}

/// Returns the sizes from the smallest to the largest, each twice the one before.
fn doubled((least, most): (u64, u64)) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(least), |kib| kib.checked_mul(2)).take_while(move |kib| *kib <= most)
}

impl Iozone {
    /// Parses an iozone command line. The name of the program may stand before the options.
    ///
    /// # Errors
    /// An option is unknown, or requests something that is not supported.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let options = letters(&words[program_words(words)..])?;
        let has = |letter: char| options.iter().any(|(known, _)| *known == letter);
        let sizes = |letter: char| -> Result<Vec<u64>, String> {
            options.iter().filter(|(known, _)| *known == letter).map(|(_, text)| kib(letter, text)).collect()
        };
        let last = |letter: char| -> Result<Option<u64>, String> { Ok(sizes(letter)?.last().copied()) };
        let mut tests = Vec::new();
        for (_, number) in options.iter().filter(|(letter, _)| *letter == 'i') {
            let known = number.parse().ok().filter(|n| TESTS.iter().any(|(test, _)| test == n));
            tests.push(known.ok_or_else(|| {
                format!("iozone's -i {number}: expected 0 (write), 1 (read) or 2 (random)")
            })?);
        }
        if !tests.contains(&0) {
            return Err(
                "iozone's tests: the file is written first; expected -i 0, and -i 1 or -i 2 for others"
                    .to_owned(),
            );
        }
        let auto = has('a');
        let files = match sizes('s')? {
            given if !given.is_empty() => given,
            _ if auto => {
                doubled((last('n')?.unwrap_or(FILES_KIB.0), last('g')?.unwrap_or(FILES_KIB.1))).collect()
            }
            _ => vec![ONE_KIB.0],
        };
        let records = match sizes('r')? {
            given if !given.is_empty() => given,
            _ if auto => {
                doubled((last('y')?.unwrap_or(RECORDS_KIB.0), last('q')?.unwrap_or(RECORDS_KIB.1))).collect()
            }
            _ => vec![ONE_KIB.1],
        };
        let crosses = !has('z') && !"rsyq".chars().any(has);
        let fits = |file: u64, record: u64| {
            record <= file && !(crosses && file > CROSSOVER_KIB && record < LARGE_KIB)
        };
        let pairs = files.iter().flat_map(|file| records.iter().map(move |record| (*file, *record)));
        let sizes_kib: Vec<(u64, u64)> = pairs.filter(|(file, record)| fits(*file, *record)).collect();
        if sizes_kib.is_empty() {
            return Err("iozone's sizes: no record fits into a file; expected -r or -y below -s".to_owned());
        }
        let file = options.iter().rfind(|(letter, _)| *letter == 'f').map(|(_, file)| file.clone());
        let mut said = Vec::new();
        for (letter, value) in &options {
            said.extend(spoken(*letter, value)?);
        }
        let line = std::iter::once("iozone").chain(words[program_words(words)..].iter().map(String::as_str));
        let line = line.collect::<Vec<_>>().join(" ");
        let file = file.unwrap_or_else(|| "iozone.tmp".to_owned());
        Ok(Iozone { sizes_kib, tests, file, direct: has('I'), flush: has('e'), said, line })
    }

    /// Returns those columns of the table that have values, with test number, name and `rw=`.
    fn columns(&self) -> impl Iterator<Item = (u32, (&'static str, &'static str))> {
        let wanted = TESTS.iter().filter(|(test, _)| self.tests.contains(test));
        wanted.flat_map(|(test, jobs)| jobs.iter().map(|job| (*test, *job)))
    }

    /// Returns the jobs, one after the other: the tests for each pair of sizes, all on the same
    /// file.
    ///
    /// # Errors
    /// The name of the file cannot be written in a job file.
    pub fn jobs(&self) -> Result<JobFile, String> {
        let name: String =
            self.file.chars().flat_map(|c| (c == ':').then_some('\\').into_iter().chain([c])).collect();
        if self.file.contains(['\n', ';', '#', '$']) {
            return Err(format!("iozone's -f {}: expected a plain name", self.file.escape_default()));
        }
        let direct = u8::from(self.direct);
        let mut text = format!("[global]\nfilename={name}\nioengine=psync\nstonewall\ndirect={direct}\n");
        for (file, record) in &self.sizes_kib {
            for (_, (job, rw)) in self.columns() {
                let flush = u8::from(self.flush && rw.ends_with("write"));
                let _ = write!(
                    text,
                    "[{job}_{file}k_{record}k]\nrw={rw}\nsize={file}k\nbs={record}k\nend_fsync={flush}\n"
                );
            }
        }
        parse_text("iozone", text.as_bytes(), &System).map_err(|error| error.to_string())
    }

    /// Returns iozone's table. `stats` are the results of the jobs, in their order.
    pub fn table<'s>(&self, stats: impl IntoIterator<Item = &'s Stats>) -> String {
        let mut out = String::new();
        for line in &self.said {
            let _ = writeln!(out, "\t{line}");
        }
        let _ = writeln!(out, "\tCommand line used: {}\n\tOutput is in kBytes/sec", self.line);
        out += NAMES;
        let mut stats = stats.into_iter();
        for (file, record) in &self.sizes_kib {
            let mut row = format!("{file:16}{record:8}");
            for (test, jobs) in &TESTS {
                for _ in jobs {
                    match self.tests.contains(test).then(|| stats.next()).flatten() {
                        Some(stats) => {
                            let rate =
                                u128::from(*file) * 1_000_000_000 / u128::from(stats.job_runtime_ns.max(1));
                            let _ = write!(row, "{rate:9}");
                        }
                        None => row += "         ",
                    }
                }
            }
            let _ = writeln!(out, "{}", row.trim_end());
        }
        out + "\niozone test complete.\n"
    }
}

/// Returns the message that iozone prints about an option before its table; `None`: it prints none.
fn spoken(letter: char, value: &str) -> Result<Option<String>, String> {
    Ok(Some(match letter {
        'a' => "Auto Mode".to_owned(),
        'z' => "Cross over of record size disabled.".to_owned(),
        's' => format!("File size set to {} kB", kib('s', value)?),
        'r' => format!("Record Size {} kB", kib('r', value)?),
        'y' => format!("Using Minimum Record Size {} kB", kib('y', value)?),
        'q' => format!("Using Maximum Record Size {} kB", kib('q', value)?),
        'n' => format!("Using minimum file size of {} kilobytes.", kib('n', value)?),
        'g' => format!("Using maximum file size of {} kilobytes.", kib('g', value)?),
        'I' => "O_DIRECT feature enabled".to_owned(),
        'e' => "Include fsync in write timing".to_owned(),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn parsed(line: &str) -> Result<Iozone, String> {
        Iozone::parse(&words(line))
    }

    const LINE: &str = "-az -i0 -i1 -s 20m -y 16k -q 4m -I -f /mnt/sdcard/iozone.tmp -e";

    #[test]
    fn the_threads_line_has_nine_records_and_four_tests() {
        let asked = parsed(LINE).unwrap();
        let records: Vec<u64> = asked.sizes_kib.iter().map(|(_, record)| *record).collect();
        assert_eq!(records, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
        assert!(asked.sizes_kib.iter().all(|(file, _)| *file == 20480) && asked.direct && asked.flush);
        assert_eq!(parsed(&format!("./iozone {LINE}")).unwrap(), asked);
    }

    /// Checks that the command line gives the same job as the job file in the source tree that was
    /// written by hand. The packed crate has no job files.
    #[test]
    fn the_threads_line_is_the_job_that_was_written_by_hand() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/iozone.fio");
        if !path.exists() {
            return;
        }
        let ours = parsed(LINE).unwrap().jobs().unwrap();
        let theirs = crate::fio::parse_file(&path, &System).unwrap();
        assert_eq!(ours.jobs.len(), theirs.jobs.len());
        for (ours, theirs) in ours.jobs.iter().zip(&theirs.jobs) {
            assert_eq!((ours.rw, &ours.bs, ours.size), (theirs.rw, &theirs.bs, theirs.size));
            assert_eq!((ours.direct, ours.stonewall), (theirs.direct, theirs.stonewall));
            assert_eq!(ours.end_fsync, theirs.end_fsync, "{}", theirs.name);
        }
    }

    #[test]
    fn sizes_of_auto_mode_are_iozones() {
        let sizes = |line: &str| parsed(line).unwrap().sizes_kib;
        assert_eq!(sizes("-i0"), [(512, 4)]);
        assert_eq!(sizes("-a -i0 -n 64 -g 128 -r 64"), [(64, 64), (128, 64)]);
        let all = sizes("-ai0");
        assert_eq!((all.first(), all.last()), (Some(&(64, 4)), Some(&(512 << 10, 16 << 10))));
        let least = |all: &[(u64, u64)], file| all.iter().filter(|s| s.0 == file).map(|s| s.1).min();
        assert_eq!([16384, 32768].map(|file| least(&all, file)), [Some(4), Some(64)]);
        assert_eq!(least(&sizes("-az -i0"), 32768), Some(4));
    }

    #[test]
    fn what_is_not_here_is_refused_in_one_line() {
        for (line, part) in [
            ("-az", "the file is written first"),
            ("-i0 -i5", "iozone's -i 5: expected 0 (write), 1 (read) or 2 (random)"),
            ("-i0 -s 20x", "-s 20x: expected a size"),
            ("-i0 -s", "iozone's -s: expected a value"),
            ("-i0 -s 4 -r 8", "no record fits"),
            ("-i0 -t 4", "iozone's -t: not supported here"),
            ("-i0 -f a;b", "-f a;b: expected a plain name"),
            ("-i0 x", "'x': expected an option"),
        ] {
            let refused = parsed(line).and_then(|asked| asked.jobs().map(|_| ()));
            assert!(refused.clone().is_err_and(|why| why.contains(part)), "{line}: {refused:?}");
        }
    }

    #[test]
    fn a_line_is_told_from_fios() {
        for line in ["-az -i0", "-a", "-i0 -i1", "iozone -s 4", "sudo /bin/iozone -i 0"] {
            assert!(is_line(&words(line)), "{line}");
        }
        for line in
            ["-name=a", "-rw=read -name=a", "--alloc-size=3 --name=a", "-iodepth=4 -name=a", "a.fio", ""]
        {
            assert!(!is_line(&words(line)), "{line}");
        }
    }
}
