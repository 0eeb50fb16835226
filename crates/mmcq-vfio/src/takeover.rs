//! Takes over a PCI function that may still have a transfer under way.
//!
//! A program that was killed leaves its controller with a descriptor table and a transfer. At the
//! end of the program the kernel switches bus mastering off. That interrupts the transfer but does
//! not end it: the transfer continues as soon as bus mastering is on again, into memory that may
//! belong to another program. So every slot is reset first.

use crate::error::Error;
use mmcq::host::Regs;
use mmcq::host::sdhci::regs::{INT_STATUS, PRESENT, RESET, RESET_ALL};
use std::time::Duration;

/// Largest number of polls for the end of a software reset. A reset takes microseconds; the polls
/// allow at least 100 ms.
const LOOKS: u32 = 500;
/// Pause between two polls for the end of a software reset.
const BETWEEN: Duration = Duration::from_micros(200);

/// A PCI function that contains one SD host controller for each of its slots.
pub(crate) trait Function {
    /// Type of the access to the registers of a slot.
    type Registers: Regs;

    /// Switches bus mastering on if `on`, otherwise off: whether the function may access memory.
    fn set_bus_master(&self, on: bool) -> Result<(), Error>;

    /// Resets the PCI function by a call of the kernel, if the kernel can reset it.
    fn reset(&self);

    /// Returns the number and the registers of each slot that has registers.
    fn slots(&self) -> Result<Vec<(u8, Self::Registers)>, Error>;

    /// Waits for this time, between two polls for the end of a reset.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Makes an error about this PCI function with the text `what`.
    fn wrong(&self, what: String) -> Error;
}

/// Stops a function: afterwards no slot does anything before a program commands it. Bus mastering
/// stays off.
pub(crate) fn quiet<F: Function>(function: &F) -> Result<(), Error> {
    function.set_bus_master(false)?;
    function.reset();
    // Bus mastering belongs to the whole function, so an old transfer of any slot could continue.
    for (slot, registers) in function.slots()? {
        if registers.read32(PRESENT) == u32::MAX && registers.read32(INT_STATUS) == u32::MAX {
            // No controller answers, and a second read has confirmed it, since one read may get
            // lost. The driver refuses the slot later, with a reason.
            continue;
        }
        registers.write8(RESET, RESET_ALL);
        let mut looks = 0;
        while registers.read8(RESET) & RESET_ALL != 0 {
            if looks == LOOKS {
                let what = format!("slot {slot} is not reset after {} ms", (BETWEEN * LOOKS).as_millis());
                return Err(function.wrong(what));
            }
            function.pause(BETWEEN);
            looks += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    #[derive(Default)]
    struct Fake {
        steps: Rc<RefCell<Vec<String>>>,
        stuck: Option<u8>,
        dead: bool,
        /// Whether the first read returns all ones, as if it were lost.
        loses: bool,
        paused: Cell<Duration>,
    }

    struct Slot {
        number: u8,
        steps: Rc<RefCell<Vec<String>>>,
        stuck: bool,
        dead: bool,
        loses: Cell<bool>,
        looks: Cell<u8>,
    }

    impl Regs for Slot {
        fn read8(&self, offset: u16) -> u8 {
            assert_eq!(offset, RESET);
            self.looks.set(self.looks.get().saturating_add(1));
            u8::from(self.stuck || self.looks.get() < 3)
        }
        fn read16(&self, _: u16) -> u16 {
            0
        }
        fn read32(&self, _: u16) -> u32 {
            if self.dead | self.loses.take() { u32::MAX } else { 0 }
        }
        fn write8(&self, offset: u16, value: u8) {
            assert_eq!((offset, value), (RESET, RESET_ALL));
            self.steps.borrow_mut().push(format!("slot {} reset", self.number));
        }
        fn write16(&self, _: u16, _: u16) {}
        fn write32(&self, _: u16, _: u32) {}
    }

    impl Function for Fake {
        type Registers = Slot;

        fn set_bus_master(&self, on: bool) -> Result<(), Error> {
            self.steps.borrow_mut().push(format!("bus master {on}"));
            Ok(())
        }

        fn reset(&self) {
            self.steps.borrow_mut().push("function reset".to_owned());
        }

        fn slots(&self) -> Result<Vec<(u8, Slot)>, Error> {
            let slot = |number| Slot {
                number,
                steps: self.steps.clone(),
                stuck: self.stuck == Some(number),
                dead: self.dead,
                loses: Cell::new(self.loses),
                looks: Cell::new(0),
            };
            Ok(vec![(0, slot(0)), (1, slot(1))])
        }

        fn pause(&self, time: Duration) {
            self.paused.set(self.paused.get() + time);
        }

        fn wrong(&self, what: String) -> Error {
            Error::Registers { address: "00:04.0".parse().unwrap(), what }
        }
    }

    #[test]
    fn every_slot_is_reset_while_the_function_reaches_no_memory() {
        let function = Fake::default();
        quiet(&function).unwrap();
        let expected = ["bus master false", "function reset", "slot 0 reset", "slot 1 reset"];
        assert_eq!(*function.steps.borrow(), expected);
        assert_eq!(function.paused.get(), BETWEEN * 4, "each is reset at the third look");
    }

    #[test]
    fn a_slot_that_does_not_come_to_rest_is_refused() {
        let function = Fake { stuck: Some(1), ..Fake::default() };
        let error = quiet(&function).unwrap_err().to_string();
        assert_eq!(error, "0000:00:04.0: slot 1 is not reset after 100 ms");
        assert_eq!(function.paused.get(), BETWEEN * 2 + Duration::from_millis(100));
        assert!(!function.steps.borrow().iter().any(|step| step == "bus master true"));
    }

    /// Checks that a takeover resets a controller's slot although the first read of the slot's
    /// registers is lost. Without the reset, the slot's old transfer would continue as soon as the
    /// controller may access memory.
    #[test]
    fn a_slot_is_reset_although_a_read_of_it_is_lost() {
        let function = Fake { loses: true, ..Fake::default() };
        quiet(&function).unwrap();
        assert_eq!(function.steps.borrow()[2..], ["slot 0 reset", "slot 1 reset"]);
    }

    #[test]
    fn where_nothing_answers_nothing_is_written() {
        let function = Fake { dead: true, ..Fake::default() };
        quiet(&function).unwrap();
        assert_eq!(*function.steps.borrow(), ["bus master false", "function reset"]);
    }
}
