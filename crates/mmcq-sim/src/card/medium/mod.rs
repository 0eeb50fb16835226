//! The medium, which holds a card's bytes: memory that grows as it is written, or an image file.

pub(crate) mod content;
mod image;
mod lies;
mod sparse;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use content::Short;
use image::Image;
use lies::Lies;
use sparse::Sparse;

use crate::plant;

/// Bytes in a sector; capacities are counted in sectors.
pub const SECTOR_BYTES: u64 = 512;

/// Content of a block that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Blocks that were never written read as zeros.
    Zeros,
    /// Blocks that were never written read as a pattern. It depends only on this seed and on the
    /// address.
    Pattern(u64),
}

/// Reasons why a medium cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The image file cannot be opened, or its length cannot be read.
    #[error("{path}: {source}")]
    Open {
        /// Path of the image file.
        path: String,
        /// Error that the operating system returned.
        source: io::Error,
    },
    /// The image file is empty.
    #[error("{path}: the image is empty, expected at least one sector of 512 bytes")]
    Empty {
        /// Path of the image file.
        path: String,
    },
    /// The length of the image file is not a multiple of 512 bytes.
    #[error("{path}: the image has {bytes} bytes, expected a multiple of 512")]
    Ragged {
        /// Path of the image file.
        path: String,
        /// Length of the image file in bytes.
        bytes: u64,
    },
    /// A medium in memory cannot have this size.
    #[error("a medium of {bytes} bytes was asked for, expected a multiple of 512 above 0")]
    Size {
        /// Requested size in bytes.
        bytes: u64,
    },
}

/// The medium that holds the bytes of a card or of one partition.
///
/// An access has a byte address and any length, and must lie inside [`Medium::bytes`]. Each command
/// is enclosed in calls of [`Medium::begin`] and [`Medium::commit`]. Only between the two may the
/// model read ahead in an image file and delay writes. After [`Medium::commit`] the file has all
/// written bytes.
#[derive(Debug)]
pub struct Medium {
    backing: Backing,
    bytes: u64,
    read_only: bool,
    /// Path of the image file; `None` for a medium in memory.
    path: Option<PathBuf>,
    /// Numbers of the sectors that cannot be read until they are written or erased.
    spoiled: BTreeSet<u64>,
    /// State of the planted bugs of this medium.
    lies: Lies,
}

#[derive(Debug)]
enum Backing {
    Sparse(Sparse),
    Image(Box<Image>),
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|meta| meta.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

impl Medium {
    /// Makes a medium of `bytes` bytes in memory; sectors that were never written have the content
    /// `fill`. It uses memory only for sectors that were written.
    pub fn sparse(bytes: u64, fill: Fill) -> Result<Self, MediumError> {
        if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(MediumError::Size { bytes });
        }
        let backing = Backing::Sparse(Sparse::new(bytes, fill));
        Ok(Self {
            backing,
            bytes,
            read_only: false,
            path: None,
            spoiled: BTreeSet::new(),
            lies: Lies::default(),
        })
    }

