//! Memory that the laboratory and a program share. C code in `preload/` has the same layout.
//!
//! A head comes first, then a slot for each job. A slot has the ring of requested I/Os, the one
//! command that the job has posted, and the ring of completed I/Os. All is read and written as
//! atomic words, since a program may write anything there. The code that uses a value checks it
//! first.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::standin::{self, Standin};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::thread::futex;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Largest number of paths of the card that a program may have.
pub const FILES_MAX: usize = 64;
/// Largest length in bytes of a path under which a program may open the card.
pub const PATH_BYTES_MAX: usize = 159;
/// Largest number of I/Os that a job has under way. Each has an entry in the job's ring, and a
/// buffer of `CELL_BYTES` for its data.
pub const RING: u32 = 256;
/// Size in bytes of the part of the shared memory that holds the data of one I/O (a cell); longer
/// data stay in the program's memory.
const CELL_BYTES: u32 = 32 << 10;
/// Size in bytes of the longest I/O that a program may request.
pub const IO_BYTES_MAX: u32 = 16 << 20;

const MAGIC: u32 = 0x7163_6d6d;
const FIO: u32 = 1;
const SLOTS_AT: usize = 16384;
const SLOT_BYTES: usize = 24576;
const FILES_AT: usize = 1024;
const FILE_BYTES: usize = 192;
/// Offset in the shared memory of the table that identifies the stand-ins: the folders that stand
/// for the card's files in the kernel.
const STANDINS_AT: usize = FILES_AT + FILES_MAX * FILE_BYTES;
const STANDIN_FDS_AT: usize = STANDINS_AT + FILES_MAX * 3 * 8;
const LOCK_FDS_AT: usize = STANDIN_FDS_AT + FILES_MAX * 3 * 4;
const STANDINS_DEVICE_AT: usize = LOCK_FDS_AT + FILES_MAX * 4;
const PAGE_AT: usize = 64;
const NOW_AT: usize = 88;
const REFUSAL_AT: usize = 96;
const REFUSAL_BYTES: usize = 256;
const IOS_AT: usize = 128;
const ARGUMENT_AT: usize = 8;
const DONE_AT: usize = IOS_AT + RING as usize * 32;
const STATE_FREE: u32 = 0;
const STATE_READY: u32 = 2;
const STATE_KNOWN: u32 = 3;

/// A 32-bit field in the head of the memory that the laboratory and a program share, by its index.
#[derive(Clone, Copy)]
pub enum Word {
    /// Counter that the program increases when a thread is ready to begin as a job.
    Ready = 5,
    /// Not 0 if the program has ended, or if the library that is loaded into the program has
    /// refused an operation of it.
    Over = 6,
    /// Number of jobs that have not ended. fio's own helper thread is not a job and does not count.
    Front = 8,
    /// Number of the program's waits for other processes that advanced the virtual clock before
    /// they ended.
    Polled = 9,
}

/// A field of 32 bits in a job's slot of the shared memory, by its index.
#[derive(Clone, Copy)]
enum Of {
    Posted = 0,
    Kind = 1,
    Head = 4,
    Sleeps = 5,
    Pid = 6,
    Tid = 7,
    State = 8,
    // The words from here on are in a cache line that only the laboratory writes.
    Released = 16,
    DoneHead = 17,
    Heard = 18,
}

/// A command that a job posts for the laboratory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The job waits until this number of its I/Os are done.
    Wait(u64),
    /// The job sleeps until this virtual time in ns.
    Sleep(u64),
    /// The job has ended.
    End,
}

/// Operation of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read data from the card.
    Read,
    /// Write data to the card.
    Write,
    /// Flush: earlier writes must reach the medium.
    Flush,
}

/// I/O as a program requested it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Operation: read, write or flush.
    pub op: Op,
    /// Offset in bytes of the I/O's first byte on the card.
    pub offset: u64,
    /// Length of the I/O in bytes.
    pub bytes: u32,
    /// Address of the data in the program's memory.
    pub address: u64,
    /// Place of the I/O in the ring of requested I/Os of its job.
    pub place: u32,
    /// Whether the data are in the shared memory, in the data cell that belongs to this place in
    /// the ring, and not at `address`.
    pub in_cell: bool,
}

