//! Builds archives for the guest's initial file system. The kernel unpacks each archive over those
//! before it.

/// Appends an archive of these files (name, mode, content) to `archive`, in the format of Linux
/// (cpio `newc`).
pub(super) fn append(archive: &mut Vec<u8>, files: &[(&str, u32, &[u8])]) {
    // An archive begins at a multiple of four bytes; the kernel skips zeros between archives.
    pad(archive);
    let begin = archive.len();
    for (number, (name, mode, content)) in (1..).zip(files) {
        // Mode bits of a regular file.
        entry(archive, number, 0o100_000 | mode, name, content);
    }
    entry(archive, 0, 0, "TRAILER!!!", b"");
    debug_assert_eq!(begin % 4, 0);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

fn entry(archive: &mut Vec<u8>, inode: u32, mode: u32, name: &str, content: &[u8]) {
    // Fields: inode, mode, uid, gid, links, time, size, device (2), device of a special file (2),
    // bytes of the name with its final zero, checksum.
    let fields = [inode, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    archive.extend(b"070701");
    for field in fields {
        archive.extend(format!("{field:08X}").bytes());
    }
    archive.extend(name.bytes());
    archive.push(0);
    pad(archive);
    archive.extend(content);
    pad(archive);
}

#[cfg(test)]
mod tests {
    use super::append;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn another_program_reads_the_archive_behind_the_one_before_it() {
        let mut archive = b"odd".to_vec();
        append(&mut archive, &[("job", 0o755, b"echo 12345\n"), ("empty", 0o644, b"")]);
        assert_eq!(archive.len() % 4, 0);
        let Ok(mut cpio) =
            Command::new("cpio").arg("-tv").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        else {
            // Not every machine has cpio; without it the test only checks the bytes.
            assert_eq!(&archive[4..10], b"070701");
            assert!(archive.windows(11).any(|bytes| bytes == b"echo 12345\n"));
            return;
        };
        cpio.stdin.take().unwrap().write_all(&archive[4..]).unwrap();
        let output = cpio.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        assert!(text.lines().next().unwrap().starts_with("-rwxr-xr-x") && text.contains("11 "), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
