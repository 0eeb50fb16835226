//! Locks of image files. They let several programs read an image, or one program write to it.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Lock on an image file while this value exists: exclusive for a writer, shared among readers.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the image at `path`; with `write` exclusively. The error is one line. On a file system
    /// without locks, every program gets the lock.
    pub fn take(path: &Path, write: bool) -> Result<Self, String> {
        let shown = path.display();
        let file = File::options().read(true).write(write).open(path).map_err(|e| format!("{shown}: {e}"))?;
        let (how, others) = match write {
            true => (
                FlockOperation::NonBlockingLockExclusive,
                "another mmcq uses this image, and only one may that writes",
            ),
            false => (FlockOperation::NonBlockingLockShared, "another mmcq writes to this image"),
        };
        match flock(&file, how) {
            Err(Errno::WOULDBLOCK) => Err(format!("{shown}: {others}; expected to find it free")),
            _ => Ok(Lock { _file: file }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let image = tempfile::NamedTempFile::new().unwrap();
        let take = |write| Lock::take(image.path(), write);
        let readers = [take(false).unwrap(), take(false).unwrap()];
        let refused = take(true).unwrap_err();
        assert!(refused.ends_with(
            "another mmcq uses this image, and only one may that writes; expected to find it free"
        ));
        drop(readers);
        let writer = take(true).unwrap();
        assert!(take(true).is_err());
        assert!(take(false).unwrap_err().contains("another mmcq writes to this image"));
        drop(writer);
        take(false).unwrap();
        let absent = image.path().with_extension("absent");
        assert!(Lock::take(&absent, false).unwrap_err().contains("No such file"));
    }
}
