//! Fixed newstyle negotiation of NBD: the options of a client before it reads and writes.

use super::protocol::{self as nbd, answer, flag, info, option};
use super::socket::{Socket, read_by};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Largest number of options that a client may send.
const OPTIONS_MAX: usize = 64;
/// Largest size in bytes of the data of a client's option.
const DATA_MAX: u32 = 8192;
/// Name of the only metadata context that block status supports.
const ALLOCATION: &str = "base:allocation";
/// Number of the metadata context `base:allocation`.
pub const ALLOCATION_ID: u32 = 1;

/// The export (the card as clients see it), with its name, size and abilities.
#[derive(Clone, Debug)]
pub struct Export {
    /// Name of the export; the empty name is accepted, too.
    pub name: String,
    /// Size of the export in bytes.
    pub bytes: u64,
    /// Whether clients may only read the export.
    pub read_only: bool,
    /// Whether a client's trim command reaches the card.
    pub trims: bool,
    /// Size in bytes of the largest request that the server accepts.
    pub request_max: u32,
}

impl Export {
    fn flags(&self) -> u16 {
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::CAN_MULTI_CONN;
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_FUA | flag::SEND_WRITE_ZEROES;
            if self.trims {
                flags |= flag::SEND_TRIM;
            }
        }
        flags
    }
}

/// What server and client have agreed on in the negotiation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// Whether the server sends structured replies (chunks).
    pub structured: bool,
    /// Whether the client may query block status.
    pub allocation: bool,
}

/// Negotiates the options of `export` with a new NBD client. Returns what was agreed; `None` if the
/// client only asked for information, or gave up. A client that has not finished within `limit` is
/// disconnected.
pub fn negotiate(socket: &mut dyn Socket, export: &Export, limit: Duration) -> io::Result<Option<Agreed>> {
    let deadline = Instant::now() + limit;
    let mut hello = nbd::HELLO.to_vec();
    hello.extend(nbd::HANDSHAKE_FLAGS.to_be_bytes());
    socket.write_all(&hello)?;
    let mut flags = [0; 4];
    if !read_by(socket, &mut flags, deadline)? {
        return Ok(None);
    }
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(nbd::HANDSHAKE_FLAGS) != 0 || flags & 1 == 0 {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("client flags {flags:#x}, expected 1 or 3"),
        ));
    }
    let no_zeroes = flags & 2 != 0;
    let mut agreed = Agreed::default();
    for _ in 0..OPTIONS_MAX {
        let mut head = [0; 16];
        if !read_by(socket, &mut head, deadline)? {
            return Ok(None);
        }
        let (magic, asked, length) = (nbd::be64(&head, 0), nbd::be32(&head, 8), nbd::be32(&head, 12));
        if magic != nbd::OPTION_MAGIC {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("option magic {magic:#018x}")));
        }
        if length > DATA_MAX {
            socket.write_all(&nbd::option_reply(asked, answer::TOO_BIG, b"an option has 8 KiB at most"))?;
            return Err(io::Error::new(ErrorKind::InvalidData, format!("option of {length} bytes")));
        }
        let mut data = vec![0; length as usize];
        if length > 0 && !read_by(socket, &mut data, deadline)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut say = |kind, bytes: &[u8]| socket.write_all(&nbd::option_reply(asked, kind, bytes));
        match asked {
            option::EXPORT_NAME => {
                // This option has no error answer: the server sends the export or closes the
                // connection.
                if !named(export, &data) {
                    return Err(io::Error::new(ErrorKind::NotFound, "unknown export name"));
                }
                let mut reply = export.bytes.to_be_bytes().to_vec();
                reply.extend(export.flags().to_be_bytes());
                reply.resize(reply.len() + if no_zeroes { 0 } else { 124 }, 0);
                socket.write_all(&reply)?;
                return Ok(Some(agreed));
            }
            option::ABORT => {
                say(answer::ACK, &[])?;
                return Ok(None);
            }
            option::LIST if data.is_empty() => {
                let mut name = (export.name.len() as u32).to_be_bytes().to_vec();
                name.extend(export.name.as_bytes());
                say(answer::SERVER, &name)?;
                say(answer::ACK, &[])?;
            }
            option::INFO | option::GO => match info_name(&data) {
                None => say(answer::INVALID, b"malformed")?,
                Some(name) if !named(export, name) => say(answer::UNKNOWN, b"no such export")?,
                Some(_) => {
                    for piece in information(export) {
                        say(answer::INFO, &piece)?;
                    }
                    say(answer::ACK, &[])?;
                    if asked == option::GO {
                        return Ok(Some(agreed));
                    }
                }
            },
            option::STRUCTURED_REPLY if data.is_empty() => {
                agreed.structured = true;
                say(answer::ACK, &[])?;
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                let set = asked == option::SET_META_CONTEXT;
                // A new set replaces the one before, even if it is refused.
                agreed.allocation &= !set;
                match contexts(export, &data) {
                    _ if !agreed.structured => say(answer::INVALID, b"structured replies come first")?,
                    None => say(answer::INVALID, b"malformed")?,
                    Some(None) => say(answer::UNKNOWN, b"no such export")?,
                    Some(Some(queries)) => {
                        let listed = !set && queries.is_empty();
                        let wanted =
                            listed || queries.iter().any(|q| q == ALLOCATION || !set && q == "base:");
                        if wanted {
                            let id = if set { ALLOCATION_ID } else { 0 };
                            let mut context = id.to_be_bytes().to_vec();
                            context.extend(ALLOCATION.as_bytes());
                            say(answer::META_CONTEXT, &context)?;
                        }
                        agreed.allocation |= set && wanted;
                        say(answer::ACK, &[])?;
                    }
                }
            }
            option::LIST | option::STRUCTURED_REPLY => say(answer::INVALID, b"no data expected")?,
            _ => say(answer::UNSUPPORTED, b"not known here")?,
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, "too many options"))
}

