//! One emulated machine with one SDHCI controller and one card, ready for a driver: a PC, or a
//! machine that `socs.rs` describes.

use crate::image::Image;
use crate::memory::{QtestDma, RAM_BYTES};
use crate::pci;
use crate::qtest::{Qemu, Qtest};
use crate::registers::QtestRegs;
use crate::socs::Soc;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, SdhciQuirks, Table, TransferMode};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of the usual card in bytes: an SDHC card with blocks below and above 4 GiB, in a sparse
/// file.
pub const SDHC_BYTES: u64 = 8 << 30;
/// Size of a standard capacity card (SDSC), in bytes.
pub const SDSC_BYTES: u64 = 64 << 20;
/// Number of ADMA2 descriptors of the driver.
pub const DESCRIPTORS: usize = 32;
/// PCI class of an SD host controller.
const SD_HOST: u16 = 0x0805;

/// The parts of a machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the card's image; a power of two. Above 2 GiB the card is SDHC.
    pub image_bytes: u64,
    /// Properties of `sdhci-pci` in addition to those that every machine has, as `name=value`.
    pub controller: Vec<String>,
    /// Properties of `sd-card` in addition to those that every machine has, as `name=value`.
    pub card: Vec<String>,
    /// Arguments of QEMU in addition to those that every machine has.
    pub arguments: Vec<String>,
}

impl Options {
    /// Makes options with a controller of version 3, with 64-bit addresses and tuning.
    pub fn version_3() -> Self {
        let controller = ["sd-spec-version=3", "capareg=360199348", "uhs=1"].map(String::from).to_vec();
        Options { controller, ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        // Version 3 of the card's standard brings CMD23 and CMD19.
        let card = vec!["spec_version=3".to_string()];
        Options { image_bytes: SDHC_BYTES, controller: Vec::new(), card, arguments: Vec::new() }
    }
}

/// A running machine. Dropping it ends QEMU and removes its files.
#[derive(Debug)]
pub struct Machine {
    // Dropped in this order: first the process, then its folder.
    qtest: Arc<Qtest>,
    image: Image,
    dma: QtestDma,
    function: pci::Function,
    folder: Folder,
}

impl Machine {
    /// Starts a machine whose controller has a fixed address. The controller's registers have their
    /// values after reset.
    pub fn start_soc(qemu: &Qemu, soc: &Soc, image_bytes: Option<u64>) -> Result<Machine, String> {
        let folder = Folder::create()?;
        let image = Image::create(&folder.path.join("card.img"), image_bytes.unwrap_or(SDSC_BYTES))?;
        let ram = folder.path.join("ram");
        let megabytes = soc.memory_mib;
        let dma = QtestDma::create(&ram, megabytes << 20, soc.memory)?;
        let program = folder.path.join("sleep");
        std::fs::write(&program, soc.sleep).map_err(|error| format!("{}: {error}", program.display()))?;
        let mut arguments: Vec<String> = ["-no-user-config", "-display", "none"].map(String::from).to_vec();
        let mut add = |name: &str, value: String| arguments.extend([name.to_string(), value]);
        add("-serial", "null".to_string());
        add("-machine", format!("{},memory-backend=ram", soc.name));
        add("-m", format!("{megabytes}M"));
        add(
            "-object",
            format!("memory-backend-file,id=ram,size={megabytes}M,share=on,mem-path={}", ram.display()),
        );
        add(soc.begins, program.display().to_string());
        if image_bytes.is_some() {
            let path = image.path().display();
            if soc.own_card {
                add("-drive", format!("if=sd,format=raw,file={path}"));
            } else {
                add("-drive", format!("if=none,id=sd,format=raw,file={path}"));
                add("-device", "sd-card,drive=sd".to_string());
            }
        }
        let qtest = Arc::new(Qtest::start(qemu, &folder.path, &arguments)?);
        qtest.intercept_interrupts(soc.interrupts);
        let function = pci::Function { address: soc.registers, bytes: 0x100, line: soc.line };
        Ok(Machine { qtest, image, dma, function, folder })
    }