    /// Makes a medium from an image file, whose length is the size of the medium. With `read_only`
    /// the file is opened for reads only. Opening does not write to the file.
    pub fn image(path: &Path, read_only: bool) -> Result<Self, MediumError> {
        let name = path.display().to_string();
        if path.is_dir() {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "a directory, expected an image file");
            return Err(MediumError::Open { path: name, source });
        }
        // The operating system opens a pipe only when another program writes to it, which may never
        // happen.
        if is_pipe(path) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a pipe, expected an image file");
            return Err(MediumError::Open { path: name, source });
        }
        let (image, bytes) = Image::open(path, read_only)
            .map_err(|source| MediumError::Open { path: name.clone(), source })?;
        if bytes == 0 {
            return Err(MediumError::Empty { path: name });
        }
        if !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(MediumError::Ragged { path: name, bytes });
        }
        let (backing, path) = (Backing::Image(Box::new(image)), Some(path.to_owned()));
        Ok(Self { backing, bytes, read_only, path, spoiled: BTreeSet::new(), lies: Lies::default() })
    }

    /// Returns the size of the medium in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the path of the image file; `None` for a medium in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reduces the size of the medium to this number of bytes; the bytes behind are not used.
    pub(crate) fn shorten(&mut self, bytes: u64) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Returns the content of blocks that were never written. An image file has no such blocks.
    #[must_use]
    pub(crate) fn fill(&self) -> Fill {
        match &self.backing {
            Backing::Sparse(sparse) => sparse.fill(),
            Backing::Image(_) => Fill::Zeros,
        }
    }

    /// Calls `each` with the ranges of all sectors that were ever written or erased, by commands or
    /// by other access. For an image file `each` is never called.
    pub fn touched(&self, each: &mut dyn FnMut(Range<u64>)) {
        if let Backing::Sparse(sparse) = &self.backing {
            sparse.touched(each);
        }
    }

    /// Returns whether the medium refuses writes.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Makes this sector unreadable until it is written or erased.
    pub fn spoil(&mut self, sector: u64) {
        self.spoiled.insert(sector);
    }

    /// Returns an error if the `len` bytes from byte address `at` on touch an unreadable sector.
    fn check_readable(&self, at: u64, len: u64) -> io::Result<()> {
        if !self.spoiled.is_empty() && self.spoiled.range(sectors(at, len)).next().is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an unreadable sector"));
        }
        Ok(())
    }

    /// Begins a command. The model drops data that it has read ahead, so that it sees changes that
    /// other programs make in the file.
    pub fn begin(&mut self) {
        if let Backing::Image(image) = &mut self.backing {
            image.forget();
        }
        if plant::any() {
            self.lie_at_command();
        }
    }

    /// Ends a command: all its written bytes go to the file.
    pub fn commit(&mut self) -> io::Result<()> {
        match &mut self.backing {
            Backing::Sparse(_) => Ok(()),
            Backing::Image(image) => image.commit(),
        }
    }

    /// Reads bytes of the medium, from byte address `at` on, into `buffer`.
    #[inline]
    pub fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.check(at, buffer.len() as u64)?;
        if let Err(error) = self.check_readable(at, buffer.len() as u64) {
            let told = plant::any() && self.lie_about_torn(at, buffer);
            return if told { Ok(()) } else { Err(error) };
        }
        match &mut self.backing {
            Backing::Sparse(sparse) => sparse.read(at, buffer),
            Backing::Image(image) => image.read(at, buffer, self.bytes)?,
        }
        if plant::any() {
            self.lie_about_read(at, buffer);
        }
        Ok(())
    }

    /// Returns the description (such as "a repeated word") from which the content of the sector at
    /// this byte address can be generated; `None`: the content is stored as bytes.
    #[inline]
    pub(crate) fn short(&self, at: u64) -> Option<Short> {
        let known = at.is_multiple_of(SECTOR_BYTES) && self.check(at, SECTOR_BYTES).is_ok();
        match &self.backing {
            Backing::Sparse(sparse) if known && self.spoiled.is_empty() && !plant::any() => sparse.short(at),
            _ => None,
        }
    }

    /// Writes `data` to the medium, from byte address `at` on.
    #[inline]
    pub fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        self.check(at, data.len() as u64)?;
        self.check_writable()?;
        self.heal(at, data.len() as u64);
        match &mut self.backing {
            Backing::Sparse(sparse) => sparse.write(at, data),
            Backing::Image(image) => image.write(at, data)?,
        }
        if plant::any() {
            self.lie_about_write(at, data);
        }
        Ok(())
    }

    /// Erases a range: all its bytes get the value that erased memory reads as.
    pub fn erase(&mut self, at: u64, bytes: u64, value: u8) -> io::Result<()> {
        self.check(at, bytes)?;
        self.check_writable()?;
        self.heal(at, bytes);
        match &mut self.backing {
            Backing::Sparse(sparse) => {
                sparse.erase(at, bytes, value);
                Ok(())
            }
            Backing::Image(image) => image.erase(at, bytes, value),
        }
    }

    fn heal(&mut self, at: u64, len: u64) {
        while !self.spoiled.is_empty()
            && let Some(&sector) = self.spoiled.range(sectors(at, len)).next()
        {
            self.spoiled.remove(&sector);
        }
    }

    fn check(&self, at: u64, len: u64) -> io::Result<()> {
        match at.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "access past the end of the medium")),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the medium is read-only"));
        }
        Ok(())
    }
}

/// Returns the numbers of the sectors that a byte range touches.
fn sectors(at: u64, len: u64) -> Range<u64> {
    at / SECTOR_BYTES..at.saturating_add(len).div_ceil(SECTOR_BYTES)
}
