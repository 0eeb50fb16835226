//! A rig: the driver of the queue engine (CQHCI) over its model, with a card whose queue is on,
//! without the stack's engine above.

#![allow(dead_code, reason = "each test binary uses its own part")]

use mmcq::host::sdhci::{self, Cqhci, CqhciConfig, CqhciQuirks, Table, TaskList};
use mmcq::host::{
    BusOp, CommandQueueHost, Direction, Host, Phase, QueueEvents, QueueFault, QueueSettings, Segment, Step,
    Task, TaskFlags, Timing, Width,
};
use mmcq::spec::command::{Command, Resp, emmc};
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::faults::{Faults, Plan};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{BusEvent, CqhciConfig as Engine, Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

pub type Driver = Cqhci<Port, ShadowMemory, 8, 4>;

/// The form of the engine's task descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Task descriptors of 64 bits.
    Narrow,
    /// Task descriptors of 128 bits.
    Wide,
    /// Task descriptors of 128 bits, with transfer descriptors of 96 bits.
    Short,
}

pub const FORMS: [Form; 3] = [Form::Narrow, Form::Wide, Form::Short];

/// The memory of a task, in several segments.
struct Memory {
    bytes: &'static mut [u8],
    segments: Vec<Segment>,
    direction: Direction,
}

pub struct Rig {
    pub host: Driver,
    pub model: Rc<RefCell<Sdhci>>,
    pub memory: ShadowMemory,
    pub time: Time,
    pub port: Port,
    tasks: [Option<Memory>; 32],
    commands: Rc<RefCell<Vec<u8>>>,
}

/// The settings from which a rig is made.
#[derive(Clone)]
pub struct Parts {
    pub form: Form,
    pub card: &'static str,
    pub engine: Engine,
    pub quirks: CqhciQuirks,
    pub timer_hz: Option<u32>,
    /// Time of a register access, in ns.
    pub access_ns: u64,
}

impl Parts {
    pub fn new(form: Form) -> Self {
        let short = form == Form::Short;
        Parts {
            form,
            card: "emmc-queue",
            engine: Engine { short_descriptors: short, ..Engine::INTEL },
            quirks: if short { CqhciQuirks::SHORT_DESCRIPTORS } else { CqhciQuirks::NONE },
            timer_hz: None,
            access_ns: 0,
        }
    }
}

/// The parts of a rig before any command was sent.
pub struct Built {
    pub host: Driver,
    pub model: Rc<RefCell<Sdhci>>,
    pub memory: ShadowMemory,
    pub time: Time,
    pub port: Port,
}

impl Rig {
    /// Returns a rig whose card is identified, on eight lines at 52 MHz, with the queues of card
    /// and controller on.
    pub fn new(form: Form) -> Rig {
        Rig::on(Parts::new(form), &QueueSettings::new(1))
    }

    pub fn on(parts: Parts, settings: &QueueSettings) -> Rig {
        let mut rig = Rig::off(parts);
        rig.host.enable_queue(settings).unwrap();
        rig
    }

    /// Makes driver, model, memory, clock and registers, and sends nothing.
    pub fn built(parts: Parts) -> Built {
        Rig::built_with(parts, sdhci::SdhciConfig::emmc_18())
    }

