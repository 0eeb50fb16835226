//! Tests `mmcq serve` with clients of other authors (`clients.rs`), with hostile clients
//! (`hostile.rs`), and with power cuts (`power.rs`).
//!
//! The clients are Debian's nbdinfo, nbdcopy, nbdsh, qemu-io, qemu-img and fio;
//! `tools/install-judges.sh` installs them. If one is missing, its test is skipped, but fails where
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

/// A running server with its image, in a temporary folder.
struct Server {
    folder: tempfile::TempDir,
    child: Child,
    /// Line that the server printed when it was ready.
    ready: String,
    complaints: BufReader<ChildStderr>,
    /// Lines that were read from the server's standard error so far.
    said: String,
    _alive: watchdog::Watchdog,
}

impl Server {
    /// Starts a server with an empty image of this size in MiB.
    fn start(mib: u64, options: &str) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let image = std::fs::File::create(folder.path().join("card.img")).unwrap();
        image.set_len(mib << 20).unwrap();
        Server::over(folder, options)
    }

    /// Starts a server with the image that is already in the folder.
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

    /// Reads the next line of the server's standard error. Returns false if there are no more.
    fn hear(&mut self) -> bool {
        self.complaints.read_line(&mut self.said).unwrap() > 0
    }

    /// Cuts the card's power, and waits until the card is up again. A later request reaches the
    /// restarted card.
    fn cut(&mut self) {
        self.signal("USR1");
        let begin = self.said.len();
        while !self.said[begin..].contains("the card's power was cut") {
            assert!(self.hear(), "the server has ended: {}", self.said);
        }
    }

    /// Stops the server as a user would. Returns its exit code, and what it printed to standard
    /// error.
    fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        while self.hear() {}
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.said))
    }

    /// Stops the server as a user would. Returns what it printed to standard error, and the folder.
    fn stop(mut self) -> (String, tempfile::TempDir) {
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(!folder.path().join("card.img.sock").exists(), "the socket is left behind");
        (said, folder)
    }

    /// Runs a client program in the server's folder. Returns its output; `None` if the client is
    /// not installed.
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

    /// Passes the command that runs a client program in the server's folder to `with`; `None` if
    /// the client is not installed.
    fn with_client<T>(
        &self,
        line: &[&str],
        with: impl FnOnce(&mut Command) -> std::io::Result<T>,
    ) -> Option<T> {
        let mut command = Command::new(line[0]);
        // The Python of Debian can import libnbd; another Python may not.
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
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const URI: &str = "nbd+unix:///?socket=card.img.sock";

/// Returns bytes that differ from place to place and from seed to seed.
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
