//! Long calls that Ctrl-C ends.

use crate::failure::Failure;
use mmcq_lab::parallel::Stop;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often the interpreter is asked for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// What the work tells the thread that waits for it.
enum Told<M, T> {
    Part(M),
    Done(Result<T, Failure>),
}

/// Computes without the interpreter, in a thread of its own, while this thread hears signals. The
/// first exception of a signal's handler (Ctrl-C: `KeyboardInterrupt`) ends the work, and is raised.
pub fn heard<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    in_parts(py, |_: &dyn Fn(())| work(), |()| Ok(()))
}

/// Computes as [`heard`] does. What the work tells by its argument is taken in this thread, in
/// order; the first error of `take` ends the work, too.
pub fn in_parts<M: Send, T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&dyn Fn(M)) -> Result<T, Failure> + Send,
    mut take: impl FnMut(M) -> PyResult<()> + Send,
) -> Result<T, Failure> {
    py.detach(|| {
        let stop = Stop::default();
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let theirs = stop.clone();
            scope.spawn(move || {
                let parts: Sender<Told<M, T>> = sender.clone();
                let tell = |part| drop(parts.send(Told::Part(part)));
                drop(sender.send(Told::Done(theirs.during(|| work(&tell)))));
            });
            let mut raised = None;
            loop {
                let found = match receiver.recv_timeout(LOOK) {
                    Ok(Told::Done(done)) => {
                        return raised.map_or(done, |error| Err(Failure::Raised(error)));
                    }
                    Ok(Told::Part(_)) if raised.is_some() => continue,
                    Ok(Told::Part(part)) => Python::attach(|py| py.check_signals()).and_then(|()| take(part)),
                    Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals()),
                    // The work has panicked: its thread says why.
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Failure::Run("the laboratory stopped by a fault of its own".to_owned()));
                    }
                };
                if let Err(error) = found {
                    stop.ask();
                    raised = raised.or(Some(error));
                }
            }
        })
    })
}
