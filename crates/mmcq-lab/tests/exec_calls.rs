//! Tests what programs on the card ask the kernel for by number, and what `mmcq exec` says about a
//! cut that never came, paths that are equal, waits for others, and memory with a hole.

use super::programs::{compiled, well};
use crate::watchdog;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn mmcq(folder: &Path, arguments: &[&str]) -> Output {
    let _alive = watchdog::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    let cache: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache");
    command.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", cache).output().unwrap()
}

/// Runs the laboratory, and returns the exit code and the standard error.
fn told(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = mmcq(folder, arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn calls_by_number_see_the_file_and_not_its_stand_in() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import ctypes, os, platform, struct
numbers = {'x86_64': (5, 262, 332, 77, 285), 'aarch64': (80, 79, 291, 46, 47)}
if platform.machine() in numbers:
    fstat, at, statx, cut, room = numbers[platform.machine()]
    call = ctypes.CDLL(None, use_errno=True).syscall
    buffer = ctypes.create_string_buffer(512)
    def size(place): return struct.unpack_from('q', buffer, place)[0]
    fd = os.open('f', os.O_RDWR)
    there = ctypes.c_char_p(b'f')
    for begin in (lambda: call(fstat, fd, buffer), lambda: call(at, fd, b'', buffer, 0x1000), lambda: call(at, -100, there, buffer, 0)):
        ctypes.memset(buffer, 0, 512)
        assert begin() == 0 and size(48) == 1 << 20, size(48)
    for begin in (lambda: call(statx, fd, b'', 0x1000, 0x7ff, buffer), lambda: call(statx, -100, there, 0, 0x7ff, buffer)):
        ctypes.memset(buffer, 0, 512)
        assert begin() == 0 and size(40) == 1 << 20, size(40)
        assert struct.unpack_from('H', buffer, 28)[0] >> 12 == 8, 'an ordinary file'
    assert call(cut, fd, 0) == 0 and os.fstat(fd).st_size == 1 << 20, 'its length stays'
    assert call(room, fd, 0, 0, 4096) == -1 and ctypes.get_errno() == 95
";
    let exec = ["exec", "--file", "f=1M", "--", "python3", "-c", program];
    let (code, said) = told(folder.path(), &exec);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_bad_address_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
fd = os.open('/dev/mmcblk0', os.O_RDWR)
for call in (library.pread, library.pwrite):
    for bytes in (512, 100, 65536):
        assert call(fd, ctypes.c_void_p(4096), ctypes.c_size_t(bytes), ctypes.c_long(0)) == -1
        assert ctypes.get_errno() == 14, ctypes.get_errno()
";
    let (code, said) = told(folder.path(), &["exec", "--", "python3", "-c", program]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_cut_that_never_came_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import os, sys
fd = os.open('/dev/mmcblk0', os.O_RDWR)
for n in range(3):
    os.pwrite(fd, b'x' * 512, n << 10)
    os.fsync(fd)
sys.exit(int(sys.argv[1]))
";
    let run = |options: &[&str], code: &str| {
        let program = ["--", "python3", "-c", program, code];
        told(folder.path(), &[&["exec"], options, &program[..]].concat())
    };
    for options in [["--cut-after-flush", "100"], ["--cut-at", "900000000"]] {
        let (code, said) = run(&[&options[..], &["--quiet"]].concat(), "0");
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains("the supply did not fail") && said.contains("3 flushes"), "{said}");
        // The code of a program that failed says more.
        let (code, said) = run(&options, "7");
        assert!(code == Some(7) && said.contains("the supply did not fail"), "{said}");
    }
    let (code, said) = run(&["--cut-after-flush", "2"], "0");
    assert!(code == Some(0) && said.contains("the supply failed"), "{said}");
    let (code, said) = run(&["--cut-after-flush", "0"], "0");
    assert!(code == Some(2) && said.contains("from 1 on"), "{said}");
    let help = mmcq(folder.path(), &["exec", "--help"]).stdout;
    assert!(String::from_utf8(help).unwrap().contains("125 a cut was asked for and none came"));
}

#[test]
fn a_path_stands_for_one_place_on_the_card() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for options in [
        &["--file", "a=1M", "--file", "a=2M"][..],
        &["--file", "a=1M", "--file", "sub/../a=1M"],
        &["--file", "a=1M", "--at", "a"],
    ] {
        let (code, said) = told(folder.path(), &[&["exec"], options, &["--", "true"]].concat());
        assert!(code == Some(2) && said.contains("two places on the card"), "{options:?}: {said}");
    }
    let (code, said) = told(folder.path(), &["exec", "--set", "job.bs=4k", "--", "true"]);
    assert!(code == Some(2) && said.contains("a program has no jobs"), "{said}");
    let quiet = ["exec", "-q", "--", "head", "-c", "512", "/dev/mmcblk0"];
    assert_eq!(told(folder.path(), &quiet), (Some(0), String::new()));
}

