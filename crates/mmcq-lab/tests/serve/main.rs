//! `mmcq serve` before clients that we did not write (`clients.rs`), before clients that mean no
//! good (`hostile.rs`), and when the power fails.
//!
//! The clients are Debian's nbdinfo, nbdcopy, nbdsh, qemu-io, qemu-img and fio;
//! `tools/install-judges.sh` installs them. Where one is missing its test is skipped, but not where
//! `CI` is set.

mod clients;
mod hostile;
mod power;
#[path = "../../../mmcq/tests/support/watchdog.rs"]
mod watchdog;
mod wire;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// A server with its image, in a folder of its own.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
    /// What it said when it was ready.
    ready: String,
    complaints: BufReader<ChildStderr>,
    /// What it has said to standard error and was read.
    said: String,
    _alive: watchdog::Watchdog,
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
        let complaints = BufReader::new(child.stderr.take().unwrap());
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains(" bytes at nbd"), "{ready:?}");
        Server { folder, child, ready, complaints, said: String::new(), _alive: watchdog::watch() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Reads its next line on standard error; false: there is none any more.
    fn hear(&mut self) -> bool {
        self.complaints.read_line(&mut self.said).unwrap() > 0
    }

    /// The power fails, and the card is up again: a request that is sent now reaches the new card.
    fn cut(&mut self) {
        self.signal("USR1");
        let begin = self.said.len();
        while !self.said[begin..].contains("the card's power was cut") {
            assert!(self.hear(), "the server has ended: {}", self.said);
        }
    }

    /// Ends it as a user would; its exit code, and what it said to standard error.
    fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        while self.hear() {}
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.said))
    }

    /// Ends it as a user would; what it said to standard error, and the folder.
    fn stop(mut self) -> (String, tempfile::TempDir) {
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
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
        self.with_client(line, Command::output)
    }

    /// Does something with the command of a client in the folder; `None`: it is not installed.
    fn with_client<T>(
        &self,
        line: &[&str],
        with: impl FnOnce(&mut Command) -> std::io::Result<T>,
    ) -> Option<T> {
        let mut command = Command::new(line[0]);
        // Debian's Python knows libnbd, others may not.
        command.env("PATH", "/usr/bin:/bin").current_dir(self.folder.path()).args(&line[1..]);
        match with(&mut command) {
            Ok(result) => Some(result),
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
