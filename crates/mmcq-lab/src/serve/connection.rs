//! Serves one client of the network block device (NBD) with two threads. One reads the client's
//! requests; the other writes the replies when the thread that executes all operations is done.

use super::disk::{Job, Message, Op, Outcome};
use super::handshake::{ALLOCATION_ID, Agreed, Export, negotiate};
use super::protocol::{self as nbd, Errno, Request, chunk, command, command_flag};
use super::socket::{Socket, first_byte, read_by};
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Size in bytes of the largest request that a client may send.
pub const REQUEST_MAX: u32 = 32 << 20;
/// Largest number of data bytes in a client's requests under way; beyond it, the server reads no
/// further request of this client.
const UNDER_WAY_MAX: u64 = 64 << 20;
/// Largest number of requests that one client may have under way.
const REQUESTS_MAX: u64 = 1024;

/// Time limits for a client: to finish the handshake, to send the rest of a request that it has
/// begun, and to receive a reply.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time limit for the whole handshake of a client.
    handshake: Duration,
    /// Time limit for a client to send the rest of a request, or to receive a reply.
    request: Duration,
    /// Time that is added to the limit of a request or reply for each MiB of its data.
    mib: Duration,
}

impl Patience {
    /// Time limits for a client on a network.
    pub const USUAL: Patience = Patience {
        handshake: Duration::from_secs(10),
        request: Duration::from_secs(10),
        mib: Duration::from_secs(1),
    };
}

/// The numbers of requests and bytes that a client has under way. [`Budget::take`] keeps both below
/// their limits.
#[derive(Default)]
struct Budget {
    used: Mutex<(u64, u64)>,
    freed: Condvar,
}

impl Budget {
    /// Waits until the client's budget has room for a request with this number of bytes, and then
    /// takes this share from it.
    fn take(self: &Arc<Self>, bytes: u64) -> Share {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full =
            |used: &mut (u64, u64)| used.0 >= REQUESTS_MAX || used.1 > 0 && used.1 + bytes > UNDER_WAY_MAX;
        let mut used = self.freed.wait_while(used, full).unwrap_or_else(PoisonError::into_inner);
        *used = (used.0 + 1, used.1 + bytes);
        Share { budget: self.clone(), bytes }
    }
}

/// Share that a request has of its client's [`Budget`]. It is returned when the reply has been
/// written, or when it is clear that there will be no reply.
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

/// A reply that the writing thread must send to the client.
struct Reply {
    bytes: Vec<u8>,
    /// Part of the client's [`Budget`] that the request uses. It is returned when this value is
    /// dropped, after the reply was written.
    _share: Share,
    /// Whether the reply reports to the client that writes were lost.
    refusal: bool,
}

/// A client with its export and the queue of the disk's thread.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    pub client: u64,
    pub export: &'a Export,
    pub disk: &'a Sender<Message>,
    pub patience: Patience,
}

/// Serves a client until the client disconnects. The caller must then close the connection. An
/// error is the reason why the server ended the connection.
pub fn serve(socket: &mut dyn Socket, peer: Peer<'_>) -> io::Result<()> {
    let Peer { client, disk, .. } = peer;
    // If the disk's thread has ended, no thread needs this message.
    let _ = disk.send(Message::Came(client));
    let result = talk(socket, peer);
    let in_order = matches!(result, Ok(true));
    let _ = disk.send(Message::Left { client, in_order });
    result.map(drop)
}

/// Exchanges messages with the client. Returns `Ok(true)` if the client ended the connection by a
/// disconnect request.
fn talk(socket: &mut dyn Socket, peer: Peer<'_>) -> io::Result<bool> {
    let Peer { client, export, disk, patience } = peer;
    socket.write_patience(patience.request)?;
    let Some(agreed) = negotiate(socket, export, patience.handshake)? else { return Ok(true) };
    let (replies, ready) = channel::<Reply>();
    let budget = Arc::new(Budget::default());
    let mut out = socket.twin()?;
    let writer = {
        let disk = disk.clone();
        std::thread::spawn(move || {
            let mut broken = false;
            for reply in ready {
                if !broken && out.write_all(&reply.bytes).is_err() {
                    // The reading thread notices the closed socket; replies to requests under way
                    // are dropped.
                    broken = true;
                    out.close();
                }
                if reply.refusal && !broken {
                    let _ = disk.send(Message::RefusalWritten(client));
                }
            }
        })
    };
    let result = requests(socket, peer, agreed, &replies, &budget);
    // The writing thread ends when the last job has dropped its sender.
    drop(replies);
    let _ = writer.join();
    result
}

