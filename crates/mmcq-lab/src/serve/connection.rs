//! One client from hello to goodbye: a thread that reads requests, and one that writes replies as
//! jobs end.

use super::disk::{Job, Message, Op, Outcome};
use super::handshake::{ALLOCATION_ID, Agreed, Export, negotiate};
use super::protocol::{self as nbd, Errno, Request, chunk, command, command_flag};
use super::socket::{Socket, first_byte, read_by};
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Largest request.
pub const REQUEST_MAX: u32 = 32 << 20;
/// Bytes of requests of a client under way; it waits before it may send more.
const UNDER_WAY_MAX: u64 = 64 << 20;
/// Requests of a client under way.
const REQUESTS_MAX: u64 = 1024;
/// A request that has begun must be here after this, and ...
const PATIENCE: Duration = Duration::from_secs(10);
/// ... a bit more for each MiB.
const PATIENCE_MIB: Duration = Duration::from_secs(1);

/// What a client has under way.
#[derive(Default)]
struct Budget {
    used: Mutex<(u64, u64)>,
    freed: Condvar,
}

impl Budget {
    /// A request's share, as soon as there is room for it.
    fn take(self: &Arc<Self>, bytes: u64) -> Share {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full =
            |used: &mut (u64, u64)| used.0 >= REQUESTS_MAX || used.1 > 0 && used.1 + bytes > UNDER_WAY_MAX;
        let mut used = self.freed.wait_while(used, full).unwrap_or_else(PoisonError::into_inner);
        *used = (used.0 + 1, used.1 + bytes);
        Share { budget: self.clone(), bytes }
    }
}

/// What a request has taken; given back when its reply has been written, or when there will be
/// none.
struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = (used.0 - 1, used.1 - self.bytes);
        self.budget.freed.notify_all();
    }
}

/// What goes to the client.
struct Reply {
    bytes: Vec<u8>,
    /// Given back when it has been written.
    _share: Share,
    /// It is the news of a loss.
    refusal: bool,
}

/// Serves a client to its end. An error is why the connection was ended from this side.
pub fn serve(
    mut socket: Box<dyn Socket>,
    client: u64,
    export: &Export,
    disk: &Sender<Message>,
) -> io::Result<()> {
    // A disk that has ended has nothing to tell.
    let _ = disk.send(Message::Came(client));
    let result = talk(&mut *socket, client, export, disk);
    let in_order = matches!(result, Ok(true));
    let _ = disk.send(Message::Left { client, in_order });
    socket.close();
    result.map(drop)
}

/// The conversation. `Ok(true)`: the client ended it by saying so.
fn talk(socket: &mut dyn Socket, client: u64, export: &Export, disk: &Sender<Message>) -> io::Result<bool> {
    socket.write_patience(PATIENCE)?;
    let Some(agreed) = negotiate(socket, export)? else { return Ok(true) };
    let (replies, ready) = channel::<Reply>();
    let budget = Arc::new(Budget::default());
    let mut out = socket.twin()?;
    let writer = {
        let disk = disk.clone();
        std::thread::spawn(move || {
            let mut broken = false;
            for reply in ready {
                if !broken && out.write_all(&reply.bytes).is_err() {
                    // The reader finds out by itself; what is under way ends unheard.
                    broken = true;
                    out.close();
                }
                if reply.refusal && !broken {
                    let _ = disk.send(Message::RefusalWritten(client));
                }
            }
        })
    };
    let result = requests(socket, client, export, agreed, disk, &replies, &budget);
    // The writer ends when the last job has.
    drop(replies);
    let _ = writer.join();
    result
}

