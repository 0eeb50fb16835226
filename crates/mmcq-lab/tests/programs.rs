//! Tests programs of other authors on the card: the result must equal that on this machine's file
//! system, byte for byte. Operations that the laboratory cannot do must fail, and never do
//! something else.

use crate::watchdog;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Size in bytes of the test file, on the card and on this machine.
const BYTES: usize = 1 << 20;

fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    let _alive = watchdog::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder).args(arguments).env("XDG_CACHE_HOME", cache()).output().unwrap()
}

/// Returns the standard output and the standard error of a program on the card that must succeed.
pub fn well(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = lab(folder, arguments);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}{told}");
    (said, told)
}

/// Compiles a C program in the folder, as `name`.
pub fn compiled(folder: &Path, name: &str, source: &str) {
    let file = format!("{name}.c");
    std::fs::write(folder.join(&file), source).unwrap();
    let mut cc = Command::new("cc");
    let built = cc
        .args(["-D_GNU_SOURCE", "-O1", "-pthread", "-o", name, &file])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
}

/// Returns whether a program is installed on this machine. If not, prints that a test is skipped;
/// where `CI` is set, fails.
fn is_there(program: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if !there.status.success() {
        assert!(std::env::var_os("CI").is_none(), "{program} is not there");
        println!("skipped: {program} is not there");
    }
    there.status.success()
}

/// Two folders: in one, the file `f` is on this machine, in the other on the card. Both have the
/// same file of source bytes.
struct Both {
    ours: tempfile::TempDir,
    theirs: tempfile::TempDir,
}

impl Both {
    fn new() -> Both {
        let both = Both { ours: tempfile::tempdir().unwrap(), theirs: tempfile::tempdir().unwrap() };
        let bytes: Vec<u8> = (0..BYTES as u64).map(|n| (n.wrapping_mul(n) >> 5) as u8).collect();
        for folder in [&both.ours, &both.theirs] {
            std::fs::write(folder.path().join("source"), &bytes).unwrap();
        }
        std::fs::write(both.theirs.path().join("f"), vec![0; BYTES]).unwrap();
        both
    }

    /// Checks that a shell script prints the same in both folders, and leaves the same content in
    /// `f` and `out`.
    #[track_caller]
    fn same(&self, script: &str) {
        let script = format!("set -e\n{script}\nsha256sum < f\nif test -e out; then sha256sum out; fi");
        let mut shell = Command::new("sh");
        let theirs = shell.args(["-c", &script]).current_dir(self.theirs.path()).output().unwrap();
        assert!(theirs.status.success(), "{script}: {}", text(&theirs.stderr));
        let ours = lab(self.ours.path(), &["exec", "--file", "f=1M", "--", "sh", "-c", &script]);
        let (said, told) = (text(&ours.stdout), text(&ours.stderr));
        assert!(ours.status.success(), "{script}: {said}{told}");
        assert_eq!(said, text(&theirs.stdout), "{script}: {told}");
        assert!(!self.ours.path().join("f").exists(), "{script}: a file of this machine");
        for folder in [&self.ours, &self.theirs] {
            let _ = std::fs::remove_file(folder.path().join("out"));
        }
        std::fs::write(self.theirs.path().join("f"), vec![0; BYTES]).unwrap();
    }
}

