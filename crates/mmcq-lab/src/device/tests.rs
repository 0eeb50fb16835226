//! Tests the server with a client in the same process, at the other end of a socket pair.

use super::memory::GuestMemory;
use super::pci::{ConfigSpace, DEFAULT_ID};
use super::protocol::{HEADER_BYTES, dma, irqs};
use super::server::{Clock, Ended, Server};
use super::socket::Socket;
use super::{Asked, State};
use crate::board;
use crate::platform::Platform;
use crate::watchdog::{self, Watchdog};
use mmcq_sim::card::{Fill, Medium};
use mmcq_sim::schedule::Schedule;
use mmcq_sim::sdhci::{Sdhci, SdhciConfig};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const DMA_UNMAP: u16 = 3;
const DEVICE_GET_INFO: u16 = 4;
const REGION_INFO: u16 = 5;
const IRQ_INFO: u16 = 7;
const SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const RESET: u16 = 13;
const BAR: u32 = 0;
const CONFIG: u32 = 7;

/// Result of the server when it has ended.
type End = Result<(), String>;

/// Virtual clock: each message takes 1 us, and without a message the time jumps to the next event.
#[derive(Clone, Default)]
struct Steps(Arc<AtomicU64>);

impl Steps {
    fn pass(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for Steps {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait(&self, socket: &Socket, until_ns: Option<u64>) -> std::io::Result<bool> {
        if socket.wait(until_ns.map(|_| Duration::ZERO))? {
            self.pass(1_000);
            return Ok(true);
        }
        self.0.fetch_max(until_ns.unwrap_or(0), Ordering::SeqCst);
        Ok(false)
    }
}

struct Client {
    socket: UnixStream,
    server: Option<JoinHandle<End>>,
    outside: Arc<Mutex<State>>,
    time: Steps,
    id: u16,
    _alive: Watchdog,
}

impl Client {
    /// Makes a client that has sent nothing yet.
    fn silent() -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let time = Steps::default();
        let clock = time.clone();
        let outside = Arc::<Mutex<State>>::default();
        let asked = outside.clone();
        let server = std::thread::spawn(move || {
            let platform = Platform::load("generic").unwrap();
            let medium = Medium::sparse(64 << 20, Fill::Zeros).unwrap();
            let (profile, medium) = board::card_with(&platform, None, Some(medium)).unwrap();
            let memory = GuestMemory::default();
            let card = profile.build(medium).unwrap();
            let mut model = Sdhci::new(SdhciConfig::GENERIC_4_20, memory.clone(), Some(card));
            let socket = Socket::new(theirs).unwrap();
            let mut schedule = Schedule::default();
            let slot = (&mut model, &mut schedule, &*asked);
            let config = ConfigSpace::new(DEFAULT_ID, 0x100);
            let server = Server::new(socket, config, slot, memory, clock);
            server.run().map_err(|error: Ended| error.to_string())
        });
        Client { socket, server: Some(server), outside, time, id: 0, _alive: watchdog::watch() }
    }

    /// Makes a client that has agreed on the protocol version.
    fn new() -> Self {
        let mut client = Self::silent();
        let answer = client.ask(VERSION, b"\0\0\0\0{\"capabilities\":{}}\0").unwrap();
        assert_eq!(answer[..4], [0; 4], "0.0");
        assert_eq!(answer.last(), Some(&0));
        let text: serde_json::Value = serde_json::from_slice(&answer[4..answer.len() - 1]).unwrap();
        assert_eq!(text["capabilities"]["max_msg_fds"], 8);
        client
    }

    fn message(&mut self, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
        self.id += 1;
        let mut out = [self.id.to_ne_bytes(), command.to_ne_bytes()].concat();
        out.extend(words(&[(HEADER_BYTES + payload.len()) as u32, flags, 0]));
        out.extend_from_slice(payload);
        out
    }

    /// Sends a request. Returns the payload of the answer, or its error number.
    fn ask(&mut self, command: u16, payload: &[u8]) -> Result<Vec<u8>, u32> {
        let message = self.message(command, 0, payload);
        self.socket.write_all(&message).unwrap();
        self.answer()
    }

    fn ask_with(&mut self, command: u16, payload: &[u8], file: &impl AsRawFd) -> Result<Vec<u8>, u32> {
        let message = self.message(command, 0, payload);
        send_with(&self.socket, &message, &[file.as_raw_fd()]);
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<u8>, u32> {
        let mut header = [0; HEADER_BYTES];
        self.socket.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(header[..2], self.id.to_ne_bytes());
        let mut payload = vec![0; word(4) as usize - HEADER_BYTES];
        self.socket.read_exact(&mut payload).unwrap();
        match word(8) {
            1 => Ok(payload),
            0x21 => Err(word(12)),
            other => panic!("flags {other:#x}"),
        }
    }

    fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<u32, u32> {
        let answer = self.ask(REGION_READ, &access(region, offset, count, &[]))?;
        let mut value = [0; 4];
        value[..count as usize].copy_from_slice(&answer[16..]);
        Ok(u32::from_le_bytes(value))
    }

    fn write(&mut self, region: u32, offset: u64, count: u32, value: u32) -> Result<(), u32> {
        let data = &value.to_le_bytes()[..count as usize];
        self.ask(REGION_WRITE, &access(region, offset, count, data)).map(drop)
    }

    /// Reads a register until its value under `mask` is `wanted`; virtual time passes meanwhile.
    /// Returns the last value.
    fn until(&mut self, offset: u64, mask: u32, wanted: u32) -> u32 {
        self.when(offset, |value| value & mask == wanted)
    }

    fn when(&mut self, offset: u64, so: impl Fn(u32) -> bool) -> u32 {
        let end_ns = self.time.now_ns() + 2_000_000_000;
        loop {
            let value = self.read(BAR, offset, 4).unwrap();
            if so(value) {
                return value;
            }
            assert!(self.time.now_ns() < end_ns, "register {offset:#x} stays {value:#x}");
        }
    }

    fn end(mut self) -> End {
        drop(self.socket);
        self.server.take().unwrap().join().expect("the server must not panic")
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn access(region: u32, offset: u64, count: u32, data: &[u8]) -> Vec<u8> {
    [&offset.to_ne_bytes()[..], &words(&[region, count]), data].concat()
}

fn map(offset: u64, address: u64, bytes: u64) -> Vec<u8> {
    let mut payload = words(&[32, dma::READ | dma::WRITE]);
    payload.extend([offset, address, bytes].iter().flat_map(|field| field.to_ne_bytes()));
    payload
}

fn send_with(socket: &UnixStream, bytes: &[u8], descriptors: &[i32]) {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 32];
    let size = size_of_val(descriptors);
    // SAFETY: zeros are a valid `msghdr`; it points to `bytes` and to `control`, which has room for
    // so few descriptors and lives through the call.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size as u32) as usize;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size as u32) as usize;
        let data = libc::CMSG_DATA(head).cast::<i32>();
        for (i, descriptor) in descriptors.iter().enumerate() {
            data.add(i).write_unaligned(*descriptor);
        }
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &message, 0), bytes.len() as isize);
    }
}

