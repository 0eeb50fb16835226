//! `mmcq serve`: an image, behind a simulated card, as a network block device.

use super::{Error, print};
use clap::Args;
use mmcq_lab::platform::Platform;
use mmcq_lab::serve::{self, Event, Listener, Setup};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
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
    /// Path of the socket [default: IMAGE.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    socket: Option<PathBuf>,
    /// Listen at a port instead; without an address on this machine only
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    tcp: Option<String>,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = "generic")]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// As fast as the card would be: virtual time runs no faster than the clock on the wall
    #[arg(long)]
    pace: bool,
    /// Name of the export
    #[arg(long, value_name = "NAME", default_value = "card")]
    export: String,
}

impl Serve {
    pub fn run(self) -> Result<ExitCode, Error> {
        let platform = Platform::load(&self.platform).map_err(Error::input)?;
        let path = self.socket.clone().unwrap_or_else(|| {
            let mut name = self.image.clone().into_os_string();
            name.push(".sock");
            name.into()
        });
        let (listener, uri) = match &self.tcp {
            Some(text) => {
                let at = address(text)?;
                let listener =
                    TcpListener::bind(at).map_err(|e| Error::Input(format!("--tcp {text}: {e}")))?;
                let at = listener.local_addr().map_err(Error::input)?;
                (Listener::Tcp(listener), format!("nbd://{at}/{}", self.export))
            }
            None => {
                let listener =
                    Listener::unix(&path).map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
                (listener, format!("nbd+unix:///{}?socket={}", self.export, path.display()))
            }
        };
        let setup =
            Setup { platform, card: self.card, image: self.image, writable: self.write, paced: self.pace };
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGUSR1])
            .map_err(|e| Error::Run(format!("signals: {e}")))?;
        let begun = move |control: serve::Control| {
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    match signal {
                        SIGUSR1 => control.power_cut(),
                        _ => control.stop(),
                    }
                }
            });
        };
        let watch = move |event| match event {
            Event::Ready(bytes) => {
                // Nobody may be there to read it: then the server serves all the same.
                let _ = print(&format!("{bytes} bytes at {uri}\n"));
            }
            Event::Client(client, what) => eprintln!("client {client}: {what}"),
            Event::PowerCut => eprintln!("the card's power was cut"),
        };
        let result = serve::serve(setup, &self.export, listener, begun, watch).map_err(Error::Input);
        if self.tcp.is_none() {
            // It is ours; a second server would have been refused.
            let _ = std::fs::remove_file(&path);
        }
        result.map(|()| ExitCode::SUCCESS)
    }
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    }
    text.parse().map_err(|_| Error::Input(format!("--tcp {text}: expected PORT or ADDRESS:PORT")))
}