#[test]
fn coreutils_gzip_and_tar_to_the_byte() {
    let both = Both::new();
    for script in [
        "dd if=source of=f bs=64k conv=notrunc status=none; dd if=f of=out bs=1M iflag=fullblock status=none",
        "dd if=source of=f bs=4k conv=notrunc oflag=direct status=none; dd if=f of=out bs=8k iflag=direct status=none",
        "dd if=source of=f bs=100k conv=notrunc,fsync oflag=direct status=none",
        "dd if=source of=f bs=32k conv=notrunc oflag=dsync status=none; cmp source f",
        "dd if=source of=f bs=777 seek=3 count=99 conv=notrunc,fdatasync status=none",
        "cat source > f; cat < f > out; cat f | cmp - source",
        "cp source f; cp f out; cmp f out; stat -c %s f; ls -s --block-size=1 f",
        "cp --sparse=always source f; cp --sparse=always f out",
        "tee f < source > out; tail -c 9 f | od -c; head -c 9 f | od -c",
        "gzip -c source | gzip -dc > f; gzip -c < f | gzip -dc > out; gzip -c f | gzip -dc | cmp - source",
        "tar cf - source | dd of=out status=none; cat source > f; tar cf - f | tar xOf - | cmp - source; rm out",
        "mkdir d; dd if=source of=d/a bs=1k count=99 status=none; tar --mtime=@0 -cf - d | dd of=f conv=notrunc status=none; tar xOf f d/a > out; rm -r d",
        "exec 3<>f; echo one >&3; echo two >&3; exec 3>&-; { echo three; printf four; } 1<>f; head -c 20 f",
        "(echo later) 1<>f; exec 4<f; read word <&4; echo $word; cat <&4 | head -c 5",
        "sort source -o out 1<>f; seq 1 9999 1<>f; sed -n 7p f; awk 'NR == 9' f; grep -c 7 f; wc -l < f",
        "cat /dev/stdin < f > out; exec 3<>f; cat source > /proc/self/fd/3; exec 3>&-; ln -s f link; cp link out; rm link",
    ] {
        both.same(script);
    }
    // bash writes through the C library's streams, and puts other files in place of its
    // descriptors.
    if is_there("bash") {
        both.same("bash -c 'echo builtin 1<>f; printf %s more; cat < f | head -c 8; exec 1<>f; echo last; exec 1>&2'");
    }
}

