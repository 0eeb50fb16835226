//! Connections by Unix socket or TCP, and reads with a time limit.

use crate::unix_socket::{Name, fill};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connection to a client.
pub trait Socket: Read + Write + Send {
    /// Returns a second handle to the same connection, for another thread.
    fn twin(&self) -> io::Result<Box<dyn Socket>>;
    /// Sets the time limit of each read; `None`: no limit.
    fn patience(&self, limit: Option<Duration>) -> io::Result<()>;
    /// Sets the time limit of each write.
    fn write_patience(&self, limit: Duration) -> io::Result<()>;
    /// Closes the connection in both directions, for all handles of this socket.
    fn close(&self);
}

macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn twin(&self) -> io::Result<Box<dyn Socket>> {
                Ok(Box::new(self.try_clone()?))
            }

            fn patience(&self, limit: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(limit)
            }

            fn write_patience(&self, limit: Duration) -> io::Result<()> {
                self.set_write_timeout(Some(limit))
            }

            fn close(&self) {
                // The connection may be closed already.
                let _ = self.shutdown(std::net::Shutdown::Both);
            }
        }
    };
}

socket!(UnixStream);
socket!(TcpStream);

/// A socket that listens for clients.
pub enum Listener {
    /// Unix socket at a path.
    Unix(UnixListener),
    /// TCP socket at a port.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at a path. Also returns a value that removes the socket's name from the file system
    /// when it is dropped.
    pub fn unix(path: &Path) -> io::Result<(Self, Name)> {
        let (listener, name) = crate::unix_socket::listen(path)?;
        Ok((Listener::Unix(listener), name))
    }

    /// Waits for the next client and returns its connection.
    pub fn accept(&self) -> io::Result<Box<dyn Socket>> {
        Ok(match self {
            Listener::Unix(listener) => Box::new(listener.accept()?.0),
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // Each reply is written as a whole, so it need not wait for more data.
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        })
    }
}

/// Fills the buffer from the connection before `deadline`. Returns `Ok(false)` if the client has
/// closed before the buffer's first byte.
pub fn read_by(socket: &mut dyn Socket, buffer: &mut [u8], deadline: Instant) -> io::Result<bool> {
    fill(buffer, |rest| {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.patience(Some(left))?;
        socket.read(rest)
    })
}

/// Waits for the next byte from the client without a time limit. Returns `None` if the client has
/// closed the connection.
pub fn first_byte(socket: &mut dyn Socket) -> io::Result<Option<u8>> {
    socket.patience(None)?;
    let mut byte = [0];
    loop {
        match socket.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