    /// Starts QEMU, finds the controller and enables it. The controller's registers have their
    /// values after reset.
    pub fn start(qemu: &Qemu, options: &Options) -> Result<Machine, String> {
        let folder = Folder::create()?;
        let image = Image::create(&folder.path.join("card.img"), options.image_bytes)?;
        let ram = folder.path.join("ram");
        let dma = QtestDma::create(&ram, RAM_BYTES, 0)?;
        let bios = folder.path.join("bios");
        std::fs::write(&bios, halting_bios()).map_err(|error| format!("{}: {error}", bios.display()))?;
        let mut arguments: Vec<String> =
            ["-nodefaults", "-no-user-config", "-display", "none"].map(String::from).to_vec();
        let mut add = |name: &str, value: String| arguments.extend([name.to_string(), value]);
        let megabytes = RAM_BYTES >> 20;
        add("-machine", "q35,memory-backend=ram".to_string());
        add("-m", format!("{megabytes}M"));
        add(
            "-object",
            format!("memory-backend-file,id=ram,size={megabytes}M,share=on,mem-path={}", ram.display()),
        );
        add("-bios", bios.display().to_string());
        add("-drive", format!("if=none,id=sd,format=raw,file={}", image.path().display()));
        add("-device", with("sdhci-pci", &options.controller));
        add("-device", with("sd-card,drive=sd", &options.card));
        // The card's own witness of every command.
        add("-D", folder.path.join("trace").display().to_string());
        add("-trace", "sdcard_normal_command".to_string());
        add("-trace", "sdcard_app_command".to_string());
        arguments.extend(options.arguments.iter().cloned());
        let qtest = Arc::new(Qtest::start(qemu, &folder.path, &arguments)?);
        qtest.intercept_interrupts("ioapic");
        let function = pci::enable(&qtest, SD_HOST)?;
        Ok(Machine { qtest, image, dma, function, folder })
    }

    /// Returns the access to the controller's registers.
    pub fn registers(&self) -> QtestRegs {
        let Machine { qtest, function, .. } = self;
        QtestRegs { qtest: qtest.clone(), address: function.address, bytes: function.bytes }
    }

    /// Returns the DMA memory that the controller can reach.
    pub fn dma(&self) -> QtestDma {
        self.dma.clone()
    }

    /// Makes this project's driver; writes no register. The driver's descriptors live as long as
    /// the program, as on a board.
    pub fn host(&self, mode: TransferMode) -> Sdhci<QtestRegs, QtestDma, DESCRIPTORS> {
        let table = Box::leak(Box::new(Table::new()));
        // A controller of version 3 promises an automatic CMD23; QEMU's never sends one.
        let config = SdhciConfig::new().transfer(mode).quirks(SdhciQuirks::NO_AUTO_CMD23);
        let driver = Sdhci::new(self.registers(), self.dma(), table, config);
        driver.unwrap_or_else(|error| panic!("{mode:?}: {error}"))
    }

    /// Returns the file with the card's content.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns whether the controller's interrupt is asserted.
    pub fn irq(&self) -> bool {
        self.qtest.line(self.function.line)
    }

    /// Returns how many times the controller's interrupt was raised.
    pub fn irqs(&self) -> u64 {
        self.qtest.raised(self.function.line)
    }

    /// Waits until the interrupt is asserted; returns false after `timeout_ns`.
    pub fn wait_irq(&self, timeout_ns: u64) -> bool {
        self.qtest.wait_line(self.function.line, timeout_ns)
    }

    /// Returns the time of this machine in nanoseconds: QEMU's virtual clock if it has one,
    /// otherwise a count of turns of QEMU's loop.
    pub fn now_ns(&self) -> u64 {
        self.qtest.now_ns()
    }

    /// Lets time pass until `at_ns`.
    pub fn sleep_until(&self, at_ns: u64) {
        self.qtest.sleep_until(at_ns);
    }

    /// Returns the number of register, port and clock operations so far.
    pub fn operations(&self) -> u64 {
        self.qtest.operations()
    }

    /// Returns every command that the card has received, in order: index and argument. Application
    /// commands have [`APP`] added to their index, and come without CMD55, which QEMU does not
    /// report.
    pub fn commands(&self) -> Vec<(u8, u32)> {
        let path = self.folder.path.join("trace");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter_map(command).collect()
    }
}

/// Number that is added to the index of application commands in [`Machine::commands`].
pub const APP: u8 = 0x80;

/// Returns index and argument of the command in one line of QEMU's trace; `None` if the line has
/// none. Example: `sdcard_normal_command SD SEND_CSD/ CMD09 arg 0x45670000 (mode transfer, ...`.
fn command(line: &str) -> Option<(u8, u32)> {
    let app = line.contains("sdcard_app_command");
    let mut words = line.split_whitespace();
    let index = words.find_map(|word| {
        let at = word.rfind("CMD")?;
        word.get(at + 3..)?.parse::<u8>().ok()
    })?;
    words.find(|&word| word == "arg")?;
    let digits = words.next()?.trim_start_matches("0x");
    let arg = u32::from_str_radix(digits.trim_end_matches(','), 16).ok()?;
    Some((if app { index | APP } else { index }, arg))
}

fn with(device: &str, properties: &[String]) -> String {
    std::iter::once(device).chain(properties.iter().map(String::as_str)).collect::<Vec<_>>().join(",")
}

/// Returns a BIOS of 64 KiB with `cli; hlt; jmp` at the reset vector: the CPU sleeps, and the test
/// drives the machine over qtest.
fn halting_bios() -> Vec<u8> {
    let mut bios = vec![0; 0x1_0000];
    bios.splice(0xfff0..0xfff4, [0xfa, 0xf4, 0xeb, 0xfd]);
    bios
}

/// The folder of one machine's files.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create() -> Result<Folder, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mmcq-qemu-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
