//! Options of jobs: their names, what each changes in a [`Job`], and the errors for unknown ones.

mod distribution;
mod others;
mod used;

use super::error::{Note, ParseError, Place};
use super::job::{Distribution, Job};
use super::value::Expected;
pub use others::{IGNORED, UNSUPPORTED};
pub use used::{RANDOM, USED};

/// Option of fio that changes a job.
pub struct Opt {
    /// Name of the option in job files.
    pub name: &'static str,
    /// Whether the option may stand without a value.
    pub flag: bool,
    /// Stores the option's value in the job. The error says what was expected.
    pub apply: fn(&mut Job, &str) -> Result<(), Expected>,
}

/// Alternative names of options, as in fio: alternative, name.
pub const ALIASES: &[(&str, &str)] = &[
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("ba", "blockalign"),
    ("readwrite", "rw"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("wait_for_previous", "stonewall"),
    ("io_limit", "io_size"),
    ("timeout", "runtime"),
    ("threads", "thread"),
    ("ratemin", "rate_min"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
];

/// Returns the name by which fio's reports list the option `name`, which may be an alternative name.
pub fn reported(name: &str) -> &str {
    match name {
        "blockalign" | "ba" => "ba",
        "threads" => name,
        _ => ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name),
    }
}

/// Stores the option `name=value` in `job`. `value` is `None` if the option has no `=`. A returned
/// note means that the option has no effect.
pub fn apply(
    job: &mut Job,
    name: &str,
    value: Option<&str>,
    place: &Place,
) -> Result<Option<Note>, ParseError> {
    let canonical = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    if let Some(opt) = USED.iter().find(|o| o.name == canonical) {
        let value = match value {
            Some(v) => v,
            None if opt.flag => "1",
            None => {
                return Err(ParseError::new(place, format!("{name}: expected a value, as in {name}=...")));
            }
        };
        return (opt.apply)(job, value)
            .map(|()| not_modelled(job, canonical, place))
            .map_err(|expected| ParseError::new(place, format!("{name}={value}: expected {expected}")));
    }
    if let Some((_, reason)) = IGNORED.iter().find(|(ignored, _)| *ignored == canonical) {
        return Ok(Some(Note {
            place: place.clone(),
            option: canonical.to_string(),
            reason: (*reason).to_string(),
        }));
    }
    if is_unsupported(name) {
        return Err(ParseError::new(place, format!("option '{name}' of fio is not supported here")));
    }
    Err(ParseError::new(place, unknown(name)))
}

/// Returns whether fio has this option, and the laboratory does not support it.
pub fn is_unsupported(name: &str) -> bool {
    let canonical = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    UNSUPPORTED.contains(&canonical)
}

/// Returns a note if part of an accepted option has no effect; otherwise `None`.
fn not_modelled(job: &Job, option: &str, place: &Place) -> Option<Note> {
    let ranked = matches!(
        job.random_distribution,
        Distribution::Zipf { .. } | Distribution::Pareto { .. } | Distribution::Normal { .. }
    );
    if option == "random_distribution" && ranked {
        return Some(Note {
            place: place.clone(),
            option: option.to_owned(),
            reason: "no effect on where the frequent blocks are unless randrepeat=0: fio scatters them by the file's name, \
                     this program by the job's seed"
                .to_owned(),
        });
    }
    let buffered = matches!(option, "direct" | "buffered") && !job.direct;
    buffered.then(|| Note {
        place: place.clone(),
        option: option.to_owned(),
        reason: "there is no page cache here: all I/O is direct".to_owned(),
    })
}

/// Returns the message for an unknown option, with the most similar known name.
pub fn unknown(name: &str) -> String {
    // Only the start of the name is compared, so a very long one costs no time.
    let short: String = name.chars().take(64).collect();
    let known = USED.iter().map(|o| o.name).chain(IGNORED.iter().map(|(n, _)| *n));
    let nearest = known
        .chain(ALIASES.iter().map(|(alias, _)| *alias))
        .map(|known| (strsim::osa_distance(&short, known), known))
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, known)) if distance <= 1 + short.chars().count() / 3 => {
            format!("unknown option '{short}'; did you mean '{known}'?")
        }
        _ => format!("unknown option '{short}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place::Line { file: "x.fio".to_string(), line: 7 }
    }

    #[test]
    fn no_name_twice() {
        let mut names: Vec<&str> = USED.iter().map(|o| o.name).collect();
        names.extend(IGNORED.iter().map(|(n, _)| *n));
        names.extend(UNSUPPORTED);
        names.extend(ALIASES.iter().map(|(a, _)| *a));
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        for (_, target) in ALIASES {
            assert!(names.contains(target), "{target}");
        }
    }

    /// Checks that the source reads each field that an option sets: an option that is accepted
    /// without effect would give the figures of another job.
    #[test]
    fn each_field_that_an_option_sets_is_read_somewhere() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let options = source.join("fio/options");
        let (mut folders, mut text) = (vec![source.clone()], String::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() && path != options {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
                    text += &std::fs::read_to_string(&path).expect("a file");
                }
            }
        }
        let fields = |file: &str, item: &str| -> Vec<String> {
            let text = std::fs::read_to_string(source.join(file)).expect("a file");
            let fields = text.split_once(item).expect("an item").1.split_once("\n}").expect("its end").0;
            let names = fields.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
            names.map(|(name, _)| name.to_owned()).collect()
        };
        let mut names = fields("fio/job.rs", "pub struct Job {");
        names.extend(fields("fio/parse.rs", "pub struct JobFile {"));
        let mut seen = 0;
        for name in names {
            let is_read = text.match_indices(&format!(".{name}")).any(|(at, found)| {
                let after = text[at + found.len()..].trim_start_matches(' ');
                let part = text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
                let set = after.starts_with('=') && !after.starts_with("==");
                !part && !set
            });
            assert!(is_read, "{name} is read nowhere");
            seen += 1;
        }
        assert!(seen > 70, "{seen}");
    }

    /// Checks that the playground's page offers no option that this reader refuses. The packed crate
    /// has no playground.
    #[test]
    fn what_a_link_of_the_playground_may_set_is_read() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../playground/page/lab.js");
        let Ok(text) = std::fs::read_to_string(page) else { return };
        let list = text.split_once("const LINKED = [").expect("a list").1.split_once(']').expect("its end").0;
        let names: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('\'')).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert!(USED.iter().any(|option| option.name == name), "{name}");
        }
    }

    #[test]
    fn errors_are_one_line() {
        let mut job = Job::new("a", place());
        for (name, value, message) in [
            ("itdepth", Some("3"), "x.fio:7: unknown option 'itdepth'; did you mean 'iodepth'?"),
            ("bs", Some("4q"), "x.fio:7: bs=4q: expected a size such as 4k"),
            ("blocksize", Some(""), "x.fio:7: blocksize=: expected a size such as 4k"),
            ("bs", None, "x.fio:7: bs: expected a value, as in bs=..."),
            ("iodepth", Some("0"), "x.fio:7: iodepth=0: expected a number from 1 to 65536"),
            ("zonemode", Some("zbd"), "x.fio:7: option 'zonemode' of fio is not supported here"),
            ("qqqqqqqqqqqq", None, "x.fio:7: unknown option 'qqqqqqqqqqqq'"),
            (
                "rw",
                Some("random"),
                "x.fio:7: rw=random: expected randread, randwrite or randrw, of which random may mean any",
            ),
            (
                "rw",
                Some("reed"),
                "x.fio:7: rw=reed: expected one of read, write, randread, randwrite, rw, readwrite, randrw",
            ),
        ] {
            let error = apply(&mut job, name, value, &place()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
