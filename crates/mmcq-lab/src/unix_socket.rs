//! Sockets with a path, for servers on this machine.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

/// Path of a socket, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        // The path may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Fills `buffer` by repeated calls of `read`. Returns `Ok(false)` if the other side has closed
/// before the buffer's first byte.
pub fn fill(buffer: &mut [u8], mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Listens at a path. Returns the listener, and the name of its socket file. A socket file that no
/// server uses any more is replaced. A socket in use, and any other file at the path, is an error
/// and stays.
pub fn listen(path: &Path) -> io::Result<(UnixListener, Name)> {
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            let what =
                "exists and is no socket; expected a free path, or the socket of a server that has ended";
            return Err(io::Error::new(ErrorKind::AlreadyExists, what));
        }
        // The test connects with another type of socket, so that a server that waits there for its
        // client does not take it for one.
        if UnixDatagram::unbound()?.connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            std::fs::remove_file(path)?;
        } else {
            let what = "another server listens at this socket; expected a free path";
            return Err(io::Error::new(ErrorKind::AddrInUse, what));
        }
    }
    Ok((UnixListener::bind(path)?, Name(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_socket_of_a_dead_server_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (first, name) = listen(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        // The running server must not have noticed the attempt.
        first.set_nonblocking(true).unwrap();
        assert_eq!(first.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        // The path stays, as if the server had been killed.
        drop(first);
        std::mem::forget(name);
        assert!(path.exists());
        let (second, name) = listen(&path).unwrap();
        drop((second, name));
        assert!(!path.exists());
        std::fs::write(&path, "a letter").unwrap();
        let error = listen(&path).unwrap_err();
        assert!(error.to_string().starts_with("exists and is no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
    }
}
