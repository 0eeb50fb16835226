//! Trait with the calls between engine and supervisor, so that tests can play the supervisor.

use super::super::{CardParams, Engine, Error};
use super::ServiceRequest;
use crate::host::Host;
use crate::sched::Profile;
use core::task::Waker;

/// The handshake between the engine and its supervisor. A program calls
/// [`card::supervise`](crate::card::supervise) instead. This trait is no part of the interface, and
/// may change in any version.
pub trait Handshake {
    /// Takes the [`ServiceRequest`] that the engine has made to the supervisor. Each is returned
    /// once; `None`: there is no new one.
    fn take_service_request(&mut self) -> Option<ServiceRequest>;

    /// Sets the waker of the supervisor. `None`: there is no supervisor any more.
    #[must_use = "to be dropped outside of any lock"]
    fn set_service_waker(&mut self, waker: Option<Waker>) -> Option<Waker>;

    /// Takes the supervisor's waker if help is needed.
    #[must_use = "to be woken or dropped outside of any lock"]
    fn take_service_waker(&mut self) -> Option<Waker>;

    /// Reports to the engine the result of the help that it requested.
    fn service_done(&mut self, result: Result<CardParams, Error>, now_ns: u64);
}

impl<H: Host, const N: usize, P: Profile> Handshake for Engine<H, N, P> {
    fn take_service_request(&mut self) -> Option<ServiceRequest> {
        Engine::take_service_request(self)
    }

    fn set_service_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        Engine::set_service_waker(self, waker)
    }

    fn take_service_waker(&mut self) -> Option<Waker> {
        Engine::take_service_waker(self)
    }

    fn service_done(&mut self, result: Result<CardParams, Error>, now_ns: u64) {
        Engine::service_done(self, result, now_ns);
    }
}