#[test]
fn a_client_learns_what_the_device_has() {
    let mut client = Client::new();
    assert_eq!(client.ask(DEVICE_GET_INFO, &words(&[16, 0, 0, 0])), Ok(words(&[16, 3, 9, 5])));
    for (region, flags, bytes) in [(0, 3, 256u64), (1, 0, 0), (6, 0, 0), (7, 3, 256), (8, 0, 0)] {
        let answer = client.ask(REGION_INFO, &words(&[32, 0, region, 0, 0, 0, 0, 0])).unwrap();
        let expected = [&words(&[32, flags, region, 0])[..], &bytes.to_ne_bytes(), &[0; 8]].concat();
        assert_eq!(answer, expected, "{region}");
    }
    assert!(client.ask(REGION_INFO, &words(&[32, 0, 9, 0, 0, 0, 0, 0])).is_err());
    assert_eq!(client.ask(IRQ_INFO, &words(&[16, 0, 0, 0])), Ok(words(&[16, 7, 0, 1])), "a pin");
    assert_eq!(client.ask(IRQ_INFO, &words(&[16, 0, 1, 0])), Ok(words(&[16, 0, 1, 0])), "no MSI");
    assert_eq!(client.read(CONFIG, 0, 4), Ok(0x0007_1b36));
    assert_eq!(client.end(), Ok(()));
}

