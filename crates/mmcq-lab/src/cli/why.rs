//! `mmcq why`: explains where the time of a run was spent.

use super::Error;
use super::effects::with_effects;
use super::form::Form;
use super::load::Load;
use clap::Args;
use mmcq_lab::params;
use mmcq_lab::rate::Rate;
use mmcq_lab::runner::{self, RunError};
use mmcq_lab::why::{self, Why};
use std::process::ExitCode;

/// Explain a run: transfers, commands, and where the time was spent
///
/// Runs the job, and once more with wire and card alone. If the job has one request under way at a
/// time, and most of the loss is time in which the bus has no work, the job also runs with two.
///
/// The time of the run is split into phases that add up to 100 %. wire: commands, data. card:
/// access, busy. controller held: the controller has no room or no data, so the bus stops. waiting:
/// the stack has no request and the wires are quiet, since the jobs think, sleep or wake up. CPU:
/// the stack has a request and the wires are quiet; if the host does not see the card's busy, that
/// time is in this phase.
///
/// Rows of --json have group, name, value, unit, and the value for each request, for each MiB or in
/// percent.
///
/// With an SDIO function of your own (a file whose name ends in .toml, as for `mmcq run`), it shows
/// the steps of a packet and what they wait for, for each way to start the steps.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    load: Load,
    /// Rates as MiB/s, MB/s or IOPS
    #[arg(long, value_name = "UNIT", default_value = "MiB/s")]
    rates: Rate,
    #[command(flatten)]
    form: Form,
}

impl Explain {
    pub fn run(self) -> Result<ExitCode, Error> {
        if let Some(function) = self.load.function()? {
            if self.rates != Rate::default() {
                return Err(Error::input("--rates: an SDIO function is shown in packets; expected none"));
            }
            return function.why(&self.form);
        }
        let (file, loaded) = self.load.read()?;
        let scene = &self.load.scene;
        let run = scene.run_of(&loaded);
        let again = |changes: &[String]| scene.load(&file, changes);
        // The run's own figures are needed only to compare them with those of the run without a
        // change.
        let outcome =
            || (!scene.set.is_empty()).then(|| runner::run(&run, None, &mut |_, _| ()).ok()).flatten();
        let done =
            with_effects(scene, again, || (Why::new(&run), outcome()), |(_, outcome)| outcome.as_ref());
        let mut why = done.0.map_err(|error| match error {
            RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
            other => Error::input(other),
        })?;
        why.rate = self.rates;
        why.title = scene.title(&loaded.platform);
        why.priors = params::priors(&scene.params().map_err(Error::input)?).len();
        self.form.print(|| why::text(&why), || why::json_lines(&why))?;
        Ok(if why.counters.failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}
