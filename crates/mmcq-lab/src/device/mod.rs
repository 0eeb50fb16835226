//! Shows the controller model and its card to a virtual machine as a PCI device, over vfio-user. So
//! drivers of other operating systems test the model.
//!
//! - `server.rs`: serves a client with the device.
//! - `protocol.rs`: messages as bytes.
//! - `socket.rs`: bytes and file descriptors through the socket.
//! - `pci.rs`: the configuration space.
//! - `memory.rs`: the guest's memory, which the controller's DMA accesses.
//! - `interrupt.rs`: the interrupt pin.
//!
//! Virtual time equals real time: the guest's time limits are those of a real machine, and each
//! event happens at its real time.

mod interrupt;
pub mod memory;
pub mod pci;
mod protocol;
mod server;
mod socket;
#[cfg(test)]
mod tests;

use crate::board;
use crate::controller::ControllerConfig;
use crate::platform::Platform;
use crate::unix_socket::Name;
use memory::GuestMemory;
use mmcq_sim::card::Medium;
use mmcq_sim::schedule::Schedule;
use mmcq_sim::sdhci::{BusEvent, BusStats, Sdhci};
use mmcq_sim::slot::Controller;
use server::{Server, Wall};
use socket::Socket;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the guest finds at the device: board, card and schedule of events.
pub struct Setup {
    /// The board; its controller must be an SDHCI.
    pub platform: Platform,
    /// Name of a card that replaces the board's own; `None`: the board's own.
    pub card: Option<String>,
    /// Content of the card; `None`: generated data in memory.
    pub medium: Option<Medium>,
    /// Vendor ID and device ID in the configuration space.
    pub id: pci::Id,
    /// Schedule of events at the slot. Its times count from the connection of the client.
    pub schedule: Schedule,
    /// True: the schedule of events at the card slot (such as a removal) begins with
    /// [`Control::begin`]. False: it begins when the client connects.
    pub hold: bool,
}

/// Returns the built-in board of this name, or the board of a file whose name ends in `.toml`. A
/// built-in board must have an SDHCI controller. The error is one line of text; for an unknown name
/// it lists the boards that are accepted.
pub fn platform(name: &str) -> Result<Platform, String> {
    let sdhci = |name: &&str| {
        Platform::load(name).is_ok_and(|known| matches!(known.controller, ControllerConfig::Sdhci(_)))
    };
    if !name.ends_with(".toml") && !sdhci(&name) {
        let known: Vec<&str> = Platform::names().filter(sdhci).collect();
        return Err(format!(
            "platform {name}: no board of this name has an sdhci and a card with blocks; expected a file ending in .toml or one of: {}",
            known.join(", ")
        ));
    }
    Platform::load(name).map_err(|error| error.to_string())
}

/// Summary of a client's connection after its end.
#[derive(Debug)]
pub struct Summary {
    /// Counters of the bus.
    pub stats: BusStats,
    /// Number of the guest driver's violations of the standard.
    pub violations: u64,
    /// Number of device accesses to the guest's memory that failed, and a text about the first one.
    pub refused: (u64, Option<String>),
    /// Reason why the connection ended, if the client did not close it.
    pub error: Option<String>,
}

/// Controls a device from another thread while the device serves.
pub struct Control {
    listener: UnixListener,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    stopped: bool,
    client: Option<UnixStream>,
    asked: Vec<Asked>,
}

/// Action at the card slot that another thread requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// A short loss of the card's power was requested.
    Cut,
    /// Removal of the card, or insertion if it is out, was requested.
    Swap,
    /// Start of the schedule of events at the slot was requested.
    Begin,
}

/// Largest number of requested actions that may wait; further ones are dropped.
const ASKED_MAX: usize = 16;

impl State {
    fn of(state: &Mutex<State>) -> MutexGuard<'_, State> {
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Requests a short loss of the card's power. The card loses its volatile data, and the slot
    /// does not report the loss.
    pub fn cut(&self) {
        self.ask(Asked::Cut);
    }