fn requests(
    socket: &mut dyn Socket,
    peer: Peer<'_>,
    agreed: Agreed,
    replies: &Sender<Reply>,
    budget: &Arc<Budget>,
) -> io::Result<bool> {
    let Peer { client, export, disk, patience } = peer;
    let refuse = |bytes, share| {
        // The writing thread lives as long as this sender.
        let _ = replies.send(Reply { bytes, _share: share, refusal: false });
    };
    loop {
        let Some(first) = first_byte(socket)? else { return Ok(false) };
        let began = Instant::now();
        let mut head = [0; Request::BYTES];
        head[0] = first;
        if !read_by(socket, &mut head[1..], began + patience.request)? {
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
            // The data of a too long write are not read just to skip them.
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let bytes = match request.command {
            command::READ => u64::from(request.length.min(REQUEST_MAX)),
            _ => u64::from(payload),
        };
        let share = budget.take(bytes);
        let mut data = vec![0; payload as usize];
        let limit = patience.request + patience.mib * (payload >> 20);
        if payload > 0 && !read_by(socket, &mut data, Instant::now() + limit)? {
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
            // A client that has disconnected gets no reply.
            let _ = replies.send(reply);
        });
        if disk.send(Message::Job(Job { client, op, done })).is_err() {
            return Err(io::Error::new(ErrorKind::BrokenPipe, "the server ends"));
        }
    }
}