#[test]
fn python_to_the_byte() {
    let both = Both::new();
    for program in [
        "import shutil; shutil.copyfile('source', 'f'); shutil.copyfile('f', 'out'); shutil.copy2('f', 'out')",
        "
f = open('f', 'r+b'); f.write(b'x' * 700); f.seek(300); print(f.read(9)); f.seek(-5, 2); print(f.read(), f.tell())
f.seek(511); f.write(b'yz'); f.flush(); print(f.truncate(1048576)); f.close()
print(open('f').read(12), open('f', 'rb', buffering=0).read(3))",
        "
import os, fcntl
a = os.open('f', os.O_RDWR); b = os.dup(a); os.write(a, b'one'); os.write(b, b'two'); os.lseek(a, 1, 0)
print(os.read(b, 4), fcntl.fcntl(a, fcntl.F_GETFL) & os.O_ACCMODE, os.fstat(a).st_size, os.path.getsize('f'))
os.close(a); print(os.read(b, 2)); c = os.open('source', os.O_RDONLY); print(c == a, os.read(c, 4))
def fails(do):
    try: print('done', do())
    except OSError as error: print(error.errno)
r = os.open('f', os.O_RDONLY); w = os.open('f', os.O_WRONLY)
fails(lambda: os.write(r, b'x')); fails(lambda: os.read(w, 1)); fails(lambda: os.pwrite(r, b'x', 0))
fails(lambda: os.open('f', os.O_CREAT | os.O_EXCL | os.O_RDWR)); fails(lambda: os.open('f', os.O_DIRECTORY))
fails(lambda: os.open('f/x', os.O_RDONLY) if 0 else os.lseek(r, -1, 0)); fails(lambda: os.pread(r, 1, -1))
fails(lambda: os.lseek(r, 1 << 30, os.SEEK_DATA)); fails(lambda: os.lseek(r, 5, os.SEEK_HOLE))
fails(lambda: os.preadv(r, [bytearray(3), bytearray(5)], 0)); fails(lambda: os.pwritev(w, [b'12', b'3'], 9, os.RWF_DSYNC))
print(os.readv(r, [bytearray(3), bytearray(5)]), os.lseek(r, 0, 1), os.pread(r, 12, 0))
os.set_inheritable(w, True)
if os.spawnlp(os.P_WAIT, 'sh', 'sh', '-c', f'printf child >&{w}'): print('failed')
print(os.pread(r, 8, 0), os.lseek(w, 0, 1)); os.chmod('f', 0o600) if 0 else None",
        "
import os
os.mkdir('d'); os.symlink('../d', 'd/e'); os.symlink('f', 'to-f'); d = os.open('d', os.O_RDONLY)
for path in ['d/../f', './f', 'd/e/e/../f', 'to-f', os.path.abspath('to-f')]:
    w = os.open(path, os.O_RDWR); os.write(w, path[-3:].encode()); os.close(w); print(open('f').read(3))
w = os.open('../f', os.O_RDWR, dir_fd=d); os.write(w, b'by a folder'); print(os.stat('../f', dir_fd=d).st_size)
print(open('f').read(11), open(f'/proc/self/fd/{w}').read(4), os.path.islink('to-f'), os.path.isfile('to-f'))
os.unlink('to-f'); os.unlink('d/e'); os.rmdir('d')",
        "
import fcntl, os, sys
def locked(how, file):
    try: how(file, fcntl.LOCK_EX | fcntl.LOCK_NB); return True
    except OSError: return False
for how in [fcntl.lockf, fcntl.flock]:
    a = open('f', 'r+b'); print(locked(how, a)); sys.stdout.flush()
    if os.fork() == 0:
        b = open('f', 'r+b'); print(locked(how, b)); sys.stdout.flush(); os._exit(0)
    os.wait(); b = open('f', 'r+b'); print(locked(how, b)); a.close(); b.close()
    c = open('f', 'r+b'); print(locked(how, c)); c.close()",
        "
import fcntl, os, struct, threading
from fcntl import F_RDLCK, F_WRLCK, F_UNLCK
def lock(fd, kind, start, count, how=fcntl.F_OFD_SETLK, whence=0):
    try: found = struct.unpack('hhqqi4x', fcntl.fcntl(fd, how, struct.pack('hhqqi4x', kind, whence, start, count, 0)))
    except OSError as error: return error.errno
    return found[:4] + (found[4] if found[4] <= 0 else 'a process',) if 'GET' in names[how] else 'taken'
names = {number: name for name, number in vars(fcntl).items() if 'LK' in name}
a, b, r, w = os.open('f', os.O_RDWR), os.open('f', os.O_RDWR), os.open('f', os.O_RDONLY), os.open('f', os.O_WRONLY)
print(lock(a, F_WRLCK, 100, 10), lock(b, F_RDLCK, 109, 1), lock(b, F_WRLCK, 110, 0), lock(r, F_RDLCK, 99, 2), lock(w, F_WRLCK, 9, 1))
print(lock(r, F_WRLCK, 0, 1), lock(w, F_RDLCK, 0, 1), lock(a, 77, 0, 1), lock(a, F_WRLCK, -1, 1), lock(a, F_WRLCK, 2, -3))
for fd in [a, b, r, w]:
    print([lock(fd, kind, at, 3, fcntl.F_OFD_GETLK) for kind in [F_RDLCK, F_WRLCK] for at in [7, 50, 105, 5000]])
os.close(os.dup(a)); print(lock(r, F_RDLCK, 100, 1), lock(a, F_RDLCK, 100, 5), lock(r, F_RDLCK, 100, 5), lock(w, F_WRLCK, 100, 1))
print(lock(w, F_WRLCK, 105, 5), lock(a, F_UNLCK, 105, 5), lock(w, F_WRLCK, 105, 5), lock(r, F_WRLCK, 98, 6, fcntl.F_OFD_GETLK))
# Locks of a process and of a description keep each other out, also in one process.
print(lock(b, F_WRLCK, 104, 1, fcntl.F_SETLK), lock(b, F_WRLCK, 20, 5, fcntl.F_SETLK), lock(a, F_RDLCK, 24, 1), lock(a, F_RDLCK, 25, 1))
print(lock(r, F_RDLCK, 9, 9, fcntl.F_OFD_GETLK), lock(r, F_RDLCK, 20, 5, fcntl.F_OFD_GETLK), lock(r, F_RDLCK, 105, 1, fcntl.F_GETLK), lock(r, F_RDLCK, 60, 1, fcntl.F_GETLK))
os.lseek(a, 1000, 0); print(lock(b, F_UNLCK, 0, 0), lock(a, F_WRLCK, -10, 20, whence=1), lock(b, F_WRLCK, -10, 10, whence=2))
print(lock(r, F_WRLCK, 900, 0, fcntl.F_OFD_GETLK), lock(a, F_RDLCK, (1 << 20) - 1, 1))
child, parent = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(parent[1]); own = os.open('f', os.O_RDWR)
    said = [lock(a, F_WRLCK, 990, 20), lock(own, F_WRLCK, 990, 20), lock(own, F_WRLCK, 300, 9), lock(own, F_WRLCK, 400, 9, fcntl.F_SETLK)]
    os.write(child[1], repr(said).encode()); os.read(parent[0], 1); os._exit(0)
print(os.read(child[0], 999).decode(), lock(r, F_RDLCK, 308, 1), lock(b, F_WRLCK, 405, 1), lock(b, F_WRLCK, 301, 1, fcntl.F_SETLK))
got = []; waits = [threading.Thread(target=lambda how=how, at=at: got.append(lock(a, F_WRLCK, at, 2, how))) for at, how in
         [(301, fcntl.F_OFD_SETLKW), (304, fcntl.F_SETLKW), (401, fcntl.F_OFD_SETLKW)]]
for thread in waits: thread.start()
os.close(parent[1]); [thread.join() for thread in waits]; os.wait(); print(got, lock(b, F_WRLCK, 302, 1), lock(b, F_WRLCK, 400, 1), lock(a, F_RDLCK, 990, 20))
os.close(a); print(lock(b, F_WRLCK, 0, 100), lock(w, F_WRLCK, 990, 5))",
    ] {
        std::fs::write(both.ours.path().join("program.py"), program).unwrap();
        std::fs::write(both.theirs.path().join("program.py"), program).unwrap();
        both.same("python3 program.py");
    }
}