#[test]
fn regions_answer_inside_and_refuse_outside() {
    let mut client = Client::new();
    assert_eq!(client.read(BAR, 0xfe, 2), Ok(0xffff), "memory space is off");
    client.write(CONFIG, 4, 2, 6).unwrap();
    let caps = SdhciConfig::GENERIC_4_20.capabilities;
    assert_eq!(client.read(BAR, 0x40, 4), Ok(caps));
    assert_eq!(client.read(BAR, 0x42, 2), Ok(caps >> 16));
    let wide = client.ask(REGION_READ, &access(BAR, 0x40, 8, &[])).unwrap();
    assert_eq!(wide[16..20], caps.to_le_bytes());
    for (region, offset) in
        [(BAR, 0xfd), (BAR, 0x100), (BAR, u64::MAX), (CONFIG, 0xfe), (CONFIG, 4096), (1, 0), (99, 0)]
    {
        assert!(client.read(region, offset, 4).is_err(), "{region} {offset:#x}");
        assert!(client.write(region, offset, 4, 0).is_err(), "{region} {offset:#x}");
    }
    client.ask(RESET, &[]).unwrap();
    assert_eq!(client.read(CONFIG, 4, 2), Ok(0));
    assert!(client.ask(14, &[]).is_err(), "no dirty pages");
    assert_eq!(client.end(), Ok(()));
}

/// Makes an eventfd that the client reads.
fn eventfd() -> File {
    use std::os::fd::FromRawFd;
    // SAFETY: a new descriptor without another owner.
    unsafe { File::from(OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK))) }
}

fn told(event: &mut File) -> bool {
    event.read(&mut [0; 8]).is_ok()
}

/// Waits until the server has notified the client through the eventfd.
fn hear(event: &mut File) {
    let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one `pollfd`, which lives through the call.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, -1) }, 1);
    assert!(told(event));
}

/// Starts the controller: bus clock at 400 kHz, power, all interrupts.
fn start(client: &mut Client) {
    client.write(CONFIG, 4, 2, 6).unwrap();
    client.write(BAR, 0x2c, 2, 0xfa01).unwrap();
    client.until(0x2c, 2, 2);
    client.write(BAR, 0x2c, 2, 0xfa05).unwrap();
    client.write(BAR, 0x29, 1, 0x0f).unwrap();
    client.write(BAR, 0x34, 4, 0xffff_ffff).unwrap();
    client.write(BAR, 0x38, 4, 0xffff_ffff).unwrap();
    client.time.pass(2_000_000);
}

