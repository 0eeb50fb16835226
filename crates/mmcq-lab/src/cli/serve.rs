//! `mmcq serve`: an image, behind a simulated card, as a network block device.

use super::{Error, print};
use clap::Args;
use mmcq_lab::platform::Platform;
use mmcq_lab::serve::{self, Event, Listener, Setup};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Serve an image, through stack, controller and card, as a network block device (NBD)
///
/// Read-only unless --write is given. Signals: USR1 cuts the card's power (what the card had not made durable may be gone, what is under way fails, and
/// each client's next flush fails once); INT and TERM flush and end.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  truncate -s 64M card.img && mmcq serve card.img --write
  nbdinfo 'nbd+unix:///?socket=card.img.sock'
  fio --name=w --rw=randwrite --size=64M --ioengine=nbd --uri='nbd+unix:///?socket=card.img.sock' --verify=crc32c")]
pub struct Serve {
    /// Image file behind the card; its size is the card's
    image: PathBuf,
    /// Clients may write
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    listen: Listen,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = "generic")]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// As fast as the card would be: virtual time runs no faster than the clock on the wall
    #[arg(long)]
    pace: bool,
}

/// Where clients find the card.
#[derive(Debug, Args)]
pub struct Listen {
    /// Path of the socket [default: the name of image or device, with .sock]
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    socket: Option<PathBuf>,
    /// Listen at a port instead; without an address on this machine only
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    tcp: Option<String>,
    /// Name of the export
    #[arg(long, value_name = "NAME", default_value = "card")]
    pub export: String,
}

/// An open door: clients may come.
pub struct Door {
    listener: Listener,
    uri: String,
    /// The socket, to be removed at the end.
    path: Option<PathBuf>,
}

impl Listen {
    /// Opens the door: at `default` if nothing is said.
    pub fn open(&self, default: PathBuf) -> Result<Door, Error> {
        if let Some(text) = &self.tcp {
            let at = address(text)?;
            let listener = TcpListener::bind(at).map_err(|e| Error::Input(format!("--tcp {text}: {e}")))?;
            let at = listener.local_addr().map_err(Error::input)?;
            let uri = format!("nbd://{at}/{}", self.export);
            return Ok(Door { listener: Listener::Tcp(listener), uri, path: None });
        }
        let path = self.socket.clone().unwrap_or(default);
        let listener = Listener::unix(&path).map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
        let uri = format!("nbd+unix:///{}?socket={}", self.export, path.display());
        Ok(Door { listener, uri, path: Some(path) })
    }
}

impl Door {
    /// Tells people what happens.
    pub fn watch(&self) -> impl Fn(Event) + Send + Sync + use<> + 'static {
        let uri = self.uri.clone();
        move |event| match event {
            Event::Ready(bytes) => {
                // Nobody may be there to read it: then the server serves all the same.
                let _ = print(&format!("{bytes} bytes at {uri}\n"));
            }
            Event::Client(client, what) => eprintln!("client {client}: {what}"),
            Event::PowerCut => eprintln!("the card's power was cut"),
        }
    }

    /// Serves, and closes the door behind the last.
    pub fn closed(self, serve: impl FnOnce(Listener) -> Result<(), Error>) -> Result<ExitCode, Error> {
        let result = serve(self.listener);
        if let Some(path) = &self.path {
            // It is ours; a second server would have been refused.
            let _ = std::fs::remove_file(path);
        }
        result.map(|()| ExitCode::SUCCESS)
    }
}

/// Has the server told of signals once it runs: INT and TERM, and where the power can be `cut`, USR1.
pub fn signals(cut: bool) -> Result<impl FnOnce(serve::Control), Error> {
    let which = if cut { &[SIGINT, SIGTERM, SIGUSR1][..] } else { &[SIGINT, SIGTERM] };
    let mut signals =
        signal_hook::iterator::Signals::new(which).map_err(|e| Error::Run(format!("signals: {e}")))?;
    Ok(move |control: serve::Control| {
        std::thread::spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGUSR1 => control.power_cut(),
                    _ => control.stop(),
                }
            }
        });
    })
}

impl Serve {
    pub fn run(self) -> Result<ExitCode, Error> {
        let platform = Platform::load(&self.platform).map_err(Error::input)?;
        let door = self.listen.open(beside(&self.image))?;
        let setup =
            Setup { platform, card: self.card, image: self.image, writable: self.write, paced: self.pace };
        let (begun, watch, name) = (signals(true)?, door.watch(), self.listen.export);
        door.closed(|listener| serve::serve(setup, &name, listener, begun, watch).map_err(Error::Input))
    }
}

/// The socket of an image.
fn beside(image: &Path) -> PathBuf {
    let mut name = image.to_owned().into_os_string();
    name.push(".sock");
    name.into()
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    }
    text.parse().map_err(|_| Error::Input(format!("--tcp {text}: expected PORT or ADDRESS:PORT")))
}
