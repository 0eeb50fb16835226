//! Replays recorded loads.

use crate::failure::{Failure, input};
use crate::load::scene;
use mmcq_lab::fio::script::Remap;
use mmcq_lab::recorded::plan::{self, Mode, Wishes};
use mmcq_lab::recorded::{self, Format, Moment, Reading};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// The options of `mmcq replay`: how to read the trace, and how to replay it.
struct Options {
    reading: Reading,
    wishes: Wishes,
}

/// Returns the option with this name; `None` if it is absent or `None`.
fn given<'py, T: FromPyObjectOwned<'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>> {
    match options.get_item(name)? {
        Some(value) if !value.is_none() => Ok(Some(value.extract().map_err(Into::into)?)),
        _ => Ok(None),
    }
}

/// Returns the option with this name, parsed as one of a set of words; `None` if it is absent.
fn word<T: std::str::FromStr<Err = String>>(options: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<T>> {
    let text: Option<String> = given(options, name)?;
    let parsed = text.map(|text| text.parse().map_err(|why| input(format!("{name} {text}: {why}"))));
    Ok(parsed.transpose()?)
}

fn read(options: &Bound<'_, PyDict>) -> PyResult<Options> {
    let unit: Option<String> = given(options, "time_unit")?;
    let unit_ns = match unit {
        None => None,
        Some(unit) => Some(
            recorded::unit_ns(&unit)
                .ok_or_else(|| input(format!("time_unit {unit}: expected s, ms, us, 100ns or ns")))?,
        ),
    };
    let without: Vec<String> = given(options, "without")?.unwrap_or_default();
    if let Some(unknown) = without.iter().find(|what| !["flush", "discard", "fua"].contains(&what.as_str())) {
        return Err(input(format!("without {unknown}: expected flush, discard or fua")).into());
    }
    let leaves = |what: &str| without.iter().any(|given| given == what);
    let mode = word::<Mode>(options, "mode")?.unwrap_or(Mode::Open);
    Ok(Options {
        reading: Reading {
            format: word::<Format>(options, "format")?,
            columns: given(options, "columns")?,
            unit_ns,
            moment: word::<Moment>(options, "event")?.unwrap_or(Moment::Queued),
            device: given(options, "device")?,
            needs_times: mode != Mode::Closed,
        },
        wishes: Wishes {
            mode,
            depth: given(options, "depth")?.unwrap_or(64),
            scale: given(options, "scale")?.unwrap_or(1.0),
            gap_max_ns: given(options, "gap_max_ns")?,
            remap: word::<Remap>(options, "remap")?.unwrap_or(Remap::Refuse),
            sort: given(options, "sort")?.unwrap_or(false),
            count: given(options, "count")?.unwrap_or(plan::REQUESTS_MAX),
            without_flush: leaves("flush"),
            without_fua: leaves("fua"),
            without_discard: leaves("discard"),
        },
    })
}

/// Replays a trace. Returns the report of `mmcq replay --output-format json`, and warnings.
#[pyfunction]
#[pyo3(signature = (traces, options, platform, card, setting, seed, set))]
#[allow(clippy::too_many_arguments, reason = "the keywords of a function in Python")]
pub fn replay(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    options: &Bound<'_, PyDict>,
    platform: String,
    card: Option<String>,
    setting: &str,
    seed: u64,
    set: Vec<String>,
) -> PyResult<(String, Vec<String>)> {
    let scene = scene(platform, card, setting, seed, set)?;
    let Options { reading, wishes } = read(options)?;
    crate::heard::heard(py, || {
        let name = traces.first().map_or_else(String::new, |path| path.display().to_string());
        let files: Vec<PathBuf> = traces.iter().flat_map(|path| recorded::files(path)).collect();
        let (events, format) = recorded::read(&files, &reading).map_err(input)?;
        let plan = plan::plan(&name, events, &wishes).map_err(input)?;
        let loaded = scene.load_workers(&plan.workers, &scene.set).map_err(input)?;
        let report = crate::reported(&scene, loaded, plan.replayed(&name, format, &wishes))?;
        Ok((report, plan.notes.iter().map(|note| format!("{name}: {note}")).collect()))
    })
    .map_err(|failure: Failure| failure.into())
}