    /// Makes the parts of a rig with this configuration of the driver.
    pub fn built_with(parts: Parts, driver: sdhci::SdhciConfig) -> Built {
        let good = SdhciConfig::GENERIC_4_20;
        let bits = match parts.form {
            Form::Narrow => 0,
            Form::Wide => 3 << 27,
            Form::Short => 1 << 28,
        };
        let config = SdhciConfig {
            // A controller of version 3 uses 64-bit addresses in descriptors of 12 bytes.
            spec: if parts.form == Form::Short { 2 } else { good.spec },
            capabilities: good.capabilities & !(3 << 27) | bits,
            command_queue: Some(parts.engine),
            ..good
        };
        let sees = if parts.form == Form::Narrow { MemoryConfig::BITS32 } else { MemoryConfig::BITS64 };
        let memory = ShadowMemory::new(sees);
        let time = Time::new();
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card(parts.card)))));
        let port = Port::new(model.clone(), time.clone(), parts.access_ns, parts.access_ns);
        let table = Box::leak(Box::new(Table::new()));
        let list = Box::leak(Box::new(TaskList::new()));
        let driver = sdhci::Sdhci::new(port.clone(), memory.clone(), table, driver).unwrap();
        // SAFETY: the model has its queue engine at this offset.
        let mut queue = unsafe { CqhciConfig::at(parts.engine.offset) }.quirks(parts.quirks);
        queue.timer_hz = parts.timer_hz;
        let host = Cqhci::new(driver, list, queue);
        Built { host, model, memory, time, port }
    }

    /// Returns a rig as [`on`](Self::on) does, but with the controller's queue engine off.
    pub fn off(parts: Parts) -> Rig {
        let Built { host, model, memory, time, port } = Rig::built(parts);
        let commands = Rc::new(RefCell::new(Vec::new()));
        let mut rig = Rig { host, model, memory, time, port, tasks: Default::default(), commands };
        rig.bring_up();
        let said = rig.commands.clone();
        rig.model.borrow_mut().set_log(Some(Box::new(move |event| {
            if let BusEvent::Command { index, .. } = event {
                said.borrow_mut().push(index);
            }
        })));
        rig
    }

    fn bring_up(&mut self) {
        self.bus(BusOp::ResetAll);
        self.bus(BusOp::PowerOn);
        self.bus(BusOp::Clock(400_000));
        self.run(2_000_000);
        self.command(0, 0, Resp::None);
        while self.command(1, 0x40ff_8080, Resp::R3) >> 31 == 0 {
            self.run(10_000_000);
        }
        self.command(2, 0, Resp::R2);
        self.command(3, 1 << 16, Resp::R1);
        self.command(7, 1 << 16, Resp::R1b);
        self.command(6, 0x03b7_0200, Resp::R1b);
        self.command(6, 0x03b9_0100, Resp::R1b);
        self.bus(BusOp::Width(Width::W8));
        self.bus(BusOp::Timing(Timing::HighSpeed));
        self.bus(BusOp::Clock(52_000_000));
        self.card_queue(true);
    }

    /// Switches the card's queue on or off, by CMD6.
    pub fn card_queue(&mut self, on: bool) {
        self.command(6, 0x030f_0000 | u32::from(on) << 8, Resp::R1b);
        assert_eq!(self.status(), 0x900);
    }

    pub fn status(&mut self) -> u32 {
        self.command(13, 1 << 16, Resp::R1)
    }

    pub fn now(&self) -> u64 {
        self.time.now()
    }

    pub fn run(&mut self, ns: u64) {
        let until = self.now() + ns;
        while self.model.borrow_mut().advance(until) < until {}
        self.time.set(until);
    }

    /// Advances to the next interrupt, for at most `ns`. Returns whether the interrupt came.
    pub fn interrupt(&mut self, ns: u64) -> bool {
        if !self.model.borrow().irq() {
            let reached = self.model.borrow_mut().advance(self.now() + ns);
            self.time.set(reached.max(self.now()));
        }
        self.model.borrow().irq()
    }

    pub fn bus(&mut self, op: BusOp) {
        let mut step = self.host.set_bus(op, true, self.now());
        while let Step::Wait(at_ns) = step {
            self.run(at_ns - self.now());
            step = self.host.set_bus(op, false, self.now());
        }
        assert_eq!(step, Step::Done, "{op:?}");
    }

    /// Sends a command as an ordinary phase. Returns its response, or `None` if it failed.
    pub fn try_command(&mut self, command: Command) -> Option<u32> {
        self.host.start(&Phase::of(command), &[], 1_000_000_000).ok()?;
        for _ in 0..10 {
            assert!(self.interrupt(2_000_000_000), "{command:?} has no end");
            if let Some(end) = self.host.ack(&[]).phase {
                return end.ok().map(|done| done.response.words[0]);
            }
        }
        panic!("{command:?} has no end");
    }

    pub fn command(&mut self, index: u8, arg: u32, resp: Resp) -> u32 {
        self.try_command(Command::new(index, arg, resp)).unwrap_or_else(|| panic!("CMD{index} {arg:#x}"))
    }

    /// Prepares a task; data of more than one block are in two segments.
    pub fn prepare(&mut self, slot: u8, direction: Direction, sector: u32, blocks: u16) {
        self.prepare_with(slot, direction, sector, blocks, TaskFlags::NONE);
    }

    pub fn prepare_with(
        &mut self,
        slot: u8,
        direction: Direction,
        sector: u32,
        blocks: u16,
        flags: TaskFlags,
    ) {
        self.release(slot);
        let bytes = usize::from(blocks) * 512;
        let words: &'static mut [u64] = Box::leak(vec![0; bytes / 8].into_boxed_slice());
        // SAFETY: these are the bytes of one piece of memory, with its length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), bytes) };
        if direction == Direction::Write {
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = content(slot, sector, at);
            }
        }
        let half = if blocks > 1 { bytes.len() / 1024 * 512 } else { 0 };
        let mut segments = Vec::new();
        for (at, len) in [(0, half), (half, bytes.len() - half)] {
            if len > 0 {
                // SAFETY: the memory is never freed, and only this task uses it.
                let mut segment =
                    unsafe { Segment::new(NonNull::from(&mut bytes[at]), len.try_into().unwrap(), 0) };
                self.host.map(&mut segment, direction).unwrap();
                segments.push(segment);
            }
        }
        let task = Task { direction, address: sector, blocks, flags, context: 0 };
        self.host.prepare_task(slot, &task, &segments).unwrap();
        self.tasks[usize::from(slot)] = Some(Memory { bytes, segments, direction });
    }

    /// Unmaps the memory of a task that the driver has released. Returns what was read.
    pub fn release(&mut self, slot: u8) -> Option<&'static [u8]> {
        let task = self.tasks[usize::from(slot)].take()?;
        for segment in &task.segments {
            self.host.unmap(segment, task.direction);
        }
        Some(task.bytes)
    }

    pub fn read(&mut self, slot: u8, sector: u32) {
        self.prepare(slot, Direction::Read, sector, 8);
    }

    pub fn write(&mut self, slot: u8, sector: u32) {
        self.prepare(slot, Direction::Write, sector, 8);
    }

    pub fn ring(&mut self, slots: u32) {
        assert_eq!(self.host.ring(slots), slots);
    }

    /// Waits for the next events of the engine. Each of at most four waits for an interrupt takes
    /// at most a second.
    pub fn events(&mut self) -> QueueEvents {
        for _ in 0..4 {
            assert!(self.interrupt(1_000_000_000), "nothing happens: {:?}", self.host.queue_state());
            let events = self.host.ack_queue();
            if events.done | events.stale | events.cleared != 0
                || events.halted
                || events.emptied
                || events.fault.is_some()
            {
                return events;
            }
        }
        panic!("interrupts of nothing");
    }

    /// Waits until these tasks are done. Returns the slots in the order in which they ended.
    pub fn complete(&mut self, mut slots: u32) -> Vec<u8> {
        let mut order = Vec::new();
        while slots != 0 {
            let events = self.events();
            assert_eq!(events.fault, None);
            assert!(
                events.done != 0 && events.done & !slots == 0 && events.stale == 0,
                "{events:?} of {slots:#x}"
            );
            order.extend((0..32u8).filter(|slot| events.done >> slot & 1 == 1));
            slots &= !events.done;
        }
        self.quiet();
        order
    }

    pub fn fault(&mut self) -> QueueFault {
        loop {
            if let Some(fault) = self.events().fault {
                return fault;
            }
        }
    }

    pub fn halt(&mut self) -> QueueEvents {
        self.host.halt_queue().unwrap();
        let mut done = 0;
        for _ in 0..8 {
            let events = self.events();
            done |= events.done;
            if events.halted {
                return QueueEvents { done, ..events };
            }
        }
        panic!("no halt");
    }

    pub fn clear_all(&mut self) -> u32 {
        self.host.clear_tasks().unwrap();
        let events = self.events();
        assert!(events.emptied);
        events.cleared
    }

    /// Recovers: resets the command and data lines, stops the card, empties its queue, and switches
    /// the engine on again.
    pub fn recover(&mut self) {
        self.bus(BusOp::ResetLines);
        // If the card is in no transfer it does not answer CMD12.
        self.try_command(Command::new(12, 0, Resp::R1b));
        self.bus(BusOp::ResetLines);
        for _ in 0..100 {
            if self.status() >> 9 & 0xf == 4 {
                break;
            }
            self.run(100_000);
        }
        let discard = emmc::cmdq_task_mgmt(emmc::EmmcQueueOp::DiscardAll);
        assert!(self.try_command(discard).is_some());
        assert_eq!(self.status() & !0x100, 0x800);
        self.host.enable_queue(&QueueSettings::new(1)).unwrap();
    }

    /// Checks that the interrupt line is low after all events were handled.
    pub fn quiet(&mut self) {
        for _ in 0..4 {
            if !self.model.borrow().irq() {
                return;
            }
            let events = self.host.ack_queue();
            assert!(events.done == 0 && events.fault.is_none(), "{events:?}");
        }
        panic!("the interrupt stays asserted");
    }

    /// Returns the bytes that the card holds from this sector on.
    pub fn card(&mut self, sector: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.model.borrow_mut().card_mut().unwrap().peek(u64::from(sector) * 512, &mut bytes).unwrap();
        bytes
    }

    /// Checks that the memory of this finished task equals what the card holds at the sector.
    pub fn same(&mut self, slot: u8, sector: u32) {
        let bytes = self.release(slot).unwrap_or_else(|| panic!("no task {slot}"));
        assert!(bytes == self.card(sector, bytes.len()), "data of task {slot} at {sector}");
    }

    pub fn faults(&mut self, plan: Plan) {
        self.model.borrow_mut().set_faults(Faults::new(plan));
    }

    /// Returns the indices of the commands on the bus since the last call of this function.
    pub fn said(&self) -> Vec<u8> {
        std::mem::take(&mut *self.commands.borrow_mut())
    }

    pub fn checked(&self) {
        assert_eq!(self.memory.violations(), Vec::<String>::new());
        assert_eq!(self.model.borrow().first_violation(), None);
    }
}

/// Returns the first sector of a slot's task. The sectors are far from each other, and not in the
/// order of the slots.
pub fn sector(slot: u8) -> u32 {
    u32::from(slot) * 7919 % 32 * 4096
}

/// Returns the byte that a written task holds at this offset.
pub fn content(slot: u8, sector: u32, at: usize) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(sector).wrapping_add(u32::from(slot) << 3) as u8
}

fn card(name: &str) -> Box<dyn mmcq_sim::card::Card> {
    let path = format!("{}/cards/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let profile = CardProfile::from_toml(&text, name).unwrap_or_else(|error| panic!("{error}"));
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
    profile.build(medium).unwrap_or_else(|error| panic!("{error}"))
}
