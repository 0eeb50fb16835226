//! Tests of the supervisor under embassy, with a card that loses its state or is exchanged. The
//! supervisor is a task that is polled only when it is woken.

use crate::{tasks, world};
use aligned::{A4, Aligned};
use block_device_driver::BlockDevice as _;
use embassy_time::Timer;
use mmcq::card::{Event, Options, bring_up};
use mmcq::engine::{DmaBuf, Error, RecoveryStep};
use mmcq_embassy::{Clock, Disk, supervise};
use mmcq_sim::slot::Controller;
use std::cell::{Cell, RefCell};
use tasks::{drive, exclusive, join};
use world::World;

fn memory(blocks: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; blocks * 64].into_boxed_slice());
    // SAFETY: the bytes are the memory of the words, and no more.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), blocks * 512) })
}

#[test]
fn a_kept_card_comes_back() {
    let _alone = exclusive();
    let world = World::new("sdhc-16g-hs");
    let stack = world.stack_with(Clock::<0>::TIMER);
    let heard = RefCell::new(Vec::new());
    let came_back = Cell::new(false);
    drive(&world, stack, [Box::pin(async { Clock::<0>::run(stack).await })], async {
        let (card, scratch) = bring_up(stack, memory(1), Options::DEFAULT).await;
        let supervisor = async {
            let scratch = supervise(stack, scratch, Options::DEFAULT, card.unwrap(), |event| {
                heard.borrow_mut().push(*event)
            });
            came_back.set(scratch.await.len_bytes() == 512);
        };
        let user = async {
            let mut disk = Disk::<_, 8, A4>::new(stack, memory(8)).unwrap();
            let blocks = [Aligned::<A4, _>([0x5a; 512]); 8];
            disk.write(100, &blocks).await.unwrap();
            // The card loses its state: the supervisor initialises it again, and no request fails.
            world.model.borrow_mut().card_mut().unwrap().brown_out(world.time.now());
            let mut back = [Aligned::<A4, _>([0; 512]); 8];
            disk.read(100, &mut back).await.unwrap();
            assert!(back == blocks);
            assert_eq!(stack.with(|engine| engine.stats().recovery_steps[RecoveryStep::Reinit as usize]), 1);
            // The card is removed and inserted again.
            let out = world.model.borrow_mut().remove(world.time.now()).unwrap();
            Timer::after_millis(300).await;
            disk.read(100, &mut back).await.unwrap_err();
            world.model.borrow_mut().insert(out, world.time.now());
            Timer::after_millis(500).await;
            // The card was away, so its content may have changed. The program must check it and
            // rebind.
            assert_eq!(disk.read(100, &mut back).await.unwrap_err().error, Error::Changed);
            disk.rebind();
            disk.read(100, &mut back).await.unwrap();
            assert!(back == blocks);
            // The program ends the supervisor.
            assert!(stack.with(|engine| engine.dismiss_supervisor()));
            stack.poll();
        };
        join(supervisor, user).await;
    });
    assert!(matches!(heard.borrow()[..], [Event::Removed, Event::Inserted(Ok(_)), Event::Dismissed]));
    assert!(came_back.get());
    assert!(world.memory.violations().is_empty());
    assert_eq!(world.model.borrow().protocol_violations(), 0);
}
