//! Tests the server with real NBD clients.

use super::{Server, URI, pattern};

#[test]
fn nbdinfo_sees_the_card() {
    let server = Server::start(64, "--write");
    let Some(said) = server.client(&["nbdinfo", URI]) else { return };
    for fact in [
        "67108864",
        "can_flush: true",
        "can_fua: true",
        "can_trim: true",
        "can_zero: true",
        "is_read_only: false",
    ] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
    let map = server.client(&["nbdinfo", "--map", URI]).unwrap();
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["0", "67108864", "3", "hole,zero"]);
    let list = server.client(&["nbdinfo", "--list", URI]).unwrap();
    assert!(list.contains("export=\"card\""), "{list}");
}

#[test]
fn nbdcopy_there_and_back() {
    let server = Server::start(32, "--write");
    std::fs::write(server.path("source"), pattern(32 << 20, 1)).unwrap();
    if server.client(&["nbdcopy", "--flush", "source", URI]).is_none() {
        return;
    }
    server.client(&["nbdcopy", URI, "back"]);
    assert!(std::fs::read(server.path("back")).unwrap() == pattern(32 << 20, 1));
    // After a flush, every reader of the image sees the data.
    assert!(std::fs::read(server.path("card.img")).unwrap() == pattern(32 << 20, 1));
    // No error was printed, only once the note that times are not the card's.
    let (said, _) = server.stop();
    assert!(said.lines().count() == 1 && said.contains("--pace"), "{said}");
}

#[test]
fn qemu_io_writes_zeros_trims_and_forces() {
    let server = Server::start(16, "--write");
    let commands = [
        "write -P 0x5a 1M 128k",
        "read -P 0x5a 1M 128k",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "read -P 0x5a 1088k 64k",
        "write -f -P 7 2M 64k",
        "read -P 7 2M 64k",
        "discard 3M 1M",
        "writev -P 9 5M 4k 8k 12k",
        "aio_write -P 1 6M 1M",
        "aio_write -P 2 7M 1M",
        "aio_flush",
        "read -P 1 6M 1M",
        "read -P 2 7M 1M",
        "flush",
    ];
    let mut line = vec!["qemu-io", "-f", "raw"];
    line.extend(commands.iter().flat_map(|c| ["-c", c]));
    line.push(URI);
    let Some(said) = server.client(&line) else { return };
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");
}

#[test]
fn qemu_img_converts_and_compares() {
    let server = Server::start(16, "--write");
    std::fs::write(server.path("source"), pattern(16 << 20, 2)).unwrap();
    if server.client(&["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", "source", URI]).is_none() {
        return;
    }
    let said = server.client(&["qemu-img", "compare", "-f", "raw", "-F", "raw", "source", URI]).unwrap();
    assert!(said.contains("identical"), "{said}");
}

#[test]
fn fio_verifies_through_several_connections() {
    let server = Server::start(64, "--write");
    let uri = format!("--uri={URI}");
    let job = "--rw=randrw --bs=4k --verify=crc32c --iodepth=16 --numjobs=4 --size=8M --offset_increment=8M --group_reporting";
    let mut line = vec!["fio", "--name=four", "--ioengine=nbd", &uri];
    line.extend(job.split_whitespace());
    let Some(said) = server.client(&line) else { return };
    assert!(said.contains("err= 0"), "{said}");
}

#[test]
fn nbdsh_sees_errors_where_they_belong() {
    let server = Server::start(1, "");
    let script = r#"
import nbd
for op in (lambda: h.pwrite(b'x' * 512, 0, nbd.CMD_FLAG_FUA), lambda: h.zero(512, 0), lambda: h.trim(512, 0)):
    h.set_strict_mode(0)
    try:
        op()
        print('taken')
    except nbd.Error as e:
        print(e.errno)
for offset, count in ((1 << 20, 512), (0, 100), (512, 1 << 20)):
    try:
        h.pread(count, offset)
        print('taken')
    except nbd.Error as e:
        print(e.errno)
print(len(h.pread(1 << 20, 0)), h.flush())
"#;
    let Some(said) = server.client(&["nbdsh", "-u", URI, "-c", script]) else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, ["EPERM", "EPERM", "EPERM", "EINVAL", "EINVAL", "EINVAL", "1048576 None"]);
}

#[test]
fn a_port_on_this_machine_serves_too() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("card.img"), pattern(1 << 20, 3)).unwrap();
    let server = Server::over(folder, "--tcp 0 --export it");
    let uri = server.ready.split_whitespace().last().unwrap();
    assert!(uri.starts_with("nbd://127.0.0.1:") && uri.ends_with("/it"), "{uri}");
    if server.client(&["nbdcopy", uri, "back"]).is_none() {
        return;
    }
    assert!(std::fs::read(server.path("back")).unwrap() == pattern(1 << 20, 3));
    let other = server.try_client(&["nbdinfo", &uri.replace("/it", "/other")]).unwrap();
    assert!(!other.status.success());
}