#[test]
fn the_pin_tells_masks_itself_and_tells_again() {
    let mut client = Client::new();
    let mut event = eventfd();
    let trigger = words(&[20, irqs::DATA_EVENTFD | irqs::TRIGGER, 0, 0, 1]);
    client.ask_with(SET_IRQS, &trigger, &event).unwrap();
    start(&mut client);
    assert!(!told(&mut event));
    // CMD0 completes in the server, which notifies the client only then; the client asks nothing
    // meanwhile.
    client.write(BAR, 0x0e, 2, 0).unwrap();
    hear(&mut event);
    assert_eq!(client.read(BAR, 0x30, 4), Ok(1), "command complete");
    let unmask = words(&[20, irqs::DATA_NONE | irqs::UNMASK, 0, 0, 1]);
    assert!(!told(&mut event), "masked");
    client.ask(SET_IRQS, &unmask).unwrap();
    assert!(told(&mut event), "still high");
    let mut status = client.read(CONFIG, 6, 2).unwrap();
    assert_eq!(status & 8, 8);
    client.write(BAR, 0x30, 4, 1).unwrap();
    client.ask(SET_IRQS, &unmask).unwrap();
    assert!(!told(&mut event));
    status = client.read(CONFIG, 6, 2).unwrap();
    assert_eq!(status & 8, 0);
    // Requests for interrupts or actions that do not exist.
    for bad in [
        words(&[20, irqs::DATA_NONE | irqs::UNMASK, 1, 0, 1]),
        words(&[20, irqs::DATA_NONE | irqs::UNMASK, 0, 1, 1]),
        words(&[20, irqs::DATA_NONE | irqs::UNMASK, 0, u32::MAX, 2]),
        words(&[20, irqs::DATA_BOOL | irqs::TRIGGER, 0, 0, 1]),
        words(&[20, irqs::DATA_EVENTFD | irqs::MASK, 0, 0, 1]),
        words(&[20, 0x3f, 0, 0, 1]),
    ] {
        assert!(client.ask(SET_IRQS, &bad).is_err(), "{bad:?}");
    }
    assert_eq!(client.end(), Ok(()));
}

#[test]
fn dma_goes_to_the_memory_that_the_client_passed() {
    let mut client = Client::new();
    start(&mut client);
    let memory = tempfile::tempfile().unwrap();
    memory.set_len(0x2000).unwrap();
    memory.write_all_at(&[0x55; 0x2000], 0).unwrap();
    assert_eq!(client.ask(DMA_MAP, &map(0, 0x9000, 0x1000)), Ok(vec![]), "memory without a descriptor");
    assert_eq!(client.ask_with(DMA_MAP, &map(0x1000, 0x8000, 0x1000), &memory), Ok(vec![]));
    assert!(client.ask_with(DMA_MAP, &map(0, 0x8800, 0x1000), &memory).is_err(), "overlaps");
    let command = |client: &mut Client, index: u32, flags: u32, mode: u32, argument: u32| -> u32 {
        client.write(BAR, 8, 4, argument).unwrap();
        client.write(BAR, 0x0c, 4, index << 24 | flags << 16 | mode).unwrap();
        let status = client.until(0x30, 1, 1);
        assert_eq!(status & 0xffff_8000, 0, "CMD{index}: {status:#x}");
        client.write(BAR, 0x30, 4, status & !2).unwrap();
        client.read(BAR, 0x10, 4).unwrap()
    };
    // CMD0, CMD8, ACMD41, CMD2, CMD3 and CMD7 bring the card to the transfer state.
    command(&mut client, 0, 0x00, 0, 0);
    command(&mut client, 8, 0x1a, 0, 0x1aa);
    let end_ns = client.time.now_ns() + 1_000_000_000;
    loop {
        command(&mut client, 55, 0x1a, 0, 0);
        if command(&mut client, 41, 0x02, 0, 0x4030_0000) >> 31 == 1 {
            break;
        }
        assert!(client.time.now_ns() < end_ns, "the card is busy for ever");
    }
    command(&mut client, 2, 0x09, 0, 0);
    let rca = command(&mut client, 3, 0x1a, 0, 0) & 0xffff_0000;
    command(&mut client, 7, 0x1b, 0, rca);
    let status = client.until(0x30, 2, 2);
    client.write(BAR, 0x30, 4, status).unwrap();
    // CMD17 by SDMA to the second half of the memory page.
    client.write(BAR, 0, 4, 0x8800).unwrap();
    client.write(BAR, 4, 4, 0x0001_7200).unwrap();
    command(&mut client, 17, 0x3a, 0x13, 0x600);
    client.until(0x30, 2, 2);
    let mut page = [0; 0x1000];
    memory.read_exact_at(&mut page, 0x1000).unwrap();
    assert!(page[..0x800].iter().chain(&page[0xa00..]).all(|&byte| byte == 0x55), "elsewhere");
    assert!(page[0x800..0xa00].iter().all(|&byte| byte == 0), "the card's block");
    let unmap = [&words(&[24, 0])[..], &0x8000u64.to_ne_bytes(), &0x1000u64.to_ne_bytes()].concat();
    assert_eq!(client.ask(DMA_UNMAP, &unmap), Ok(unmap));
    assert_eq!(client.end(), Ok(()));
}