fn requests(
    socket: &mut dyn Socket,
    client: u64,
    export: &Export,
    agreed: Agreed,
    disk: &Sender<Message>,
    replies: &Sender<Reply>,
    budget: &Arc<Budget>,
) -> io::Result<bool> {
    let refuse = |bytes, share| {
        // The writer lives as long as this sender.
        let _ = replies.send(Reply { bytes, _share: share, refusal: false });
    };
    loop {
        let Some(first) = first_byte(socket)? else { return Ok(false) };
        let began = Instant::now();
        let mut head = [0; Request::BYTES];
        head[0] = first;
        if !read_by(socket, &mut head[1..], began + PATIENCE)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let Some(request) = Request::parse(&head) else {
            return Err(io::Error::new(ErrorKind::InvalidData, "not a request"));
        };
        if request.command == command::DISCONNECT {
            return Ok(true);
        }
        let structured = agreed.structured;
        let payload = if request.command == command::WRITE { request.length } else { 0 };
        if payload > REQUEST_MAX {
            let text = format!("a write of {payload} bytes, {REQUEST_MAX} at most");
            refuse(refusal(&request, structured, Errno::Invalid, &text), budget.take(0));
            // Gigabytes are not read to be thrown away.
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let bytes = match request.command {
            command::READ => u64::from(request.length.min(REQUEST_MAX)),
            _ => u64::from(payload),
        };
        let share = budget.take(bytes);
        let mut data = vec![0; payload as usize];
        let patience = PATIENCE + PATIENCE_MIB * (payload >> 20);
        if payload > 0 && !read_by(socket, &mut data, Instant::now() + patience)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let op = match operation(&request, data, export, agreed) {
            Ok(op) => op,
            Err((errno, text)) => {
                refuse(refusal(&request, structured, errno, text), share);
                continue;
            }
        };
        let replies = replies.clone();
        let done = Box::new(move |outcome| {
            let refusal = matches!(outcome, Outcome::Lost(_));
            let reply = Reply { bytes: reply(&request, structured, outcome), _share: share, refusal };
            // A client that has gone away is told nothing.
            let _ = replies.send(reply);
        });
        if disk.send(Message::Job(Job { client, op, done })).is_err() {
            return Err(io::Error::new(ErrorKind::BrokenPipe, "the server ends"));
        }
    }
}

/// What a request asks of the disk, if it may.
fn operation(
    request: &Request,
    data: Vec<u8>,
    export: &Export,
    agreed: Agreed,
) -> Result<Op, (Errno, &'static str)> {
    let Request { flags, command: asked, offset, length, .. } = *request;
    let writes = matches!(asked, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    let allowed = match asked {
        command::READ | command::FLUSH => command_flag::FUA,
        command::WRITE | command::TRIM => command_flag::FUA,
        command::WRITE_ZEROES => command_flag::FUA | command_flag::NO_HOLE,
        command::BLOCK_STATUS => command_flag::REQUEST_ONE,
        _ => return Err((Errno::Invalid, "an unknown command")),
    };
    if flags & !allowed != 0 {
        return Err((Errno::Invalid, "flags that this command does not have"));
    }
    if writes && export.read_only {
        return Err((Errno::Permission, "the export is read-only"));
    }
    let durable = flags & command_flag::FUA != 0;
    if asked == command::FLUSH {
        return match (offset, length) {
            (0, 0) => Ok(Op::Flush),
            _ => Err((Errno::Invalid, "a flush has no range")),
        };
    }
    if length == 0 {
        return Err((Errno::Invalid, "a range of no bytes"));
    }
    if offset % 512 != 0 || length % 512 != 0 {
        return Err((Errno::Invalid, "not a range of whole blocks of 512 bytes"));
    }
    if offset.checked_add(u64::from(length)).is_none_or(|end| end > export.bytes) {
        let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
        return Err((errno, "beyond the end of the export"));
    }
    match asked {
        command::READ if length > REQUEST_MAX => Err((Errno::Invalid, "a read of 32 MiB at most")),
        command::READ => Ok(Op::Read { offset, length }),
        command::WRITE => Ok(Op::Write { offset, data, durable }),
        command::TRIM => Ok(Op::Trim { offset, length, durable }),
        command::WRITE_ZEROES => {
            Ok(Op::Zeros { offset, length, hole: flags & command_flag::NO_HOLE == 0, durable })
        }
        _ if !agreed.allocation => Err((Errno::Invalid, "no context of block status was agreed on")),
        _ => Ok(Op::Status { offset, length, one: flags & command_flag::REQUEST_ONE != 0 }),
    }
}

fn refusal(request: &Request, structured: bool, errno: Errno, text: &str) -> Vec<u8> {
    // With structured replies on, reads and block status must have them; others may, and people
    // like to read why.
    match structured {
        true => nbd::error_chunk(request.cookie, errno, text),
        false => nbd::simple_reply(request.cookie, Some(errno)),
    }
}

fn reply(request: &Request, structured: bool, outcome: Outcome) -> Vec<u8> {
    let cookie = request.cookie;
    match outcome {
        Outcome::Failed(errno, text) => refusal(request, structured, errno, &text),
        Outcome::Lost(text) => refusal(request, structured, Errno::Io, &text),
        Outcome::Done if structured => nbd::chunk_head(chunk::DONE, chunk::NONE, cookie, 0),
        Outcome::Done => nbd::simple_reply(cookie, None),
        Outcome::Data(data) if structured => {
            let mut out = nbd::chunk_head(chunk::DONE, chunk::OFFSET_DATA, cookie, 8 + data.len());
            out.extend(request.offset.to_be_bytes());
            out.extend(data);
            out
        }
        Outcome::Data(data) => {
            let mut out = nbd::simple_reply(cookie, None);
            out.extend(data);
            out
        }
        Outcome::Extents(ranges) => {
            let mut out = nbd::chunk_head(chunk::DONE, chunk::BLOCK_STATUS, cookie, 4 + 8 * ranges.len());
            out.extend(ALLOCATION_ID.to_be_bytes());
            for (bytes, hole) in ranges {
                out.extend(bytes.to_be_bytes());
                // A hole, and it reads as zeros.
                out.extend(if hole { 3u32 } else { 0 }.to_be_bytes());
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    const EXPORT_BYTES: u64 = 1 << 20;

    /// A client that has finished its negotiation, and how its connection ended.
    fn client(disk: Sender<Message>) -> (UnixStream, std::sync::mpsc::Receiver<bool>) {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (ended, end) = channel();
        std::thread::spawn(move || {
            let export = Export {
                name: String::new(),
                bytes: EXPORT_BYTES,
                read_only: false,
                trims: false,
                request_max: REQUEST_MAX,
            };
            let _ = ended.send(serve(Box::new(theirs), 0, &export, &disk).is_ok());
        });
        ours.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without zeros, then the export by its empty name.
        ours.write_all(&3u32.to_be_bytes()).unwrap();
        ours.write_all(&[nbd::OPTION_MAGIC.to_be_bytes().as_slice(), &[0, 0, 0, 1, 0, 0, 0, 0]].concat())
            .unwrap();
        ours.read_exact(&mut [0; 10]).unwrap();
        (ours, end)
    }

    fn request(command: u16, length: u32) -> Vec<u8> {
        let mut bytes = nbd::REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([[0; 2], command.to_be_bytes()].concat());
        bytes.extend([0; 16]);
        bytes.extend(length.to_be_bytes());
        bytes
    }

    /// The disk has ended, or drops what it cannot do: no connection waits for answers that never
    /// come.
    #[test]
    fn a_job_that_is_dropped_gives_its_share_back() {
        let (disk, messages) = channel();
        let (mut socket, end) = client(disk);
        let dropped = std::thread::spawn(move || {
            messages.iter().filter(|message| matches!(message, Message::Job(_))).count() as u64
        });
        for _ in 0..REQUESTS_MAX + 10 {
            socket.write_all(&request(command::READ, 512)).unwrap();
        }
        socket.write_all(&request(command::DISCONNECT, 0)).unwrap();
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(true), "the connection hangs");
        assert_eq!(dropped.join().unwrap(), REQUESTS_MAX + 10);
    }

    /// A refusal that is sent before its share is taken may give back what was never taken.
    #[test]
    fn a_write_that_is_too_long_ends_the_connection() {
        for _ in 0..200 {
            let (disk, _messages) = channel();
            let (mut socket, end) = client(disk);
            socket.write_all(&request(command::WRITE, REQUEST_MAX + 512)).unwrap();
            assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(false), "the connection hangs");
        }
    }
}