/// Checks that a wait for another process that moved the clock is told, and no other wait is.
#[test]
fn a_wait_that_moved_the_clock_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import os, select, sys
card = os.open('/dev/mmcblk0', os.O_RDWR)
os.pread(card, 512, 0)
out, into = os.pipe()
if sys.argv[1] == 'other' and os.fork() == 0:
    sum(range(5_000_000))
    os.write(into, b'x')
    os._exit(0)
came = select.select([out], [], [], 100000 if sys.argv[1] == 'other' else 0.02)[0]
assert bool(came) == (sys.argv[1] == 'other')
";
    for (who, is_told) in [("other", true), ("alone", false)] {
        let (code, said) = told(folder.path(), &["exec", "--", "python3", "-c", program, who]);
        assert_eq!((code, said.contains("moved the clock")), (Some(0), is_told), "{who}: {said}");
    }
}

/// Checks that a thread gets what another has freed long before the limit of its wait.
#[test]
fn what_is_freed_before_the_limit_of_a_wait_is_got() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static mtx_t plain;
static sem_t sem;
static int fd, word = 7;
static atomic_int begun;
static struct timespec *in(clockid_t clock) {
  static struct timespec at;
  clock_gettime(clock, &at);
  at.tv_nsec += 20000000;
  if (at.tv_nsec >= 1000000000) at = (struct timespec){at.tv_sec + 1, at.tv_nsec - 1000000000};
  return &at;
}
static void *waits(void *nth) {
  struct timespec all = {0, 20000000};
  char data[512];
  /* A thread that has used the card holds the card's clock. */
  int got = pread(fd, data, 512, 0) != 512;
  begun = 1;
  switch ((long)nth) {
    case 0: got = !pthread_mutex_timedlock(&mutex, in(CLOCK_REALTIME)); break;
    case 1: got = mtx_timedlock(&plain, in(CLOCK_REALTIME)) == thrd_success; break;
    case 2: got = !pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, in(CLOCK_MONOTONIC)); break;
    case 3: got = !sem_timedwait(&sem, in(CLOCK_REALTIME)); break;
    case 4:
      got = !syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 7, in(CLOCK_MONOTONIC), 0, ~0u) || errno == EAGAIN;
      break;
    case 5: got = !syscall(SYS_futex, &word, FUTEX_WAIT, 7, &all, 0, 0) || errno == EAGAIN; break;
  }
  printf("%ld: %s\n", (long)nth, got ? "got" : "late");
  return NULL;
}
int main(void) {
  char data[512];
  fd = open("f", O_RDWR);
  if (pread(fd, data, 512, 0) != 512) return 2;
  mtx_init(&plain, mtx_timed);
  sem_init(&sem, 0, 0);
  pthread_mutex_lock(&mutex);
  mtx_lock(&plain);
  pthread_rwlock_wrlock(&rwlock);
  for (long nth = 0; nth < 6; nth++) {
    pthread_t thread;
    begun = 0;
    pthread_create(&thread, NULL, waits, (void *)nth);
    while (!begun) usleep(100);
    usleep(5000);
    switch (nth) {
      case 0: pthread_mutex_unlock(&mutex); break;
      case 1: mtx_unlock(&plain); break;
      case 2: pthread_rwlock_unlock(&rwlock); break;
      case 3: sem_post(&sem); break;
      default: word = 8, syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0);
    }
    pthread_join(thread, NULL);
    word = 7;
  }
}"#;
    compiled(folder.path(), "frees", source);
    let (said, told) = well(folder.path(), &["exec", "--file", "f=1M", "--", "./frees"]);
    let got: String = (0..6).map(|nth| format!("{nth}: got\n")).collect();
    assert_eq!(said, got, "{told}");
}

/// Checks that memory with a hole is an error of a read or write, as of the kernel's, and does not
/// kill the program.
#[test]
fn memory_with_a_hole_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#define PAGE 4096
#define FAILS(it) errno = 0; if ((it) != -1 || errno != EFAULT) printf("line %d: %s (errno %d)\n", __LINE__, #it, errno)
int main(void) {
  int fd = open("f", O_RDWR);
  for (int pages = 3; pages <= 17; pages += 14) {
    char *at = mmap(0, pages * PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at + PAGE, PAGE);
    FAILS(pwrite(fd, at, pages * PAGE, 0));
    FAILS(pread(fd, at, pages * PAGE, 0));
    FAILS(pwrite(fd, at + 700, 2 * PAGE, 512));
    struct iovec v[2] = {{at, 512}, {at + PAGE - 512, PAGE + 1024}};
    FAILS(pwritev(fd, v, 2, 0));
    FAILS(preadv(fd, v, 2, 0));
    if (pwrite(fd, at + 2 * PAGE, PAGE, 0) != PAGE || pread(fd, at, PAGE, 0) != PAGE) puts("whole memory");
  }
}"#;
    compiled(folder.path(), "hole", source);
    let (said, told) = well(folder.path(), &["exec", "--file", "f=1M", "--", "./hole"]);
    assert_eq!(said, "", "{told}");
}
