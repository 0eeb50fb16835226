//! Interrupt pin of the device, and how a vfio client is notified of it.
//!
//! The pin has a level, but an eventfd only counts events. So the server notifies the client once
//! and then masks the pin. The client unmasks the pin when its guest has handled the device. If the
//! level is still high then, the server notifies the client again.

use std::fs::File;
use std::io::{self, Write};

/// Interrupt pin of the PCI device, with the eventfd by which the server notifies the client.
#[derive(Debug, Default)]
pub struct Pin {
    signal: Option<File>,
    level: bool,
    masked: bool,
}

impl Pin {
    /// Sets the level of the pin (true: high), and notifies the client if the pin is high and not
    /// masked.
    pub fn set_level(&mut self, level: bool) -> io::Result<()> {
        self.level = level;
        self.tell()
    }

    /// Sets the eventfd by which the client wants to be notified; `None`: no notification. Also
    /// unmasks the pin.
    pub fn set_signal(&mut self, signal: Option<File>) -> io::Result<()> {
        self.signal = signal;
        self.masked = false;
        self.tell()
    }

    /// Masks the pin: the client is not notified until [`unmask`](Self::unmask).
    pub fn mask(&mut self) {
        self.masked = true;
    }

    /// Unmasks the pin, and notifies the client at once if the level is high.
    pub fn unmask(&mut self) -> io::Result<()> {
        self.masked = false;
        self.tell()
    }

    /// Notifies the client whatever the level and the mask are, as a test of the eventfd.
    pub fn test(&mut self) -> io::Result<()> {
        match &mut self.signal {
            Some(signal) => write(signal),
            None => Ok(()),
        }
    }

    fn tell(&mut self) -> io::Result<()> {
        if let (true, false, Some(signal)) = (self.level, self.masked, &mut self.signal) {
            self.masked = true;
            write(signal)?;
        }
        Ok(())
    }
}

/// Notifies the client through the eventfd. If the eventfd's counter is full, the client has enough
/// notifications and nothing is written.
fn write(signal: &mut File) -> io::Result<()> {
    if !super::socket::writable_now(signal)? {
        return Ok(());
    }
    match signal.write_all(&1u64.to_ne_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Makes a pin with a stream in place of the eventfd: each notification is eight bytes.
    fn pair() -> (Pin, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut pin = Pin::default();
        pin.set_signal(Some(File::from(std::os::fd::OwnedFd::from(ours)))).unwrap();
        (pin, theirs)
    }

    fn signals(stream: &mut UnixStream) -> usize {
        let mut bytes = [0; 256];
        stream.read(&mut bytes).map_or(0, |n| n / 8)
    }

    #[test]
    fn a_level_is_told_once_until_unmasked() {
        let (mut pin, mut client) = pair();
        assert_eq!(signals(&mut client), 0);
        pin.set_level(true).unwrap();
        pin.set_level(true).unwrap();
        assert_eq!(signals(&mut client), 1);
        pin.unmask().unwrap();
        assert_eq!(signals(&mut client), 1, "still high");
        pin.set_level(false).unwrap();
        pin.unmask().unwrap();
        assert_eq!(signals(&mut client), 0);
        pin.mask();
        pin.set_level(true).unwrap();
        assert_eq!(signals(&mut client), 0);
        pin.unmask().unwrap();
        assert_eq!(signals(&mut client), 1);
    }

    #[test]
    fn a_new_listener_hears_of_a_level_that_is_high() {
        let (mut pin, mut client) = pair();
        pin.set_signal(None).unwrap();
        pin.set_level(true).unwrap();
        assert_eq!(signals(&mut client), 0);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        pin.set_signal(Some(File::from(std::os::fd::OwnedFd::from(ours)))).unwrap();
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(signals(&mut theirs), 1);
    }

    #[test]
    fn a_listener_that_never_reads_does_not_hold_us() {
        let (mut pin, client) = pair();
        pin.set_level(true).unwrap();
        for _ in 0..10_000 {
            pin.unmask().unwrap();
        }
        drop(client);
    }
}
