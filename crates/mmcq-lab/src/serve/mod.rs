//! `mmcq serve`: the simulated card as a network block device, for clients that we did not write.
//!
//! `protocol.rs` has the numbers on the wire, `handshake.rs` the negotiation, `connection.rs` a client's two threads, `disk.rs` the one thread that
//! owns the machine: engine, driver, controller and card, in virtual time. Everything a client sends is checked before it gets there.

mod connection;
mod disk;
mod extents;
mod handshake;
mod protocol;
mod socket;

pub use connection::REQUEST_MAX;
pub use disk::Setup;
pub use socket::Listener;

use disk::{Disk, Message, map_of};
use handshake::Export;
use socket::Socket;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Clients at a time.
pub const CLIENTS_MAX: usize = 16;

/// What happened, for whoever watches the server.
#[derive(Debug)]
pub enum Event {
    /// It listens; the card has so many bytes.
    Ready(u64),
    /// A client was sent away, or had to be.
    Client(u64, String),
    /// The card's power was cut.
    PowerCut,
}

/// What a running server can be told from outside.
#[derive(Clone)]
pub struct Control {
    disk: Sender<Message>,
    clients: Clients,
}

type Clients = Arc<Mutex<HashMap<u64, Box<dyn Socket>>>>;

impl Control {
    /// The card's supply fails now.
    pub fn power_cut(&self) {
        // A server that has ended has no card.
        let _ = self.disk.send(Message::PowerCut);
    }

    /// Sends everybody away, flushes and ends.
    pub fn stop(&self) {
        let _ = self.disk.send(Message::Stop);
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).values() {
            client.close();
        }
    }
}

/// Serves until [`Control::stop`]. `begun` gets the control once the card is up.
pub fn serve(
    setup: Setup,
    name: &str,
    listener: Listener,
    begun: impl FnOnce(Control),
    watch: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), String> {
    let extents = map_of(&setup.image).map_err(|e| format!("{}: {e}", setup.image.display()))?;
    let read_only = !setup.writable;
    let machine = Disk::new(setup, extents).map_err(|e| e.to_string())?;
    let export = Arc::new(Export {
        name: name.to_owned(),
        bytes: machine.blocks() * 512,
        read_only,
        trims: true,
        request_max: REQUEST_MAX,
    });
    let (disk, messages) = channel();
    let clients = Clients::default();
    let watch = Arc::new(watch);
    begun(Control { disk: disk.clone(), clients: clients.clone() });
    watch(Event::Ready(export.bytes));
    std::thread::spawn(move || accept(&listener, &export, &disk, &clients, &watch));
    machine.run(&messages)
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
                // Out of descriptors, say: the others may leave some.
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
        clients.lock().unwrap_or_else(PoisonError::into_inner).insert(client, twin);
        connected.fetch_add(1, Ordering::SeqCst);
        let (export, disk, clients) = (export.clone(), disk.clone(), clients.clone());
        let (watch, connected) = (watch.clone(), connected.clone());
        std::thread::spawn(move || {
            if let Err(error) = connection::serve(socket, client, &export, &disk) {
                watch(Event::Client(client, error.to_string()));
            }
            clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&client);
            connected.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
