//! Long computations that Ctrl-C ends.

use crate::failure::Failure;
use mmcq_lab::parallel::Stop;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Interval at which the waiting thread checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// A message from the computing thread to the waiting thread: a part of the result, or the end.
enum Told<M, T> {
    Part(M),
    Done(Result<T, Failure>),
}

/// Runs `work` in another thread, without the interpreter's lock, while this thread handles
/// signals. The first exception that a signal handler raises (Ctrl-C: `KeyboardInterrupt`) ends the
/// work, and the caller gets this exception.
pub fn heard<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    in_parts(py, |_: &dyn Fn(())| work(), |()| Ok(()))
}

/// Runs `work` like [`heard`]. `work` gets a function by which it sends parts of its result; this
/// thread passes them to `take` in their order. The first error of `take` also ends the work.
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
                    // The work has panicked, and its thread has printed why.
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
