//! Sockets by a path, for the servers.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at a path. A socket there that nobody listens at any more is replaced; anything else is not touched.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let stale = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
    if stale {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}