/// A path that the program opens, and the range of bytes of the card that it reads and writes by
/// that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Absolute path by which the program opens this part of the card.
    pub path: String,
    /// Offset in bytes of the range on the card.
    pub start: u64,
    /// Length of the range in bytes.
    pub bytes: u64,
    /// Whether the program sees a block device; otherwise a file.
    pub device: bool,
}

/// Memory that the laboratory and a program share, with a ring of I/Os for each job. Dropping this
/// value frees it.
pub struct Shared {
    words: &'static [AtomicU32],
    longs: &'static [AtomicU64],
    file: File,
    jobs: u32,
    _standins: Vec<Standin>,
}

impl Shared {
    /// Makes shared memory for this number of jobs, and for fio's helper. `of_fio`: the program is
    /// fio.
    ///
    /// # Errors
    /// The system has no memory for it, or cannot make the files' stand-ins.
    pub fn new(jobs: u32, of_fio: bool, parts: &[Part]) -> io::Result<Self> {
        let bytes = SLOTS_AT + (jobs as usize + 1) * (SLOT_BYTES + RING as usize * CELL_BYTES as usize);
        let file = File::from(memfd_create("mmcq", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, bytes as u64)?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping has this size, is aligned to a page, and stays valid until `drop`;
        // all accesses to it are atomic.
        let (words, longs) = unsafe {
            (
                std::slice::from_raw_parts(at.cast::<AtomicU32>(), bytes / 4),
                std::slice::from_raw_parts(at.cast::<AtomicU64>(), bytes / 8),
            )
        };
        let standins = standin::of_files(parts.len().min(FILES_MAX))?;
        for (nth, standin) in standins.iter().enumerate() {
            for (way, folder) in standin.folders.iter().enumerate() {
                let at = nth * 3 + way;
                longs[STANDINS_AT / 8 + at].store(folder.inode, Ordering::Relaxed);
                words[STANDIN_FDS_AT / 4 + at].store(folder.number(), Ordering::Relaxed);
                longs[STANDINS_DEVICE_AT / 8].store(folder.device, Ordering::Relaxed);
            }
            words[LOCK_FDS_AT / 4 + nth].store(standin.locks_number(), Ordering::Relaxed);
        }
        let shared = Shared { words, longs, file, jobs, _standins: standins };
        for (part, at) in parts.iter().take(FILES_MAX).zip((FILES_AT..).step_by(FILE_BYTES)) {
            for (chunk, word) in part.path.as_bytes().chunks(4).zip(at / 4..) {
                let mut bytes = [0; 4];
                bytes[..chunk.len()].copy_from_slice(chunk);
                words[word].store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
            }
            longs[(at + 160) / 8].store(part.start, Ordering::Relaxed);
            longs[(at + 168) / 8].store(part.bytes, Ordering::Relaxed);
            words[(at + 176) / 4].store(part.device.into(), Ordering::Relaxed);
        }
        words[1].store(jobs + 1, Ordering::Relaxed);
        words[2].store(if of_fio { FIO } else { 0 }, Ordering::Relaxed);
        words[3].store(jobs, Ordering::Relaxed);
        words[7].store(std::process::id(), Ordering::Relaxed);
        shared.set_now(0);
        words[0].store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Returns the path at which the program finds the shared memory.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns the slot number of fio's helper thread. Jobs have the slots before it.
    pub fn background(&self) -> u32 {
        self.jobs
    }

    /// Returns a word in the head of the shared memory.
    pub fn word(&self, word: Word) -> &AtomicU32 {
        &self.words[word as usize]
    }

    /// Sets the virtual time that the program sees.
    pub fn set_now(&self, now_ns: u64) {
        let sequence = &self.words[PAGE_AT / 4];
        // Only this function writes the sequence word.
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.longs[PAGE_AT / 8 + 1].store(now_ns / 1_000_000_000, Ordering::Relaxed);
        self.longs[PAGE_AT / 8 + 2].store(now_ns % 1_000_000_000, Ordering::Relaxed);
        sequence.store(before.wrapping_add(2), Ordering::Release);
        self.longs[NOW_AT / 8].store(now_ns, Ordering::Release);
    }

    /// Returns the reason why the program cannot continue, if the program reported one.
    pub fn refusal(&self) -> Option<String> {
        (self.word(Word::Over).load(Ordering::Acquire) == 2).then(|| {
            let words = &self.words[REFUSAL_AT / 4..(REFUSAL_AT + REFUSAL_BYTES) / 4];
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes()).collect();
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        })
    }

    /// Records in the shared memory that the program has ended.
    pub fn ended(&self) {
        let over = self.word(Word::Over);
        // A refusal that was stored before is not overwritten.
        let _ = over.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
        self.wake(over);
        self.wake(self.word(Word::Ready));
        (0..=self.jobs).for_each(|job| self.wake(self.of(job, Of::Posted)));
    }

    fn of(&self, job: u32, word: Of) -> &AtomicU32 {
        &self.words[(SLOTS_AT + job as usize * SLOT_BYTES) / 4 + word as usize]
    }

    fn long(&self, job: u32, byte: usize) -> &AtomicU64 {
        &self.longs[(SLOTS_AT + job as usize * SLOT_BYTES + byte) / 8]
    }

    /// Returns the process ID and the thread ID of a job; 0 before the job has begun.
    pub fn thread(&self, job: u32) -> (i32, i32) {
        let of = |word| self.of(job, word).load(Ordering::Acquire).cast_signed();
        (of(Of::Pid), of(Of::Tid))
    }

    /// Returns the numbers of the jobs that may begin now. Later calls do not return these numbers
    /// again.
    pub fn begin(&self) -> Vec<u32> {
        let may = |job: &u32| {
            self.of(*job, Of::State)
                .compare_exchange(STATE_READY, STATE_KNOWN, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        };
        (0..self.jobs).filter(may).collect()
    }

    /// Frees the slot of a job that has ended.
    pub fn free(&self, job: u32) {
        self.of(job, Of::State).store(STATE_FREE, Ordering::Release);
    }

    /// Returns the IDs of the processes that have begun a job. If a slot has been used for several
    /// jobs, only the process of the last one is listed.
    pub fn processes(&self) -> BTreeSet<i32> {
        (0..self.jobs).map(|job| self.thread(job).0).filter(|pid| *pid != 0).collect()
    }

    /// Returns the number of commands that a job has posted so far.
    pub fn posted(&self, job: u32) -> u32 {
        self.of(job, Of::Posted).load(Ordering::Acquire)
    }

    /// Waits until a job has posted more than `seen` commands. Returns false if it has not within
    /// the time `at_most`.
    pub fn wait_posted(&self, job: u32, seen: u32, at_most: Duration) -> bool {
        let heard = self.of(job, Of::Heard);
        heard.store(1, Ordering::SeqCst);
        let came = self.wait(self.of(job, Of::Posted), seen, at_most);
        heard.store(0, Ordering::SeqCst);
        came
    }

    /// Waits until a word has another value than `seen`. Returns false if it has not within the
    /// time `at_most`. A return of true may also come early, without a change of the word.
    pub fn wait(&self, word: &AtomicU32, seen: u32, at_most: Duration) -> bool {
        if word.load(Ordering::SeqCst) != seen {
            return true;
        }
        let at_most = futex::Timespec::try_from(at_most).ok();
        match futex::wait(word, futex::Flags::empty(), seen, at_most.as_ref()) {
            Err(Errno::TIMEDOUT) => word.load(Ordering::Acquire) != seen,
            _ => true,
        }
    }

    fn wake(&self, word: &AtomicU32) {
        // Waking is no error if no thread waits.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned());
    }

    /// Returns the last command that a job has posted.
    pub fn command(&self, job: u32) -> Command {
        let argument = self.long(job, ARGUMENT_AT).load(Ordering::Acquire);
        match self.of(job, Of::Kind).load(Ordering::Acquire) {
            1 => Command::Wait(argument),
            2 => Command::Sleep(argument),
            _ => Command::End,
        }
    }

    /// Returns the I/O at index `at` of a job's ring of requested I/Os; `None`: there is none.
    /// `Some(Err)` has the ring place of an invalid I/O.
    pub fn take(&self, job: u32, at: u32) -> Option<Result<Asked, u32>> {
        if at == self.of(job, Of::Head).load(Ordering::Acquire) {
            return None;
        }
        let from = IOS_AT + (at % RING) as usize * 32;
        let long = |nth: usize| self.long(job, from + nth * 8).load(Ordering::Relaxed);
        let (offset, address, [place, in_cell], [bytes, op]) = (long(0), long(1), two(long(2)), two(long(3)));
        let in_cell = in_cell != 0;
        let op = match op {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            _ => return Some(Err(place)),
        };
        if place >= RING || in_cell && bytes > CELL_BYTES {
            return Some(Err(place));
        }
        Some(Ok(Asked { op, offset, bytes, address, place, in_cell }))
    }

    /// Records in a job's ring of completed I/Os, at index `at`, that an I/O is done. `place`: its
    /// index in the ring of requested I/Os. `result`: the number of bytes, or a negative error
    /// number.
    pub fn done(&self, job: u32, at: u32, place: u32, result: i64) {
        let to = DONE_AT + (at % RING) as usize * 16;
        self.long(job, to).store(place.into(), Ordering::Relaxed);
        self.long(job, to + 8).store(result.cast_unsigned(), Ordering::Relaxed);
    }

    fn cell(&self, job: u32, place: u32) -> &[AtomicU64] {
        let slots = SLOTS_AT + (self.jobs as usize + 1) * SLOT_BYTES;
        let index = job as usize * RING as usize + (place % RING) as usize;
        &self.longs[(slots + index * CELL_BYTES as usize) / 8..][..CELL_BYTES as usize / 8]
    }

    /// Copies the data of one request of job number `job` from the shared memory into `into`, in
    /// words of 64 bits. `place` is the number of the request in the job's ring. Bytes after the
    /// last whole word of `into` are not changed.
    fn read_cell(&self, job: u32, place: u32, into: &mut [u8]) {
        for (word, bytes) in self.cell(job, place).iter().zip(into.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// Writes the bytes of `from`, in words of 64 bits, to the shared memory for the data of one
    /// request: number `place` in the ring of this job. Bytes of `from` after its last whole word
    /// are not written.
    fn write_cell(&self, job: u32, place: u32, from: &[u8]) {
        for (word, bytes) in self.cell(job, place).iter().zip(from.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// Copies the data that a job wants to write from the program to `into`. Returns false if the
    /// program has no memory at that address.
    pub fn fetch(&self, job: u32, asked: &Asked, into: &mut [u8]) -> bool {
        if asked.in_cell {
            self.read_cell(job, asked.place, into);
            return true;
        }
        read_memory(self.thread(job).0, asked.address, into)
    }

    /// Copies the data of a job's read, which are in `from`, to the memory of the user's program.
    /// Returns false if the program has no memory at the read's address.
    pub fn bring(&self, job: u32, asked: &Asked, from: &[u8]) -> bool {
        if asked.in_cell {
            self.write_cell(job, asked.place, from);
            return true;
        }
        write_memory(self.thread(job).0, asked.address, from)
    }

    /// Lets a job continue that waits for the laboratory. The job then sees `done` of its I/Os as
    /// done.
    pub fn release(&self, job: u32, done: u32) {
        self.of(job, Of::DoneHead).store(done, Ordering::Release);
        let released = self.of(job, Of::Released);
        released.fetch_add(1, Ordering::SeqCst);
        if self.of(job, Of::Sleeps).load(Ordering::SeqCst) != 0 {
            self.wake(released);
        }
    }

    /// Wakes fio's helper thread, so that it checks whether fio's main thread wants it to end.
    pub fn look(&self) {
        self.wake(self.of(self.jobs, Of::Released));
    }
}

/// Returns the low and the high half of a 64-bit word.
fn two(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

impl Drop for Shared {
    fn drop(&mut self) {
        let bytes = self.words.len() * 4;
        // SAFETY: `new` mapped this number of bytes there, and the slices do not outlive `self`.
        unsafe {
            libc::munmap(self.words.as_ptr().cast_mut().cast(), bytes);
        }
    }
}

/// Reads the memory of the program `pid` from `address` on into `into`. Returns false if the
/// program has no memory there, or has ended.
fn read_memory(pid: i32, address: u64, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel writes only to `into`; the other address belongs to the other process.
    let moved = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    moved.cast_unsigned() == into.len()
}

/// Writes `from` to the memory of the program with the process ID `pid`, at `address`. Returns
/// false if the program has no memory there, or has ended.
fn write_memory(pid: i32, address: u64, from: &[u8]) -> bool {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: from.len() };
    // SAFETY: the kernel only reads `from`; the other address belongs to the other process.
    let moved = unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) };
    moved.cast_unsigned() == from.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_go_around_and_a_command_is_seen() {
        let shared = Shared::new(2, false, &[]).unwrap();
        for nth in 0..RING + 3 {
            let at = IOS_AT + (nth % RING) as usize * 32;
            shared.long(1, at).store(512 * u64::from(nth), Ordering::Relaxed);
            shared.long(1, at + 16).store(1 << 32 | 7, Ordering::Relaxed);
            shared.long(1, at + 24).store(1 << 32 | 4096, Ordering::Relaxed);
            shared.of(1, Of::Head).fetch_add(1, Ordering::Release);
            let asked = shared.take(1, nth).unwrap().unwrap();
            assert_eq!(
                (asked.op, asked.offset, asked.bytes, asked.place, asked.in_cell),
                (Op::Write, 512 * u64::from(nth), 4096, 7, true)
            );
            assert!(shared.take(1, nth + 1).is_none() && shared.take(0, 0).is_none());
        }
        shared.long(0, ARGUMENT_AT).store(99, Ordering::Relaxed);
        shared.of(0, Of::Kind).store(2, Ordering::Relaxed);
        assert!(!shared.wait_posted(0, 0, Duration::ZERO));
        shared.of(0, Of::Posted).store(1, Ordering::Release);
        assert!(shared.wait_posted(0, 0, Duration::ZERO));
        assert_eq!(shared.command(0), Command::Sleep(99));
    }

    #[test]
    fn cells_keep_what_is_put_there_each_its_own() {
        let shared = Shared::new(2, false, &[]).unwrap();
        let data = |job: u32, place: u32| -> Vec<u8> {
            (0..CELL_BYTES).map(|n| (n * 7 + job * 31 + place * 3) as u8).collect()
        };
        let all = [(0, 0), (0, 1), (0, RING - 1), (1, 0), (2, RING - 1)];
        for (job, place) in all {
            shared.write_cell(job, place, &data(job, place));
        }
        for (job, place) in all {
            let mut read = vec![0; CELL_BYTES as usize];
            shared.read_cell(job, place, &mut read);
            assert_eq!(read, data(job, place), "{job} {place}");
        }
    }

    #[test]
    fn a_place_or_a_length_that_there_is_not_is_refused() {
        let shared = Shared::new(1, false, &[]).unwrap();
        shared.of(0, Of::Head).store(1, Ordering::Release);
        for (place, in_cell, bytes) in [(RING, 0, 512), (0, 1, CELL_BYTES + 512)] {
            shared.long(0, IOS_AT + 16).store(in_cell << 32 | u64::from(place), Ordering::Relaxed);
            shared.long(0, IOS_AT + 24).store(u64::from(bytes), Ordering::Relaxed);
            assert_eq!(shared.take(0, 0), Some(Err(place)));
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let own = std::process::id().cast_signed();
        let (from, mut into) = ([1, 2, 3], [0; 3]);
        assert!(read_memory(own, from.as_ptr().addr() as u64, &mut into));
        assert_eq!(into, from);
        assert!(!read_memory(own, 8, &mut into) && !write_memory(own, 8, &from));
    }
}
