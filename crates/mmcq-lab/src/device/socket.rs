//! Sends and receives messages with file descriptors on a socket, with time limits.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::protocol::DESCRIPTORS_MAX;
use crate::unix_socket::fill;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time limit for receiving the remaining bytes of a message, and for sending an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connection to a client.
#[derive(Debug)]
pub struct Socket(UnixStream);

impl Socket {
    /// Makes a socket from a connection.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Socket(stream))
    }

    /// Waits at most `limit` until there is data to read or the client has closed. Returns false if
    /// the time has passed.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        ready(self.0.as_raw_fd(), libc::POLLIN, limit)
    }

    /// Fills `buffer`, and adds received file descriptors to `descriptors`. Returns `Ok(false)` if
    /// the client has closed before the first byte.
    pub fn receive(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
        fill(buffer, |rest| receive_some(self.0.as_raw_fd(), rest, descriptors))
    }

    /// Sends all bytes to the client.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }
}

/// Returns whether a write to the file would not block.
pub fn writable_now(file: &File) -> io::Result<bool> {
    ready(file.as_raw_fd(), libc::POLLOUT, Some(Duration::ZERO))
}

/// Waits at most `limit` for one of these poll events at the descriptor. Returns false if the time
/// has passed, or if a signal has come. Errors and a closed connection always count as events.
fn ready(descriptor: RawFd, events: libc::c_short, limit: Option<Duration>) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: descriptor, events, revents: 0 };
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        // The value is below 10^9, so every type of this field can hold it.
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one `pollfd` and a timespec (or null), both valid until the call returns; no signal
    // mask.
    match unsafe { libc::ppoll(&mut poll, 1, limit, std::ptr::null()) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        n => Ok(n > 0),
    }
}

/// Buffer for a message's file descriptors, aligned as control messages must be.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; 64]);

// SAFETY: CMSG_SPACE only computes a number.
const _: () = assert!(
    unsafe { libc::CMSG_SPACE((DESCRIPTORS_MAX * size_of::<RawFd>()) as u32) } as usize
        <= size_of::<Control>(),
);

/// Calls `recvmsg` once. Returns the number of bytes received; 0 if the client has closed.
fn receive_some(socket: RawFd, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut control = Control([MaybeUninit::zeroed(); 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is a valid `msghdr`: null pointers and no lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>();
    // SAFETY: the message points to `buffer` and `control` with their lengths; both live and are
    // ours alone until the call returns.
    let received = unsafe { libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `recvmsg` has filled `control` as far as `msg_controllen`, which it set; the macros
    // stay inside. Each descriptor in an SCM_RIGHTS message is new, open and has no other owner, so
    // it can be owned; control data need not be aligned for `RawFd`.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&message);
        while let Some(found) = head.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_RIGHTS {
                let bytes = found.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let data: *const RawFd = libc::CMSG_DATA(head).cast();
                for i in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            head = libc::CMSG_NXTHDR(&message, head);
        }
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 || descriptors.len() > DESCRIPTORS_MAX {
        let text = format!("more than {DESCRIPTORS_MAX} descriptors with a message");
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    Ok(received as usize)
}
