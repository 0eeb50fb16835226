//! Stand-ins for the card's files: nameless folders, to which a program's file descriptors refer.
//!
//! With a folder the kernel refuses operations that the preloaded library does not handle: a folder
//! cannot be read, written or mapped. The kernel keeps for each descriptor the file position,
//! `O_APPEND`, `O_SYNC` and the lock of `flock`. There are three folders for each file, so that a
//! descriptor shows what it allows: reads, writes, or both.

use rustix::fs::{MemfdFlags, SeekFrom, fstat, memfd_create, seek};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Large file position, as a test: a folder can be a stand-in only if the kernel keeps such a
/// position for it.
const FAR: u64 = (1 << 42) + 512;

/// Folder whose name was removed after it was opened.
pub struct Folder {
    file: File,
    pub device: u64,
    pub inode: u64,
}

impl Folder {
    /// Returns the file descriptor of the folder, as a number in this process.
    pub fn number(&self) -> u32 {
        self.file.as_raw_fd().cast_unsigned()
    }
}

/// Stand-in for one file of the card: what a program takes for its descriptors of that file are
/// descriptors of the stand-in's folders.
pub struct Standin {
    /// Nameless folders to which the program's file descriptors refer in place of the file: one for
    /// reading, one for writing, and one for both.
    pub folders: [Folder; 3],
    /// File that carries the record locks (`fcntl`) of all processes on the card's file.
    locks: File,
}

impl Standin {
    /// Returns the file descriptor, as a number in this process, of the file with the locks.
    pub fn locks_number(&self) -> u32 {
        self.locks.as_raw_fd().cast_unsigned()
    }
}

/// Makes a stand-in ([`Standin`]) for each of this number of the card's files.
///
/// # Errors
/// No file system on this machine has folders that keep a file position.
pub fn of_files(count: usize) -> io::Result<Vec<Standin>> {
    let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in &places {
        match (0..count).map(|_| of_file(place)).collect() {
            Ok(all) => return Ok(all),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn of_file(place: &Path) -> io::Result<Standin> {
    let folders = [folder(place)?, folder(place)?, folder(place)?];
    Ok(Standin { folders, locks: File::from(memfd_create("mmcq-locks", MemfdFlags::CLOEXEC)?) })
}

fn folder(place: &Path) -> io::Result<Folder> {
    let named = tempfile::Builder::new().prefix("mmcq-").tempdir_in(place)?;
    let file = File::open(named.path())?;
    named.close()?;
    seek(&file, SeekFrom::Start(FAR))?;
    if seek(&file, SeekFrom::Current(0))? != FAR {
        return Err(io::Error::other("its folders keep no position"));
    }
    let stat = fstat(&file)?;
    Ok(Folder { file, device: stat.st_dev, inode: stat.st_ino })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_standin_is_neither_read_nor_written_and_keeps_its_position() {
        let all = of_files(2).unwrap();
        let mut inodes: Vec<u64> = all.iter().flat_map(|one| one.folders.iter().map(|f| f.inode)).collect();
        inodes.sort_unstable();
        inodes.dedup();
        assert_eq!(inodes.len(), 6);
        let file = &all[1].folders[2].file;
        assert_eq!(rustix::io::read(file, &mut [0; 16][..]), Err(Errno::ISDIR));
        assert_eq!(rustix::io::pread(file, &mut [0; 16][..], 0), Err(Errno::ISDIR));
        assert_eq!(rustix::io::write(file, &[0; 16]), Err(Errno::BADF));
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert!(std::fs::read(&again).is_err() && std::fs::write(&again, [0]).is_err());
        assert_eq!(seek(file, SeekFrom::Current(0)), Ok(FAR));
    }
}
