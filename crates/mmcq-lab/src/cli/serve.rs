//! `mmcq serve`: serves an image, behind a simulated card, as a network block device.

use super::{Error, print, voice};
use clap::Args;
use mmcq_lab::image::Lock;
use mmcq_lab::platform::Platform;
use mmcq_lab::serve::{self, Damage, Event, Failure, Listener, Setup};
use mmcq_lab::unix_socket::Name;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Serve an image, through stack, controller and card, as a network block device (NBD)
///
/// Clients can only read unless --write is given.
///
/// Signals: USR1 cuts the card's power. Data that the card had not made durable may then be lost,
/// and requests under way fail. If data may be lost, the next flush of each connection fails once,
/// also that of a client that connects again. INT and TERM flush the card and end the server.
///
/// The server knows of losses as long as it runs. If it ends while a client has not been told of a
/// loss, it prints this, with exit code 1: a new server knows nothing of the loss. If a server was
/// killed, all writes since the last flush may be lost.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  truncate -s 64M card.img && mmcq serve card.img --write
  nbdinfo 'nbd+unix:///?socket=card.img.sock'
  fio --name=w --rw=randwrite --size=64M --ioengine=nbd --uri='nbd+unix:///?socket=card.img.sock' --verify=crc32c")]
pub struct Serve {
    /// Image file with the card's content. The board's own card takes its size; a card named by
    /// --card must fit into it (the rest of the image is not used)
    image: PathBuf,
    /// Lets clients write
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    listen: Listen,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = mmcq_lab::scene::PLATFORM)]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Serves no faster than the card would: virtual time runs no faster than real time
    #[arg(long)]
    pace: bool,
}

/// Options about where clients connect.
#[derive(Debug, Args)]
pub struct Listen {
    /// Path of the socket [default: the name of image or device, with .sock]
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    socket: Option<PathBuf>,
    /// Listens at a TCP port instead. Without an address, only programs on this machine can connect
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    tcp: Option<String>,
    /// Name of the export, at most 4096 bytes
    #[arg(long, value_name = "NAME", default_value = "card", value_parser = export_name)]
    pub export: String,
    /// Print the line about the server's start as a JSON object: bytes, uri
    #[arg(long)]
    json: bool,
}

/// Listening socket at which clients of a server can connect.
pub struct Door {
    listener: Listener,
    uri: String,
    /// Path of a Unix socket, which is removed at the end; `None` with TCP.
    name: Option<Name>,
    json: bool,
}

impl Listen {
    /// Listens where the options say or, if they say nothing, at the path `default`.
    pub fn open(&self, default: PathBuf) -> Result<Door, Error> {
        if let Some(text) = &self.tcp {
            let at = address(text)?;
            let listener = TcpListener::bind(at).map_err(|e| Error::Input(format!("--tcp {text}: {e}")))?;
            let at = listener.local_addr().map_err(Error::input)?;
            let uri = format!("nbd://{at}/{}", self.export);
            return Ok(Door { listener: Listener::Tcp(listener), uri, name: None, json: self.json });
        }
        let path = self.socket.clone().unwrap_or(default);
        let (listener, name) =
            Listener::unix(&path).map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
        let uri = format!("nbd+unix:///{}?socket={}", self.export, path.display());
        Ok(Door { listener, uri, name: Some(name), json: self.json })
    }
}

impl Door {
    /// Returns a function that prints the server's events.
    pub fn watch(&self) -> impl Fn(Event) + Send + Sync + use<> + 'static {
        let (uri, json) = (self.uri.clone(), self.json);
        move |event| match event {
            Event::Ready(bytes) => {
                // If the reader of this output has closed it, the server goes on.
                let _ = print(&match json {
                    true => format!("{}\n", serde_json::json!({ "bytes": bytes, "uri": uri })),
                    false => format!("{bytes} bytes at {uri}\n"),
                });
            }
            Event::Client(client, what) => eprintln!("client {client}: {what}"),
            Event::PowerCut(Damage { failed, waiting, lost_sectors }) => eprintln!(
                "the card's power was cut: {failed} requests under way failed, {waiting} wait for the card to come up; {lost_sectors} sectors written and \
                 not flushed are lost, what was flushed is kept; if writes were not flushed, each connection's next flush fails once"
            ),
        }
    }

    /// Calls `serve` with the listening socket, and removes the socket afterwards.
    pub fn closed(self, serve: impl FnOnce(Listener) -> Result<(), Error>) -> Result<ExitCode, Error> {
        let result = serve(self.listener);
        drop(self.name);
        result.map(|()| ExitCode::SUCCESS)
    }
}

/// Signals that stop a server.
pub const ENDING: [c_int; 2] = [SIGINT, SIGTERM];

/// Installs handlers for the signals `which`. Returns a function that takes the control of the
/// running server; from then on `tell` is called with this control for each signal.
pub fn signals<C: Send + 'static>(
    which: &[c_int],
    tell: impl Fn(&C, c_int) + Send + 'static,
) -> Result<impl FnOnce(C), Error> {
    let mut signals =
        signal_hook::iterator::Signals::new(which).map_err(|e| Error::Run(format!("signals: {e}")))?;
    Ok(move |control: C| {
        std::thread::spawn(move || signals.forever().for_each(|signal| tell(&control, signal)));
    })
}

fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Setup(why) => Error::Input(why),
        Failure::Run(why) => Error::Run(why),
    }
}

impl Serve {
    pub fn run(self) -> Result<ExitCode, Error> {
        let platform = Platform::load(&self.platform).map_err(Error::input)?;
        let _lock = Lock::take(&self.image, self.write).map_err(Error::Input)?;
        let begun = signals(&[SIGINT, SIGTERM, SIGUSR1], |control: &serve::Control, signal| match signal {
            SIGUSR1 => control.power_cut(),
            _ => control.stop(),
        })?;
        let door = self.listen.open(beside(&self.image))?;
        let (told, name, paced) = (door.watch(), self.listen.export, self.pace);
        let watch = move |event| {
            if matches!(event, Event::Ready(_)) && !paced {
                voice::note("times that clients see are not the card's; --pace makes them so");
            }
            told(event);
        };
        let setup = Setup { platform, card: self.card, image: self.image, writable: self.write, paced };
        door.closed(|listener| serve::serve(setup, &name, listener, begun, watch).map_err(failed))
    }
}

/// Returns the default path of the socket for an image.
fn beside(image: &Path) -> PathBuf {
    let mut name = image.to_owned().into_os_string();
    name.push(".sock");
    name.into()
}

/// Size in bytes of the longest string in the NBD protocol.
const NAME_MAX: usize = 4096;

fn export_name(text: &str) -> Result<String, String> {
    match text.len() {
        0..=NAME_MAX => Ok(text.to_owned()),
        bytes => Err(format!("a name of {bytes} bytes, expected {NAME_MAX} at most")),
    }
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    }
    text.parse().map_err(|_| Error::Input(format!("--tcp {text}: expected PORT or ADDRESS:PORT")))
}