    /// Requests that the card is taken out of the slot, or inserted again if it is out.
    pub fn swap(&self) {
        self.ask(Asked::Swap);
    }

    /// Requests the start of the schedule of events at the slot. A schedule that has started simply
    /// continues.
    pub fn begin(&self) {
        self.ask(Asked::Begin);
    }

    fn ask(&self, what: Asked) {
        let mut state = State::of(&self.state);
        if state.asked.len() < ASKED_MAX {
            state.asked.push(what);
        }
    }

    /// Stops the server. The client's machine then loses the device with its card.
    pub fn stop(&self) {
        let mut state = State::of(&self.state);
        state.stopped = true;
        // The server and the connection may both have ended already, so errors are ignored.
        match &state.client {
            Some(client) => drop(client.shutdown(Shutdown::Both)),
            None => drop(rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both)),
        }
    }
}

/// The PCI device with controller and card, before its client connects.
pub struct Device {
    model: Sdhci,
    schedule: Schedule,
    hold: bool,
    memory: GuestMemory,
    config: pci::ConfigSpace,
    listener: UnixListener,
    name: Name,
}

impl Device {
    /// Builds the device, and makes a socket at `path` that waits for the client. The error is one
    /// line of text.
    pub fn new(setup: Setup, path: &Path) -> Result<Self, String> {
        let Setup { platform, card, medium, id, schedule, hold } = setup;
        let ControllerConfig::Sdhci(config) = platform.controller else {
            return Err(format!("platform {}: expected one whose controller is an sdhci", platform.name));
        };
        let card = board::slot_card(&platform, card.as_deref(), medium).map_err(|e| e.to_string())?;
        let memory = GuestMemory::default();
        let space = pci::ConfigSpace::new(id, config.register_bytes);
        let model = Sdhci::new(config, memory.clone(), Some(card));
        let (listener, name) =
            crate::unix_socket::listen(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Device { model, schedule, hold, memory, config: space, listener, name })
    }

    /// Sets the log that receives every event on the bus between controller and card.
    pub fn set_log(&mut self, log: Box<dyn FnMut(BusEvent)>) {
        self.model.set_log(Some(log));
    }

    /// Waits for the client to connect. Returns `None` if the server was stopped before.
    fn client(&self, state: &Mutex<State>) -> Result<Option<UnixStream>, String> {
        let accepted = self.listener.accept();
        let mut state = State::of(state);
        if state.stopped {
            return Ok(None);
        }
        let (stream, _) = accepted.map_err(|e| format!("waiting for a client: {e}"))?;
        state.client = Some(stream.try_clone().map_err(|e| e.to_string())?);
        Ok(Some(stream))
    }

    /// Serves one client until it disconnects, or until [`Control::stop`]. Only one client is
    /// served, since a card belongs to one machine. Calls `begun` with the control; removes the
    /// socket afterwards.
    pub fn serve(mut self, begun: impl FnOnce(Control)) -> Result<Summary, String> {
        let state = Arc::<Mutex<State>>::default();
        let listener = self.listener.try_clone().map_err(|e| e.to_string())?;
        begun(Control { listener, state: state.clone() });
        let mut result = Ok(());
        if let Some(stream) = self.client(&state)? {
            let socket = Socket::new(stream).map_err(|e| e.to_string())?;
            let memory = self.memory.clone();
            if !self.hold {
                self.schedule.begin(&mut self.model, 0);
            }
            let slot = (&mut self.model, &mut self.schedule, &*state);
            result = Server::new(socket, self.config, slot, memory, Wall::begin()).run();
        }
        if State::of(&state).stopped {
            // The server was stopped, perhaps in the middle of a message, so this error is none.
            result = Ok(());
        }
        drop(self.name);
        Ok(Summary {
            stats: self.model.take_stats(),
            violations: self.model.protocol_violations(),
            refused: self.memory.refused(),
            error: result.err().map(|error| error.to_string()),
        })
    }
}