fn named(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

/// Returns the export's name in the data of the options `INFO` and `GO`; `None`: the data are
/// invalid. The information requests behind the name are not needed, since the server sends all
/// information.
fn info_name(data: &[u8]) -> Option<&[u8]> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    let name = rest.get(..length)?;
    let (count, asked) = rest.get(length..)?.split_first_chunk::<2>()?;
    (asked.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some(name)
}

fn information(export: &Export) -> [Vec<u8>; 3] {
    let mut size = info::EXPORT.to_be_bytes().to_vec();
    size.extend(export.bytes.to_be_bytes());
    size.extend(export.flags().to_be_bytes());
    let mut name = info::NAME.to_be_bytes().to_vec();
    name.extend(export.name.as_bytes());
    let mut blocks = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [512, 4096, export.request_max] {
        blocks.extend(u32::to_be_bytes(bytes));
    }
    [size, name, blocks]
}

/// Returns the names of the metadata contexts that a client asks for; `Some(None)` if the client
/// asks about another export, `None` if the data are invalid.
#[allow(clippy::option_option, reason = "malformed, of another export, or ours")]
fn contexts(export: &Export, data: &[u8]) -> Option<Option<Vec<String>>> {
    let mut at = data;
    let mut take = |bytes: usize| -> Option<&[u8]> {
        let (now, later) = at.split_at_checked(bytes)?;
        at = later;
        Some(now)
    };
    let length = nbd::be32(take(4)?, 0) as usize;
    let known = named(export, take(length)?);
    let count = nbd::be32(take(4)?, 0);
    let mut queries = Vec::new();
    for _ in 0..count {
        let length = nbd::be32(take(4)?, 0) as usize;
        queries.push(String::from_utf8_lossy(take(length)?).into_owned());
    }
    if !at.is_empty() {
        return None;
    }
    Some(known.then_some(queries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// Returns the bytes by which a client sends the option `number` with these data.
    fn sent(number: u32, data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u32).to_be_bytes();
        [&nbd::OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &length, data].concat()
    }

    /// Returns the data of an option that asks for contexts of the export `name`.
    fn asks(name: &str, query: &str) -> Vec<u8> {
        let length = |text: &str| (text.len() as u32).to_be_bytes();
        let count = 1u32.to_be_bytes();
        [&length(name), name.as_bytes(), &count, &length(query), query.as_bytes()].concat()
    }

    /// Checks that contexts of block status that a client has set do not outlast a further set that
    /// is refused or has other contexts.
    #[test]
    fn a_set_of_contexts_replaces_the_one_before_even_if_it_is_refused() {
        let _alive = watchdog::watch();
        let export =
            Export { name: "card".to_owned(), bytes: 512, read_only: true, trims: false, request_max: 512 };
        let (good, list) = (asks("card", ALLOCATION), option::LIST_META_CONTEXT);
        for (number, second, expected) in [
            (option::SET_META_CONTEXT, good.clone(), true),
            (option::SET_META_CONTEXT, asks("other", ALLOCATION), false),
            (option::SET_META_CONTEXT, asks("card", "qemu:"), false),
            (option::SET_META_CONTEXT, vec![0; 3], false),
            (list, asks("other", ALLOCATION), true),
        ] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let client = [
                3u32.to_be_bytes().to_vec(),
                sent(option::STRUCTURED_REPLY, &[]),
                sent(option::SET_META_CONTEXT, &good),
                sent(number, &second),
                sent(option::EXPORT_NAME, &[]),
            ];
            ours.write_all(&client.concat()).unwrap();
            let agreed = negotiate(&mut theirs, &export, Duration::from_secs(3600)).unwrap().unwrap();
            assert_eq!((agreed.structured, agreed.allocation), (true, expected), "{number}, {second:?}");
            drop(theirs);
            ours.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}
