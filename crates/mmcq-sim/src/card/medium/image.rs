//! An image file as the medium of a card. Within one command the model reads ahead and delays
//! writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

const LARGEST: usize = 64 * 1024;
const SMALLEST: usize = 4096;

#[derive(Debug)]
pub(super) struct Image {
    file: File,
    /// Bytes of the file that were read ahead, from byte address `window_at` on.
    window: Vec<u8>,
    window_at: u64,
    /// Written bytes that are not in the file yet, from byte address `run_at` on.
    run: Vec<u8>,
    run_at: u64,
}

impl Image {
    pub(super) fn open(path: &Path, read_only: bool) -> io::Result<(Self, u64)> {
        let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        let bytes = file.metadata()?.len();
        let image = Self {
            file,
            window: Vec::with_capacity(LARGEST),
            window_at: 0,
            run: Vec::with_capacity(LARGEST),
            run_at: 0,
        };
        Ok((image, bytes))
    }

    pub(super) fn forget(&mut self) {
        self.window.clear();
    }

    pub(super) fn commit(&mut self) -> io::Result<()> {
        if self.run.is_empty() {
            return Ok(());
        }
        let written = write_all_at(&self.file, &self.run, self.run_at);
        self.run.clear();
        written
    }

    #[inline]
    pub(super) fn read(&mut self, at: u64, buffer: &mut [u8], end: u64) -> io::Result<()> {
        if !self.run.is_empty() {
            self.commit()?;
        }
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + buffer.len() as u64 > window_end {
            if buffer.len() > LARGEST {
                return read_exact_at(&self.file, buffer, at);
            }
            self.refill(at, buffer.len(), window_end, end)?;
        }
        let from = (at - self.window_at) as usize;
        buffer.copy_from_slice(&self.window[from..from + buffer.len()]);
        Ok(())
    }

    /// Reads a new window of the file from byte address `at` on. If `at` is the end of the last
    /// window (`window_end`), the new one is twice as long. Otherwise the window goes to the end of
    /// the 4 KiB page of `at`. It has at least `need` bytes, and ends at `end` at the latest.
    fn refill(&mut self, at: u64, need: usize, window_end: u64, end: u64) -> io::Result<()> {
        let goes_on = !self.window.is_empty() && at == window_end;
        let len =
            if goes_on { (self.window.len() * 2).min(LARGEST) } else { SMALLEST - (at as usize % SMALLEST) };
        let len = (len.max(need) as u64).min(end - at) as usize;
        self.window.resize(len, 0);
        self.window_at = at;
        let read = read_exact_at(&self.file, &mut self.window, at);
        if read.is_err() {
            self.window.clear();
        }
        read
    }

    #[inline]
    pub(super) fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        self.window.clear();
        let run_end = self.run_at + self.run.len() as u64;
        if !self.run.is_empty() && (at != run_end || self.run.len() + data.len() > LARGEST) {
            self.commit()?;
        }
        if data.len() > LARGEST {
            return write_all_at(&self.file, data, at);
        }
        if self.run.is_empty() {
            self.run_at = at;
        }
        self.run.extend_from_slice(data);
        Ok(())
    }

    pub(super) fn erase(&mut self, at: u64, bytes: u64, value: u8) -> io::Result<()> {
        self.commit()?;
        self.window.clear();
        let zone = vec![value; LARGEST];
        let mut before = vec![0; LARGEST];
        let mut done = 0;
        while done < bytes {
            let len = (bytes - done).min(LARGEST as u64);
            let (zone, before) = (&zone[..len as usize], &mut before[..len as usize]);
            // The file is written only where its content differs, so that holes of a sparse image
            // stay holes.
            read_exact_at(&self.file, before, at + done)?;
            if before != zone {
                write_all_at(&self.file, zone, at + done)?;
            }
            done += len;
        }
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // No caller is left that could get an error. The command's own call of `commit` reports
        // errors.
        let _ = self.commit();
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(unix)]
fn write_all_at(file: &File, data: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, data, at)
}

#[cfg(not(unix))]
fn read_exact_at(mut file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    use std::io::{Read, Seek};
    file.seek(io::SeekFrom::Start(at))?;
    file.read_exact(buffer)
}

#[cfg(not(unix))]
fn write_all_at(mut file: &File, data: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek, Write};
    file.seek(io::SeekFrom::Start(at))?;
    file.write_all(data)
}
