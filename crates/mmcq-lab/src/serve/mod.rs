//! `mmcq serve`: a card as a network block device (NBD), for any client.
//!
//! `protocol.rs` has the numbers on the wire, `handshake.rs` the negotiation, `connection.rs` the
//! two threads of a client. `disk.rs` is the one thread that owns the map of holes (`extents.rs`),
//! the losses of which clients were not told (`losses.rs`) and the machine (`machine.rs`). A
//! machine is an engine, driver, controller and card, in virtual time (`simulated.rs`) or in a real
//! card reader (`real.rs`). Everything from a client is checked before it reaches the disk's
//! thread.

mod connection;
mod disk;
mod extents;
mod handshake;
mod losses;
mod machine;
mod protocol;
#[cfg(target_os = "linux")]
mod real;
mod simulated;
mod socket;
#[cfg(test)]
mod tests;

pub use connection::REQUEST_MAX;
pub use simulated::Setup;
pub use socket::Listener;

pub use disk::Damage;

use connection::{Patience, Peer};
use disk::{Disk, Message, map_of};
use extents::Extents;
use handshake::Export;
use machine::Machine;
use simulated::Simulated;
use socket::Socket;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of clients that are connected at a time.
pub const CLIENTS_MAX: usize = 16;

/// Event that the server reports to the program that runs it.
#[derive(Debug)]
pub enum Event {
    /// The server listens; the field is the size of the card in bytes.
    Ready(u64),
    /// A client was refused or disconnected: its number, and the reason.
    Client(u64, String),
    /// The card's power was cut; the field says what the cut did.
    PowerCut(Damage),
}

/// Controls a running server from another thread.
#[derive(Clone)]
pub struct Control {
    disk: Sender<Message>,
    clients: Clients,
}

type Clients = Arc<Mutex<HashMap<u64, Box<dyn Socket>>>>;

impl Control {
    /// Cuts the power of the simulated card now, and restores it.
    pub fn power_cut(&self) {
        // If the server has ended, there is no card to cut off.
        let _ = self.disk.send(Message::PowerCut);
    }

    /// Disconnects all clients, flushes the card's cache and ends the server.
    pub fn stop(&self) {
        let _ = self.disk.send(Message::Stop);
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).values() {
            client.close();
        }
    }
}

/// Reason why a server did not serve, or failed.
#[derive(Debug)]
pub enum Failure {
    /// Image, board or card cannot be used; no client was served.
    Setup(String),
    /// The server failed while it served: the machine, the last flush, or a loss of which a client
    /// has not been told.
    Run(String),
}

/// Serves a simulated card until [`Control::stop`]. Calls `begun` with the control as soon as the
/// card is up. `name` is the name of the export, and `watch` is called with each event of the
/// server.
pub fn serve(
    setup: Setup,
    name: &str,
    listener: Listener,
    begun: impl FnOnce(Control),
    watch: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), Failure> {
    let wrong = |e| Failure::Setup(format!("{}: {e}", setup.image.display()));
    let extents = map_of(&setup.image).map_err(wrong)?;
    let writable = setup.writable;
    let machine = Simulated::new(setup).map_err(|e| Failure::Setup(e.to_string()))?;
    serve_machine(Box::new(machine), extents, writable, name, listener, begun, watch).map_err(Failure::Run)
}

/// Serves the card in a reader of this machine, like [`serve`]. `writable`: clients may write to
/// the card. The card must already be in the state `tran`, and the engine set up for it.
#[cfg(target_os = "linux")]
pub fn serve_reader(
    reader: mmcq_vfio::Reader,
    writable: bool,
    name: &str,
    listener: Listener,
    begun: impl FnOnce(Control),
    watch: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), String> {
    let machine = Box::new(real::Real(reader));
    let extents = Extents::unknown(machine.blocks() * 512);
    serve_machine(machine, extents, writable, name, listener, begun, watch)
}

fn serve_machine(
    machine: Box<dyn Machine>,
    extents: Extents,
    writable: bool,
    name: &str,
    listener: Listener,
    begun: impl FnOnce(Control),
    watch: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), String> {
    let export = Arc::new(Export {
        name: name.to_owned(),
        bytes: machine.blocks() * 512,
        read_only: !writable,
        trims: true,
        request_max: REQUEST_MAX,
    });
    let (disk, messages) = channel();
    let mut machine = Disk::new(machine, extents);
    machine.listen(disk.clone());
    let clients = Clients::default();
    let watch = Arc::new(watch);
    begun(Control { disk: disk.clone(), clients: clients.clone() });
    watch(Event::Ready(export.bytes));
    let told = watch.clone();
    std::thread::spawn(move || accept(&listener, &export, &disk, &clients, &watch));
    machine.run(&messages, &|damage| told(Event::PowerCut(damage)))
}

/// Returns whether this error of a connection means that the client closed it, which is no failure.
/// (Errors that the server itself makes have no error number.)
fn hung_up(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
        && matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn accept<W: Fn(Event) + Send + Sync + 'static>(
    listener: &Listener,
    export: &Arc<Export>,
    disk: &Sender<Message>,
    clients: &Clients,
    watch: &Arc<W>,
) {
    let connected = Arc::new(AtomicUsize::new(0));
    for client in 1u64.. {
        let socket = match listener.accept() {
            Ok(socket) => socket,
            Err(error) => {
                watch(Event::Client(client, format!("not accepted: {error}")));
                // For example, no file descriptor is free: another client may free some.
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        if connected.load(Ordering::SeqCst) >= CLIENTS_MAX {
            watch(Event::Client(client, format!("sent away: there are {CLIENTS_MAX} clients already")));
            socket.close();
            continue;
        }
        let Ok(twin) = socket.twin() else { continue };
        let mut socket = socket;
        clients.lock().unwrap_or_else(PoisonError::into_inner).insert(client, twin);
        connected.fetch_add(1, Ordering::SeqCst);
        let (export, disk, clients) = (export.clone(), disk.clone(), clients.clone());
        let (watch, connected) = (watch.clone(), connected.clone());
        std::thread::spawn(move || {
            let peer = Peer { client, export: &export, disk: &disk, patience: Patience::USUAL };
            if let Err(error) = connection::serve(&mut *socket, peer)
                && !hung_up(&error)
            {
                watch(Event::Client(client, error.to_string()));
            }
            clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&client);
            connected.fetch_sub(1, Ordering::SeqCst);
            // The client's place is free before the client sees the end of its connection.
            socket.close();
        });
    }
}