/// Checks programs whose clock is the card's: a wait with a time limit ends at the limit in virtual
/// time.
#[test]
fn event_loops_end_in_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import asyncio, select, socket, threading, time, selectors
async def main():
    loop = asyncio.get_running_loop(); began = loop.time(); await asyncio.sleep(0.05); print(0.05 <= loop.time() - began < 0.2)
    try: await asyncio.wait_for(asyncio.Event().wait(), 0.3)
    except asyncio.TimeoutError: print('late')
    program = await asyncio.create_subprocess_exec('head', '-c', '5', 'f', stdout=asyncio.subprocess.PIPE)
    print(len((await program.communicate())[0])); print(await asyncio.to_thread(lambda: len(open('f').read(4))))
asyncio.run(main())
def within(s, wait): began = time.monotonic(); wait(); took = time.monotonic() - began; print(s <= took < s + 0.1 or took)
a, b = socket.socketpair(); e = select.epoll(); e.register(a, select.EPOLLIN); p = select.poll(); p.register(a, select.POLLIN)
within(0.3, lambda: e.poll(0.3)); within(0.3, lambda: p.poll(300)); within(0.3, lambda: select.select([a], [], [], 0.3))
within(0.3, lambda: threading.Event().wait(0.3)); b.send(b'x'); within(0, lambda: print(len(e.poll(9)), len(p.poll(9000))))";
    let (said, told) = well(folder.path(), &["exec", "--file", "f=1M", "--", "python3", "-c", program]);
    assert_eq!(said, "True\nlate\n5\n4\nTrue\nTrue\nTrue\nTrue\n1 1\nTrue\n", "{told}");
}

