//! The controller's interrupt, delivered to user space by an eventfd.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::error::Error;
use crate::kernel;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::time::Duration;

/// The kind of interrupt that the controller uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The interrupt pin (INTx). After each interrupt the kernel masks the pin until the program
    /// unmasks it.
    Pin,
    /// A message (MSI).
    Message,
}

/// A file descriptor that becomes readable when the controller interrupts.
#[derive(Clone, Debug)]
pub struct Interrupt {
    device: Arc<File>,
    event: Arc<File>,
    kind: Kind,
    masks_itself: bool,
}

fn eventfd() -> io::Result<File> {
    // SAFETY: the call takes no memory.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is fresh, and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

impl Interrupt {
    /// Enables the interrupt pin (INTx) of the device, or MSI vector 0 if the device has no pin.
    pub(crate) fn new(device: Arc<File>) -> Result<Self, Error> {
        let system = |error| Error::system("interrupt", error);
        for (index, kind) in [(kernel::IRQ_INTX, Kind::Pin), (kernel::IRQ_MSI, Kind::Message)] {
            let Some((1.., masks_itself)) = kernel::interrupt(&device, index).map_err(system)? else {
                continue;
            };
            let event = Arc::new(eventfd().map_err(system)?);
            kernel::signal(&device, index, event.as_raw_fd()).map_err(system)?;
            return Ok(Interrupt { device, event, kind, masks_itself });
        }
        Err(system(io::Error::new(io::ErrorKind::Unsupported, "the device has neither a pin nor messages")))
    }

    /// Returns whether the controller interrupts by its pin or by messages.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Sleeps until the controller interrupts (returns true), until `at_most` has passed (`None`:
    /// no limit), or until a signal comes.
    pub fn wait(&self, at_most: Option<Duration>) -> io::Result<bool> {
        wait(&self.event, at_most)
    }

    /// Unmasks the interrupt pin after the program has handled the interrupt. Does nothing if the
    /// kernel does not mask this interrupt.
    pub fn unmask(&self) -> io::Result<()> {
        if self.masks_itself { kernel::unmask(&self.device, kernel::IRQ_INTX) } else { Ok(()) }
    }
}

/// Returns a duration as the kernel's `timespec`.
fn timespec(time: Duration) -> libc::timespec {
    // SAFETY: the structure has only numbers, and all zeros is a valid value.
    let mut kernel: libc::timespec = unsafe { std::mem::zeroed() };
    kernel.tv_sec = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
    kernel.tv_nsec = time.subsec_nanos() as _;
    kernel
}

fn wait(event: &File, at_most: Option<Duration>) -> io::Result<bool> {
    let mut polled = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let at_most = at_most.map(timespec);
    let limit = at_most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the arguments are one `pollfd`, a time limit or null, and no signal mask; all live
    // during the call.
    let ready = unsafe { libc::ppoll(&raw mut polled, 1, limit, std::ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    if ready == 0 {
        return Ok(false);
    }
    // The value that is read counts interrupts, and is not needed. Reading makes the descriptor
    // unreadable again.
    match (&mut &*event).read(&mut [0; 8]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn waits_for_the_event_or_for_the_time() {
        let event = eventfd().unwrap();
        assert!(!wait(&event, Some(Duration::ZERO)).unwrap());
        // Two signals before a wait count as one; after it the descriptor is unreadable.
        for _ in 0..2 {
            (&event).write_all(&1u64.to_ne_bytes()).unwrap();
        }
        assert!(wait(&event, None).unwrap());
        assert!(!wait(&event, Some(Duration::ZERO)).unwrap());
        // A signal must also end a wait that has a time limit.
        let other = event.try_clone().unwrap();
        let tells = std::thread::spawn(move || (&other).write_all(&1u64.to_ne_bytes()));
        assert!(wait(&event, Some(Duration::MAX)).unwrap());
        tells.join().unwrap().unwrap();
    }

    #[test]
    fn a_time_reaches_the_kernel_in_seconds_and_nanoseconds() {
        let parts = |time| {
            let kernel = timespec(time);
            (kernel.tv_sec, kernel.tv_nsec)
        };
        assert_eq!(parts(Duration::from_millis(20)), (0, 20_000_000));
        assert_eq!(parts(Duration::new(3, 999_999_999)), (3, 999_999_999));
        assert_eq!(parts(Duration::MAX), (libc::time_t::MAX, 999_999_999));
    }

    #[test]
    fn a_file_that_is_no_device_is_refused() {
        let error = Interrupt::new(Arc::new(File::open("/dev/null").unwrap())).unwrap_err();
        assert!(error.to_string().starts_with("interrupt: "), "{error}");
    }
}