/// Returns the disk operation that a request asks for, or the error to reply if the request is not
/// allowed.
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
        // A client may force every command, although only writes have something to force.
        command::BLOCK_STATUS => command_flag::FUA | command_flag::REQUEST_ONE,
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
    // With structured replies, reads and block status must be answered by chunks. Errors of other
    // commands may be, and then carry a readable text.
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
                // Flags of a hole: it is not allocated, and it reads as zeros.
                out.extend(if hole { 3u32 } else { 0 }.to_be_bytes());
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    const EXPORT: Export = Export {
        name: String::new(),
        bytes: 4 << 20,
        read_only: false,
        trims: false,
        request_max: REQUEST_MAX,
    };
    const HOUR: Duration = Duration::from_secs(3600);
    /// Time limits that no test reaches.
    const LONG: Patience = Patience { handshake: HOUR, request: HOUR, mib: HOUR };
    /// Time limit of a read that must return only what has already arrived.
    const SHORT: Duration = Duration::from_millis(1);

    /// Makes a client that has sent nothing yet. Also returns the thread that serves its
    /// connection, whose result says how the connection ended.
    fn silent(disk: Sender<Message>, patience: Patience) -> (UnixStream, JoinHandle<io::Result<()>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let connection = std::thread::spawn(move || {
            serve(&mut theirs, Peer { client: 0, export: &EXPORT, disk: &disk, patience })
        });
        (ours, connection)
    }

    /// Makes a client that has finished its negotiation. Also returns the thread that serves its
    /// connection, whose result says how the connection ended.
    fn client(disk: Sender<Message>, patience: Patience) -> (UnixStream, JoinHandle<io::Result<()>>) {
        let (mut ours, connection) = silent(disk, patience);
        ours.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without zeros, then the export by its empty name.
        ours.write_all(&3u32.to_be_bytes()).unwrap();
        ours.write_all(&[nbd::OPTION_MAGIC.to_be_bytes().as_slice(), &[0, 0, 0, 1, 0, 0, 0, 0]].concat())
            .unwrap();
        ours.read_exact(&mut [0; 10]).unwrap();
        (ours, connection)
    }

    fn request(command: u16, length: u32) -> Vec<u8> {
        let mut bytes = nbd::REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([[0; 2], command.to_be_bytes()].concat());
        bytes.extend([0; 16]);
        bytes.extend(length.to_be_bytes());
        bytes
    }

    /// Checks that no connection waits for ever when the disk has ended or drops jobs.
    #[test]
    fn a_job_that_is_dropped_gives_its_share_back() {
        let _alive = watchdog::watch();
        let (disk, messages) = channel();
        let (mut socket, connection) = client(disk, LONG);
        let dropped = std::thread::spawn(move || {
            messages.iter().filter(|message| matches!(message, Message::Job(_))).count() as u64
        });
        for _ in 0..REQUESTS_MAX + 10 {
            socket.write_all(&request(command::READ, 512)).unwrap();
        }
        socket.write_all(&request(command::DISCONNECT, 0)).unwrap();
        connection.join().unwrap().unwrap();
        assert_eq!(dropped.join().unwrap(), REQUESTS_MAX + 10);
    }

    /// Checks that a write which is too long ends the connection. Its refusal is sent before the
    /// write has taken a share of the budget, so the refusal must not return a share.
    #[test]
    fn a_write_that_is_too_long_ends_the_connection() {
        let _alive = watchdog::watch();
        for _ in 0..200 {
            let (disk, _messages) = channel();
            let (mut socket, connection) = client(disk, LONG);
            socket.write_all(&request(command::WRITE, REQUEST_MAX + 512)).unwrap();
            assert_eq!(connection.join().unwrap().unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn block_status_may_be_forced() {
        let agreed = Agreed { structured: true, allocation: true };
        let of = |flags: u16| {
            let mut bytes = request(command::BLOCK_STATUS, 512);
            bytes[4..6].copy_from_slice(&flags.to_be_bytes());
            let request = Request::parse(bytes[..].try_into().unwrap()).unwrap();
            operation(&request, Vec::new(), &EXPORT, agreed)
        };
        let forced = of(command_flag::FUA | command_flag::REQUEST_ONE);
        assert!(matches!(forced, Ok(Op::Status { offset: 0, length: 512, one: true })));
        assert!(matches!(of(command_flag::NO_HOLE), Err((Errno::Invalid, _))));
    }

    /// Returns whether the server ended the connection because its client was too slow.
    fn sent_away(connection: JoinHandle<io::Result<()>>) -> bool {
        connection.join().unwrap().is_err_and(|error| error.kind() == ErrorKind::TimedOut)
    }

    #[test]
    fn a_handshake_that_stops_is_not_waited_for() {
        let _alive = watchdog::watch();
        let (disk, _messages) = channel();
        let (mut socket, connection) = silent(disk.clone(), Patience { handshake: SHORT, ..LONG });
        assert!(sent_away(connection), "nothing was said");
        // The server's greeting, 18 bytes, was sent before the connection ended.
        socket.read_exact(&mut [0; 18]).unwrap();
        let (mut socket, connection) = silent(disk, Patience { handshake: SHORT, ..LONG });
        let _ = socket.write_all(&3u32.to_be_bytes());
        let _ = socket.write_all(&nbd::OPTION_MAGIC.to_be_bytes());
        assert!(sent_away(connection), "half an option");
    }

    #[test]
    fn a_request_that_stops_is_not_waited_for() {
        let _alive = watchdog::watch();
        let (disk, _messages) = channel();
        let patience = Patience { request: SHORT, ..LONG };
        let write = request(command::WRITE, 4096);
        for sent in [write[..20].to_vec(), [write, vec![0xee; 4095]].concat()] {
            let (mut socket, connection) = client(disk.clone(), patience);
            // The server may have closed the connection already.
            let _ = socket.write_all(&sent);
            assert!(sent_away(connection), "{} bytes", sent.len());
        }
    }

    /// A socket that records the time limit of each read.
    struct Noting(UnixStream, Arc<Mutex<Vec<Option<Duration>>>>);

    impl Read for Noting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Noting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Socket for Noting {
        fn twin(&self) -> io::Result<Box<dyn Socket>> {
            self.0.twin()
        }
        fn patience(&self, limit: Option<Duration>) -> io::Result<()> {
            self.1.lock().unwrap().push(limit);
            Socket::patience(&self.0, limit)
        }
        fn write_patience(&self, limit: Duration) -> io::Result<()> {
            self.0.write_patience(limit)
        }
        fn close(&self) {
            self.0.close();
        }
    }

    #[test]
    fn a_client_may_be_silent_between_requests_and_long_data_have_more_time() {
        let _alive = watchdog::watch();
        let (disk, messages) = channel();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let asked = Arc::<Mutex<Vec<Option<Duration>>>>::default();
        let mut theirs = Noting(theirs, asked.clone());
        let writes = std::thread::spawn(move || {
            ours.write_all(&[request(command::WRITE, 2 << 20), vec![1; 2 << 20]].concat()).unwrap();
            ours.write_all(&request(command::DISCONNECT, 0)).unwrap();
        });
        let agreed = Agreed { structured: false, allocation: false };
        let (replies, _ready) = channel();
        let peer = Peer { client: 0, export: &EXPORT, disk: &disk, patience: LONG };
        assert!(requests(&mut theirs, peer, agreed, &replies, &Arc::default()).unwrap(), "said goodbye");
        writes.join().unwrap();
        assert!(matches!(messages.recv(), Ok(Message::Job(_))));
        let asked = asked.lock().unwrap();
        let begins: Vec<usize> = (0..asked.len()).filter(|&at| asked[at].is_none()).collect();
        let [0, second] = begins[..] else { panic!("{asked:?}") };
        assert!(asked[1].is_some_and(|head| head <= HOUR), "{asked:?}");
        let data: Vec<Duration> = asked[2..second].iter().flatten().copied().collect();
        assert!(data.iter().any(|&data| data > 2 * HOUR) && data.iter().all(|&data| data <= 3 * HOUR));
    }
}
