//! The power fails while clients write.

use super::{Server, URI};

/// Blocks carry their version; after a flush they must never be older again.
#[test]
fn what_was_flushed_is_there_and_the_next_flush_says_what_happened() {
    let server = Server::start(64, "--write --platform hsq-sprd");
    let pid = server.child.id();
    let script = format!(
        r#"
import os, signal, time, nbd
def put(version):
    for block in range(8):
        h.pwrite(bytes([version]) * 512, block * 512)
def versions():
    return {{h.pread(512, block * 512)[0] for block in range(8)}}
put(1)
h.flush()
put(2)
os.kill({pid}, signal.SIGUSR1)
time.sleep(0.5)
print(versions() <= {{1, 2}})
try:
    h.flush()
    print('flushed')
except nbd.Error as e:
    print(e.errno)
print(h.flush())
put(3)
h.flush()
os.kill({pid}, signal.SIGUSR1)
time.sleep(0.5)
print(versions())
"#
    );
    let Some(said) = server.client(&["nbdsh", "-u", URI, "-c", &script]) else { return };
    assert_eq!(said.lines().collect::<Vec<_>>(), ["True", "EIO", "None", "{3}"]);
    let (told, _) = server.stop();
    let cuts: Vec<_> =
        told.lines().filter(|line| line.starts_with("the card's power was cut: 0 requests")).collect();
    assert_eq!(cuts.len(), 2, "{told}");
    assert!(
        cuts[1].contains(" 0 sectors written and not flushed are lost, what was flushed is kept"),
        "{told}"
    );
}