/// Checks that the server ends with this error when a client sends these bytes first.
fn refused(bytes: &[u8], expected: &str) {
    let mut client = Client::silent();
    client.socket.write_all(bytes).unwrap();
    client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    let error = client.end().unwrap_err();
    assert!(error.contains(expected) && !error.contains('\n'), "{error:?} does not say {expected:?}");
}

#[test]
fn a_client_that_breaks_the_protocol_is_left_with_one_line() {
    let mut client = Client::silent();
    let read = client.message(REGION_READ, 0, &access(BAR, 0, 4, &[]));
    drop(client);
    refused(&read, "expected VERSION first");
    refused(&[0xff; 64], "size 4294967295: expected 16 to 65536");
    refused(&[1, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "size 4: expected 16");
    refused(&[1, 0, 1, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "expected a request");
    refused(&[1, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0], "version 7.1: expected 0.x");
    refused(&[1, 0, 1, 0, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "2 bytes of payload");
    refused(&[1, 0, 1], "client: ");
    refused(&[1, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "client: ");
    let mut client = Client::new();
    let files: Vec<File> = (0..12).map(|_| tempfile::tempfile().unwrap()).collect();
    let descriptors: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let message = client.message(DMA_MAP, 0, &map(0, 0, 0x1000));
    send_with(&client.socket, &message, &descriptors);
    let error = client.end().unwrap_err();
    assert!(error.contains("more than 8 descriptors"), "{error}");
}

#[test]
fn any_bytes_after_the_greeting_do_no_harm() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..40 {
        let mut client = Client::new();
        for _ in 0..100 {
            // Commands and sizes are valid, payloads are random. The client does not wait for
            // answers.
            let payload: Vec<u8> = (0..random() % 48).map(|_| (random() & random()) as u8).collect();
            let message = client.message((random() % 16).max(2) as u16, 1 << 4, &payload);
            if client.socket.write_all(&message).is_err() {
                break;
            }
        }
        // The server must end: because the client closed, or with one line about what was wrong.
        if let Err(error) = client.end() {
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

#[test]
fn a_card_is_taken_out_and_put_in_from_outside_and_loses_its_supply() {
    let mut client = Client::new();
    client.write(CONFIG, 4, 2, 6).unwrap();
    // Switches power and a 400 kHz clock on, and sends CMD8. True: the card answered.
    client.write(BAR, 0x34, 4, u32::MAX).unwrap();
    let answers = |client: &mut Client| {
        client.write(BAR, 0x29, 1, 0x0f).unwrap();
        client.write(BAR, 0x2c, 2, 0xfa01).unwrap();
        client.until(0x2c, 2, 2);
        client.write(BAR, 0x2c, 2, 0xfa05).unwrap();
        client.time.pass(5_000_000);
        client.write(BAR, 0x2f, 1, 6).unwrap();
        client.until(0x2c, 0x600_0000, 0);
        client.write(BAR, 0x30, 4, u32::MAX).unwrap();
        client.write(BAR, 0x08, 4, 0x1aa).unwrap();
        client.write(BAR, 0x0e, 2, 0x081a).unwrap();
        client.when(0x30, |status| status & 0x1_0001 != 0) & 0x1_0000 == 0
    };
    assert!(answers(&mut client));
    for (asked, inserted) in [(Asked::Swap, 0), (Asked::Swap, 0x1_0000)] {
        State::of(&client.outside).asked.push(asked);
        client.until(0x24, 0x1_0000, inserted);
        assert_eq!(answers(&mut client), inserted != 0);
    }
    State::of(&client.outside).asked.push(Asked::Cut);
    assert!(answers(&mut client), "it is in idle, and has supply again");
    assert_eq!(client.end(), Ok(()));
}
