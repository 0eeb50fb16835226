//! The controller model and its card as a PCI device for a virtual machine, over vfio-user: foreign
//! drivers judge the model.
//!
//! - `server.rs`: a client and the device.
//! - `protocol.rs`: messages as bytes.
//! - `socket.rs`: bytes and descriptors through the socket.
//! - `pci.rs`: the configuration space.
//! - `memory.rs`: the guest's memory, which the controller's DMA reaches.
//! - `interrupt.rs`: the interrupt pin.
//!
//! Virtual time goes with the clock on the wall: the guest's time limits are those of a real
//! machine, and what is due happens when it is due.

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

/// What to show to the guest.
pub struct Setup {
    /// The board; its controller must be an SDHCI.
    pub platform: Platform,
    /// Another card than the board's own.
    pub card: Option<String>,
    /// What the card holds; generated memory without it.
    pub medium: Option<Medium>,
    /// Vendor and device.
    pub id: pci::Id,
    /// What happens to the slot, from the coming of the client on.
    pub schedule: Schedule,
    /// It happens from [`Control::begin`] on.
    pub hold: bool,
}

/// The board of this name, or from a file whose name ends in `.toml`. An error is one line and
/// names boards with an SDHCI controller alone.
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

/// What happened until the guest left.
#[derive(Debug)]
pub struct Summary {
    /// What went over the bus.
    pub stats: BusStats,
    /// What the guest's driver did that the standard forbids.
    pub violations: u64,
    /// Accesses to memory that nothing answered, and the first of them.
    pub refused: (u64, Option<String>),
    /// Why the connection ended, if not by the client's leaving.
    pub error: Option<String>,
}

/// What a device that serves can be told from outside.
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

/// What is done to the slot from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The card's supply dips.
    Cut,
    /// The card is taken out, or comes in again.
    Swap,
    /// The schedule begins.
    Begin,
}

/// More of these that wait are forgotten.
const ASKED_MAX: usize = 16;

impl State {
    fn of(state: &Mutex<State>) -> MutexGuard<'_, State> {
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// The card's supply dips: what is volatile is lost, and the slot does not tell.
    pub fn cut(&self) {
        self.ask(Asked::Cut);
    }

    /// The card is taken out of the slot, or comes in again if it is out.
    pub fn swap(&self) {
        self.ask(Asked::Swap);
    }

    /// The schedule begins; one that has begun goes on.
    pub fn begin(&self) {
        self.ask(Asked::Begin);
    }

    fn ask(&self, what: Asked) {
        let mut state = State::of(&self.state);
        if state.asked.len() < ASKED_MAX {
            state.asked.push(what);
        }
    }

    /// Takes the card away from the machine; the server ends.
    pub fn stop(&self) {
        let mut state = State::of(&self.state);
        state.stopped = true;
        // Both may have ended by themselves.
        match &state.client {
            Some(client) => drop(client.shutdown(Shutdown::Both)),
            None => drop(rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both)),
        }
    }
}

/// The device before its client comes.
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
    /// Builds it, and listens at `path`. An error is one line.
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

    /// Tells `log` about everything on the bus.
    pub fn set_log(&mut self, log: Box<dyn FnMut(BusEvent)>) {
        self.model.set_log(Some(log));
    }

    /// Waits for the client; `None`: it is not to come any more.
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

    /// Serves one client until it leaves, or until [`Control::stop`]: a card belongs to one
    /// machine, and goes with it. `begun` gets the control. The socket is gone afterwards.
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
            // In the middle of a message, maybe.
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
