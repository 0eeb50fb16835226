//! Tests of the whole stack on the driver of the queue engine, with a controller that is otherwise
//! used like any other.

use crate::{queue, timed};
use mmcq::engine::Config;
use queue::{FORMS, Parts, Rig};
use timed::erased::{Erased, constants};
use timed::{drive, filled};

type Stack = timed::On<Erased<{ constants::<queue::Driver>() }>>;

#[test]
fn a_stack_drives_the_controller_as_if_it_had_no_queue_engine() {
    for form in FORMS {
        let queue::Built { host, model, memory, time, .. } = Rig::built(Parts::new(form));
        let stack: Stack = timed::on(Erased::new(host), Config::DEFAULT);
        let up = mmcq::card::bring_up(&stack, filled(8, 0), mmcq::card::Options::DEFAULT);
        let (card, _) = drive(&stack, &model, &time, up);
        assert!(card.unwrap().params.sectors > 1 << 20, "{form:?}");
        let disk = mmcq::block::BlockDevice::new(&stack);
        let (result, _) = drive(&stack, &model, &time, disk.write(800, filled(8, 0xa7)));
        result.unwrap();
        drive(&stack, &model, &time, disk.flush()).unwrap();
        let (result, read) = drive(&stack, &model, &time, disk.read(800, filled(8, 0)));
        result.unwrap();
        assert!(read.iter().all(|&byte| byte == 0xa7));
        assert_eq!(memory.violations(), Vec::<String>::new(), "{form:?}");
        assert_eq!(model.borrow().first_violation(), None, "{form:?}");
    }
}