/// Checks two processes of SQLite: as on a file system, the database may tell either process to
/// wait, and no row is lost.
#[test]
fn two_processes_of_sqlite_keep_one_database() {
    if !is_there("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = Command::new("sqlite3").args(["made.db", "create table t(a)"]).current_dir(folder).status();
    assert!(made.unwrap().success());
    let script = "dd if=made.db of=t.db bs=4k conv=notrunc status=none
w() { for i in $(seq 1 25); do sqlite3 -cmd '.timeout 50000' -cmd 'pragma journal_mode=persist' t.db \"insert into t values('$1-$i');\" >/dev/null || echo failed $1 $i; done; }
w a & w b & wait
sqlite3 t.db 'select count(*) from t; pragma integrity_check;'";
    let files = ["exec", "--file", "t.db=4M", "--file", "t.db-journal=4M", "--", "sh", "-c", script];
    let (said, told) = well(folder, &files);
    assert_eq!(said, "50\nok\n", "{told}");
    assert!(told.contains(" flushes, 0 failed"), "{told}");
}

const PROBE: &str = r#"
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static int fd;
static char data[4096] __attribute__((aligned(4096)));
#define CHECK(it) if (!(it)) printf("line %d: %s (errno %d)\n", __LINE__, #it, errno)
static void *half(void *nth) {
  char part[256];
  memset(part, 'a' + (int)(long)nth, sizeof part);
  for (int i = 0; i < 20; i++) CHECK(pwrite(fd, part, 256, 8192 + i * 512 + (long)nth * 256) == 256);
  return NULL;
}
static void *taken(void *more) {
  for (int i = 0; i < 50; i++) CHECK(write(fd, more, 100) == 100);
  return NULL;
}
/* No library has a part in it: the ring, and what the kernel does with it. */
static int by_ring(int op) {
  struct io_uring_params p = {0};
  int ring = syscall(SYS_io_uring_setup, 4, &p);
  if (ring < 0) return -1;
  char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe *sqe = mmap(0, p.sq_entries * sizeof *sqe, 3, MAP_SHARED, ring, IORING_OFF_SQES);
  char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, 3, MAP_SHARED, ring, IORING_OFF_CQ_RING);
  memset(sqe, 0, sizeof *sqe);
  *sqe = (struct io_uring_sqe){.opcode = op, .fd = fd, .addr = (unsigned long)data, .len = 512};
  *(unsigned *)(sq + p.sq_off.array) = 0;
  ++*(unsigned *)(sq + p.sq_off.tail);
  syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
  return ((struct io_uring_cqe *)(cq + p.cq_off.cqes))->res;
}
int main(void) {
  struct iovec v = {data, 4096};
  fd = open("/dev/mmcblk0", O_RDWR);
  memset(data, 'w', 4096);
  CHECK(pwrite(fd, data, 4096, 0) == 4096);
  memset(data, 0, 4096);
  CHECK(preadv2(fd, &v, 1, 0, 0) == 4096 && data[9] == 'w');
  CHECK(pwritev2(fd, &v, 1, 0, 1 << 20) == -1 && errno == EOPNOTSUPP);
  CHECK(by_ring(IORING_OP_READ) < 0 && by_ring(IORING_OP_WRITE) < 0);
  struct aiocb aio = {.aio_fildes = fd, .aio_buf = data, .aio_nbytes = 512};
  if (!aio_read(&aio)) {
    while (aio_error(&aio) == EINPROGRESS) sched_yield();
    CHECK(aio_error(&aio) != 0);
  }
  int ends[2];
  pipe(ends);
  CHECK(splice(fd, NULL, ends[1], NULL, 512, 0) == -1 && syscall(SYS_splice, fd, NULL, ends[1], NULL, 512, 0) == -1);
  CHECK(syscall(SYS_sendfile, ends[1], fd, NULL, 512) == -1 && syscall(SYS_pread64, fd, data, 512, 0L) == 512);
  CHECK(mmap(0, 4096, 1, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  /* An odd place, length or memory of O_DIRECT. */
  int direct = open("/dev/mmcblk0", O_RDWR | O_DIRECT);
  CHECK(pread(direct, data, 512, 512) == 512 && (fcntl(direct, F_GETFL) & O_DIRECT));
  CHECK(pread(direct, data, 100, 0) == -1 && errno == EINVAL && pread(direct, data, 512, 3) == -1);
  CHECK(pread(direct, data + 3, 512, 0) == -1 && errno == EINVAL);
  CHECK(fcntl(direct, F_SETFL, 0) == 0 && pread(direct, data + 3, 100, 3) == 100);
  /* At the end of a device there is no room. */
  int append = open("/dev/mmcblk0", O_RDWR | O_APPEND);
  CHECK(write(append, data, 512) == -1 && errno == ENOSPC);
  close(append), close(direct);
  /* Two threads, the halves of sectors; then parts of one position. */
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, half, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 20; i++)
    CHECK(pread(fd, data, 512, 8192 + i * 512) == 512 && data[255] == 'a' && data[256] == 'b');
  CHECK(lseek(fd, 1 << 20, SEEK_SET) == 1 << 20);
  static char more[2][100];
  for (int i = 0; i < 2; i++) memset(more[i], '0' + i, 100), pthread_create(&threads[i], NULL, taken, more[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  int count[2] = {0, 0};
  for (int i = 0; i < 100; i++) {
    CHECK(pread(fd, data, 100, (1 << 20) + i * 100) == 100 && data[0] == data[99]);
    count[data[0] == '1']++;
  }
  CHECK(count[0] == 50 && count[1] == 50 && lseek(fd, 0, SEEK_CUR) == (1 << 20) + 10000);
  /* A stream of it; then another file has its number. */
  FILE *stream = fdopen(fd, "r+");
  CHECK(fseek(stream, 4000, SEEK_SET) == 0 && fputs("a stream", stream) > 0 && fflush(stream) == 0);
  CHECK(fseek(stream, 4002, SEEK_SET) == 0 && fread(data, 1, 6, stream) == 6 && !memcmp(data, "stream", 6));
  CHECK(fclose(stream) == 0);
  int log = open("log", O_CREAT | O_WRONLY, 0600);
  CHECK(log == fd && write(log, "log", 3) == 3 && close(log) == 0);
  fd = open("/dev/mmcblk0", O_RDWR);
  syscall(SYS_close_range, fd, ~0u, 0);
  log = open("log", O_WRONLY | O_APPEND);
  CHECK(log == fd && write(log, "more", 4) == 4);
  fd = open("/dev/mmcblk0", O_RDONLY);
  CHECK(pread(fd, data, 512, 0) == 512 && data[0] == 'w');
  stream = popen("cat log; cat <&0 | head -c 3", "r");
  return !fgets(data, 99, stream) || strncmp(data, "logmore", 7);
}"#;

#[test]
fn what_the_library_does_not_know_fails_and_what_it_knows_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compiled(folder, "probe", PROBE);
    let (said, told) = well(folder, &["exec", "--", "./probe"]);
    assert_eq!(said, "", "{told}");
    assert_eq!(std::fs::read(folder.join("log")).unwrap(), b"logmore");
    // The shell redirects the output of a program that bypasses the library. The kernel must refuse
    // its write, not lose it.
    let bare = "int main(void) { return syscall_write() == 1; }";
    let bare = format!(
        "static long syscall_write(void) {{ long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(1L), \"D\"(1L), \"S\"(\"x\"), \"d\"(1L) : \"rcx\", \"r11\", \"memory\"); return r; }}\n{bare}"
    );
    if cfg!(target_arch = "x86_64") {
        compiled(folder, "bare", &bare);
        well(folder, &["exec", "--", "sh", "-c", "./bare > /dev/mmcblk0"]);
    }
    let again = "#include <stdio.h>\nint main(void) { freopen(\"/dev/mmcblk0\", \"w\", stdout); }";
    compiled(folder, "again", again);
    let output = lab(folder, &["exec", "--", "./again"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("freopen"), "{}", text(&output.stderr));
    let timer = "#include <sys/timerfd.h>\nint main(void) { struct itimerspec t = {{0, 0}, {1, 0}};\n\
                 return timerfd_settime(timerfd_create(CLOCK_MONOTONIC, 0), 0, &t, 0); }";
    compiled(folder, "timer", timer);
    assert_eq!(lab(folder, &["exec", "--", "./timer"]).status.code(), Some(2));
}

/// Checks that a named pipe is refused as an image. Opening it would wait for a process that writes
/// to it.
#[test]
fn an_image_that_is_a_pipe_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let output = lab(folder.path(), &["exec", "--image", "pipe", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("a named pipe"), "{}", text(&output.stderr));
}

/// Checks a program that prints the number of each write that has ended, and then loses the power:
/// all printed durable writes must be on the medium. Some of the other writes must be lost, or the
/// test would show nothing.
#[test]
fn durable_writes_are_on_the_medium_when_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = "
import os, sys
def keep(n, bytes):
    if sys.argv[1] == 'flag': os.pwritev(fd, [bytes], n * 512, os.RWF_DSYNC)
    else: os.pwrite(fd, bytes, n * 512)
fd = os.open('log', os.O_RDWR | {'dsync': os.O_DSYNC, 'sync': os.O_SYNC}.get(sys.argv[1], 0))
for n in range(4000):
    keep(n, b'%-512d' % n)
    os.write(1, b'%d\\n' % n)";
    for (way, most) in [("dsync", 0), ("sync", 0), ("flag", 0), ("plain", usize::MAX)] {
        let image = folder.join("card.img");
        std::fs::File::create(&image).unwrap().set_len(7_818_182_656).unwrap();
        let cut = ["exec", "--card", "emmc-queue", "--image", "card.img", "--file", "log=4M"];
        let cut = [&cut[..], &["--cut-at", "30000", "--", "python3", "-c", store, way]].concat();
        let (said, told) = well(folder, &cut);
        let kept = std::fs::File::open(&image).unwrap();
        let lost = said.lines().enumerate().filter(|(n, _)| {
            let mut sector = [0; 512];
            std::os::unix::fs::FileExt::read_exact_at(&kept, &mut sector, *n as u64 * 512).unwrap();
            sector != format!("{n:<512}").as_bytes()
        });
        let lost = lost.count();
        assert!(said.lines().count() > 20 && lost <= most, "{way}: {lost} lost: {told}");
        assert!(way != "plain" || lost > 0, "{way}: the cut finds nothing: {told}");
    }
}

/// Checks waits of threads with a limit that nothing ends: the card's clock is then at the limit.
#[test]
fn waits_with_a_limit_take_the_time_of_the_cards_clock() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static mtx_t plain;
static struct timespec at;
static struct timespec *in(clockid_t clock) {
  clock_gettime(clock, &at);
  at.tv_nsec += 20000000;
  if (at.tv_nsec >= 1000000000) at = (struct timespec){at.tv_sec + 1, at.tv_nsec - 1000000000};
  return &at;
}
static void is(const char *what, clockid_t clock, int late) {
  struct timespec now;
  clock_gettime(clock, &now);
  long long ns = (now.tv_sec - at.tv_sec) * 1000000000LL + now.tv_nsec - at.tv_nsec;
  if (!late || ns < 0 || ns > 1000000) {
    printf("%s: %s, %lld ns after the limit\n", what, late ? "late" : "not late", ns);
    exit(1);
  }
}
#define R CLOCK_REALTIME
#define M CLOCK_MONOTONIC
static void *waits(void *none) {
  int word = 7;
  is("timedlock", R, pthread_mutex_timedlock(&mutex, in(R)) == ETIMEDOUT);
  is("clocklock", M, pthread_mutex_clocklock(&mutex, M, in(M)) == ETIMEDOUT);
  is("mtx", R, mtx_timedlock(&plain, in(R)) == thrd_timedout);
  is("timedrdlock", R, pthread_rwlock_timedrdlock(&rwlock, in(R)) == ETIMEDOUT);
  is("timedwrlock", R, pthread_rwlock_timedwrlock(&rwlock, in(R)) == ETIMEDOUT);
  is("clockrdlock", M, pthread_rwlock_clockrdlock(&rwlock, M, in(M)) == ETIMEDOUT);
  is("clockwrlock", M, pthread_rwlock_clockwrlock(&rwlock, M, in(M)) == ETIMEDOUT);
  long result = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 7, in(M), 0, ~0u);
  is("futex of the monotonic clock", M, result == -1 && errno == ETIMEDOUT);
  result = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 7, in(R), 0, ~0u);
  is("futex of the real clock", R, result == -1 && errno == ETIMEDOUT);
  struct timespec all = {0, 20000000};
  in(M);
  result = syscall(SYS_futex, &word, FUTEX_WAIT, 7, &all, 0, 0);
  is("futex of a duration", M, result == -1 && errno == ETIMEDOUT);
  return none;
}
int main(void) {
  struct timespec one, two;
  char data[512];
  int fd = open("f", O_RDWR);
  if (pread(fd, data, 512, 0) != 512) return 2;
  clock_gettime(R, &one);
  if (timespec_get(&two, TIME_UTC) != TIME_UTC || one.tv_sec != two.tv_sec || one.tv_nsec != two.tv_nsec) return 3;
  mtx_init(&plain, mtx_timed);
  pthread_mutex_lock(&mutex);
  mtx_lock(&plain);
  pthread_rwlock_wrlock(&rwlock);
  pthread_t thread;
  pthread_create(&thread, NULL, waits, NULL);
  return pthread_join(thread, NULL);
}"#;
    compiled(folder.path(), "waits", source);
    well(folder.path(), &["exec", "--file", "f=1M", "--", "./waits"]);
}

/// Checks that a folder cannot have the name of a file of the card.
#[test]
fn no_folder_takes_the_name_of_the_cards_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import os
here = os.open('.', os.O_RDONLY)
for name, at in ('f', None), ('f', here), (os.path.abspath('f'), None), ('./f', None), ('f/', None), ('f//', here):
    try: os.mkdir(name, dir_fd=at)
    except FileExistsError: pass
    else: raise SystemExit(name)
assert os.path.isfile('f')
os.mkdir('g')
";
    well(folder.path(), &["exec", "--file", "f=1M", "--", "python3", "-c", program]);
    assert!(!folder.path().join("f").exists() && folder.path().join("g").is_dir());
}
