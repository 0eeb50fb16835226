//! `mmcq serve` before clients that we did not write (`clients.rs`), before clients that mean no
//! good (`hostile.rs`), and when the power fails.
//!
//! The clients are Debian's nbdinfo, nbdcopy, nbdsh, qemu-io, qemu-img and fio;
//! `tools/install-judges.sh` installs them. Where one is missing its test is skipped, but not where
//! `CI` is set.

mod clients;
mod hostile;
mod power;
mod wire;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server with its image, in a folder of its own.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
}

impl Server {
    /// An empty image of so many MiB.
    fn start(mib: u64, options: &str) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let image = std::fs::File::create(folder.path().join("card.img")).unwrap();
        image.set_len(mib << 20).unwrap();
        Server::over(folder, options)
    }

    /// With the image that is there already.
    fn over(folder: tempfile::TempDir, options: &str) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(folder.path()).args(["serve", "card.img"]).args(options.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(" bytes at nbd"), "{line:?}");
        Server { folder, child }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Ends it as a user would; its exit code, and what it said to standard error.
    fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    /// Ends it as a user would; what it said to standard error, and the folder.
    fn stop(mut self) -> (String, tempfile::TempDir) {
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        for line in BufReader::new(self.child.stderr.take().unwrap()).lines() {
            said += &(line.unwrap() + "\n");
        }
        assert!(status.success(), "{said}");
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        assert!(!folder.path().join("card.img.sock").exists(), "the socket is left behind");
        (said, folder)
    }

    /// Runs a client in the folder; `None`: it is not installed.
    fn client(&self, line: &[&str]) -> Option<String> {
        let output = self.try_client(line)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line:?}: {said}{complained}");
        Some(said)
    }

    fn try_client(&self, line: &[&str]) -> Option<Output> {
        let mut command = Command::new(line[0]);
        // Debian's Python knows libnbd, others may not.
        command.env("PATH", "/usr/bin:/bin").current_dir(self.folder.path()).args(&line[1..]);
        match command.output() {
            Ok(output) => Some(output),
            Err(_) => {
                let text = format!("{} is not there; tools/install-judges.sh installs it", line[0]);
                assert!(std::env::var_os("CI").is_none(), "{text}");
                println!("skipped: {text}");
                None
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already, if it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const URI: &str = "nbd+unix:///?socket=card.img.sock";

/// Bytes that tell places and seeds apart.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}
