//! Blocking calls that sleep: a wake-up that is lost leaves every thread asleep, which loom
//! reports.

use super::rig::Stack;
use super::*;

fn reads_lent<const N: usize>(stack: &Stack<N>, lba: u64, idle: impl FnMut(&Idle)) {
    let mut memory = [0u64; 64];
    let bytes = NonNull::from(memory.as_bytes());
    let request = Request::new(Kind::Read { lba, blocks: 1 }, DmaBuf::EMPTY);
    // SAFETY: `memory` outlives the call.
    let output = unsafe { stack.lent(request, bytes, idle) };
    assert_eq!(output.map(|output| output.bytes), Ok(512));
}

#[test]
fn loom_a_thread_that_lends_memory_sleeps_and_is_woken() {
    permuted("asleep over lent memory", || {
        let (rig, sleepers) = (Rig::<1>::new(false), Sleepers::new());
        let irq = rig.notifies(1, &sleepers);
        reads_lent(&rig.stack, 7, |idle| sleepers.idle(idle));
        irq.join().unwrap();
        assert_eq!(rig.moved(), 1);
        rig.end();
    });
}

/// Tests two sleeps in a row: the wake-up of the first sleep must not end the second one.
#[test]
fn loom_a_thread_that_runs_a_future_sleeps_and_is_woken() {
    permuted("asleep over a future", || {
        let (rig, sleepers) = (Rig::<1>::new(false), Sleepers::new());
        let irq = rig.notifies(2, &sleepers);
        let chain = async {
            for rca in 1..=2 {
                assert!(rig.stack.command(send_status(rca), 1_000_000).await.is_ok());
            }
        };
        rig.stack.block_on(chain, |idle| sleepers.idle(idle));
        irq.join().unwrap();
        rig.end();
    });
}

/// Tests two threads that sleep in blocking calls. Both share the variable `LAST`, which names the
/// call that polled last. So a poll of one thread may make the other thread poll one more time, and
/// nothing worse.
#[test]
fn loom_two_threads_sleep_and_each_is_woken() {
    permuted("two asleep", || {
        let (rig, sleepers) = (Rig::<2>::new(false), Sleepers::new());
        let irq = rig.notifies(2, &sleepers);
        let (stack, theirs) = (rig.stack.clone(), sleepers.clone());
        let other = thread::spawn(move || reads_lent(&stack, 100, |idle| theirs.idle(idle)));
        reads_lent(&rig.stack, 7, |idle| sleepers.idle(idle));
        other.join().unwrap();
        irq.join().unwrap();
        assert_eq!(rig.moved(), 2);
        rig.end();
    });
}

/// Tests a semaphore, which remembers that it was given: the thread need not call `may_sleep`.
#[test]
fn loom_a_semaphore_that_is_given_after_the_interrupt_is_enough() {
    permuted("asleep on a semaphore", || {
        let (rig, semaphore) = (Rig::<1>::new(false), Signal::new());
        let (stack, line, given) = (rig.stack.clone(), rig.line.clone(), semaphore.clone());
        let irq = thread::spawn(move || {
            line.wait();
            stack.on_irq();
            given.raise();
        });
        reads_lent(&rig.stack, 7, |_| semaphore.wait());
        irq.join().unwrap();
        rig.end();
    });
}

/// Tests `wfi` with interrupts masked: the line alone ends the sleep, and the thread's own turn
/// lowers the line.
#[test]
fn loom_a_thread_with_interrupts_masked_sleeps_on_the_line() {
    permuted("asleep on the line", || {
        let rig = Rig::<1>::new(false);
        // SAFETY: the driver stays in its place.
        rig.stack.with(|engine| unsafe { engine.host_mut() }.unwrap().level = true);
        reads_lent(&rig.stack, 7, |_| rig.line.level());
        let status = rig.stack.block_on(rig.stack.command(send_status(1), 1_000_000), |_| rig.line.level());
        assert!(status.is_ok());
        assert_eq!(rig.moved(), 1);
        rig.end();
    });
}
