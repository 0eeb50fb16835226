//! Driver of any type behind one type, called by a table of functions. The stack is built once for
//! this type, not once for each driver of a program that has many.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::host::{
    BusOp, Caps, Cause, ChainHost, CommandQueueHost, Direction, DmaError, Events, FastEnd, Host, Phase,
    Segment, StartError, Step,
};
use mmcq::spec::command::Command;
use std::any::Any;
use std::task::Waker;

/// Makes the constants of [`Host`] bits, and its methods those of [`Driver`] and [`Erased`].
macro_rules! erased {
    ($this:ident;
     const { $($constant:ident = $bit:literal;)* }
     ref { $($says:ident($($said:ident: $of:ty),*) -> $answer:ty;)* }
     mut { $($does:ident($($given:ident: $by:ty),*) -> $result:ty;)* }) => {
        /// Names of the constants and methods of [`Host`] that an [`Erased`] passes on: all of them.
        pub const NAMES: &[&str] =
            &[$(stringify!($constant),)* $(stringify!($says),)* $(stringify!($does),)*];

        /// Returns the constants of this driver, as the parameter of [`Erased`].
        pub const fn constants<H: Host>() -> u16 {
            0 $(| (H::$constant as u16) << $bit)*
        }

        /// The methods of [`Host`], for a table of functions.
        trait Driver: Any {
            $(fn $says(&self, $($said: $of),*) -> $answer;)*
            $(fn $does(&mut self, $($given: $by),*) -> $result;)*
        }

        impl<H: Host + 'static> Driver for H {
            $(fn $says(&$this, $($said: $of),*) -> $answer {
                Host::$says($this, $($said),*)
            })*
            $(fn $does(&mut $this, $($given: $by),*) -> $result {
                Host::$does($this, $($given),*)
            })*
        }

        // SAFETY: all calls go to the driver inside, in their order and with the segments unchanged.
        unsafe impl<const CONSTANTS: u16> Host for Erased<CONSTANTS> {
            $(const $constant: bool = CONSTANTS >> $bit & 1 != 0;)*
            $(fn $says(&$this, $($said: $of),*) -> $answer {
                $this.0.$says($($said),*)
            })*
            $(fn $does(&mut $this, $($given: $by),*) -> $result {
                $this.0.$does($($given),*)
            })*
        }
    };
}

erased! { self;
    const {
        CONTINUES = 0;
        ALWAYS_CONTINUES = 1;
        CONTINUES_BY_REQUEST = 2;
        CONCURRENT = 3;
        EARLY_R1 = 4;
        CARD_IRQ = 5;
        ONE_LINE = 6;
        WAKES = 7;
        DEFERS_BY_REQUEST = 8;
    }
    ref {
        caps() -> &Caps;
        is_prompt(segment: &Segment, direction: Direction) -> bool;
        goes_on_with(segment: &Segment, blocks: u32, direction: Direction) -> bool;
        command_hangs() -> bool;
        dat0_busy() -> bool;
        dat_levels() -> u8;
        present() -> bool;
        retune_ns() -> u64;
        supply_ma() -> u16;
        write_protected() -> bool;
    }
    mut {
        map(segment: &mut Segment, direction: Direction) -> Result<(), DmaError>;
        unmap(segment: &Segment, direction: Direction) -> ();
        start(phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;
        start_fast(phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;
        start_concurrent(command: &Command) -> Result<(), StartError>;
        ack_concurrent() -> Option<Result<u32, Cause>>;
        abort_concurrent() -> ();
        ack(segments: &[Segment]) -> Events;
        ack_fast(segments: &[Segment]) -> Result<FastEnd, Events>;
        early_r1() -> Option<u32>;
        interrupt_lost() -> ();
        set_bus(op: BusOp, first: bool, now_ns: u64) -> Step;
        isolate() -> bool;
        take_waker() -> Option<Waker>;
        queue() -> Option<&mut dyn CommandQueueHost>;
        chain() -> Option<&mut dyn ChainHost>;
        card_irq(on: bool) -> ();
    }
}

/// A driver of any type whose constants are these ([`constants`]): the engine sees the constants
/// and calls of that driver.
pub struct Erased<const CONSTANTS: u16>(Box<dyn Driver>);

impl<const CONSTANTS: u16> Erased<CONSTANTS> {
    /// Puts a driver behind this type. A driver with other constants does not compile.
    pub fn new<H: Host + 'static>(host: H) -> Self {
        const { assert!(constants::<H>() == CONSTANTS, "the driver's constants are others") }
        Erased(Box::new(host))
    }

    /// Returns the driver.
    ///
    /// # Panics
    /// The driver is of another type.
    pub fn get<H: Host + 'static>(&self) -> &H {
        let driver: &dyn Any = &*self.0;
        driver.downcast_ref().expect("a driver of another type")
    }

    /// Returns the driver, to change it.
    ///
    /// # Panics
    /// The driver is of another type.
    pub fn get_mut<H: Host + 'static>(&mut self) -> &mut H {
        let driver: &mut dyn Any = &mut *self.0;
        driver.downcast_mut().expect("a driver of another type")
    }
}
