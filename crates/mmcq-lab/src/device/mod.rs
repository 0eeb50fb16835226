//! The controller model and its card as a PCI device for a virtual machine, over vfio-user: foreign drivers
//! judge the model.
//!
//! - `server.rs`: a client and the device.
//! - `protocol.rs`: messages as bytes.
//! - `socket.rs`: bytes and descriptors through the socket.
//! - `pci.rs`: the configuration space.
//! - `memory.rs`: the guest's memory, which the controller's DMA reaches.
//! - `interrupt.rs`: the interrupt pin.
//!
//! Virtual time goes with the clock on the wall: the guest's time limits are those of a real machine, and
//! what is due happens when it is due.

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
use memory::GuestMemory;
use mmcq_sim::card::Medium;
use mmcq_sim::sdhci::{BusEvent, BusStats, Sdhci};
use server::Server;
use socket::Socket;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Instant;

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

/// The device before its client comes.
pub struct Device {
    model: Sdhci,
    memory: GuestMemory,
    id: pci::Id,
    listener: UnixListener,
}

impl Device {
    /// Builds it, and listens at `path`. An error is one line.
    pub fn new(setup: Setup, path: &Path) -> Result<Self, String> {
        let Setup { platform, card, medium, id } = setup;
        let ControllerConfig::Sdhci(config) = platform.controller else {
            return Err(format!("platform {}: expected one whose controller is an sdhci", platform.name));
        };
        let (profile, medium) =
            board::card_with(&platform, card.as_deref(), medium).map_err(|e| e.to_string())?;
        let card = profile.build(medium).map_err(|e| e.to_string())?;
        let memory = GuestMemory::default();
        let model = Sdhci::new(config, memory.clone(), Some(card));
        let listener = crate::unix_socket::listen(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Device { model, memory, id, listener })
    }

    /// Tells `log` about everything on the bus.
    pub fn set_log(&mut self, log: Box<dyn FnMut(BusEvent)>) {
        self.model.set_log(Some(log));
    }

    /// Serves one client until it leaves: a card belongs to one machine, and goes with it.
    pub fn serve(mut self) -> Result<Summary, String> {
        let (stream, _) = self.listener.accept().map_err(|e| format!("waiting for a client: {e}"))?;
        let socket = Socket::new(stream).map_err(|e| e.to_string())?;
        let memory = self.memory.clone();
        let result = Server::new(socket, self.id, &mut self.model, memory, Instant::now()).run();
        Ok(Summary {
            stats: self.model.take_stats(),
            violations: self.model.protocol_violations(),
            refused: self.memory.refused(),
            error: result.err().map(|error| error.to_string()),
        })
    }
}
