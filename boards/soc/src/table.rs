//! Table of the machines: all that differs between them, except the interrupt controllers of the
//! Raspberry Pi.

/// A machine of QEMU. Addresses are those that its processor sees.
#[expect(dead_code, reason = "build.rs looks at one field, an image at the others")]
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Name of the machine in QEMU.
    pub name: &'static str,
    /// Load address of the image.
    pub image: usize,
    /// Address of the controller's registers.
    pub registers: usize,
    /// Base clock of the controller in hertz.
    pub clock_hz: u32,
    /// Number of the controller's interrupt.
    pub irq: u32,
    /// Driver profile of the controller.
    pub profile: Profile,
    /// Addresses of the interrupt controller's distributor and CPU interface.
    pub gic: [usize; 2],
    /// Address of a Cortex-A9's global timer; 0: the core has the architecture's virtual timer.
    pub global_timer: usize,
}

/// Driver profiles: names in `mmcq::host::sdhci::profiles`, and one of `mmcq::host::mshc`.
#[derive(Clone, Copy, Debug)]
pub enum Profile {
    Zynq,
    ZynqMp,
    Aspeed,
    Usdhc,
    Bcm2835,
    Smhc,
}

const MACHINES: [Machine; 7] = [
    Machine {
        name: "xilinx-zynq-a9",
        image: 0x1_0000,
        registers: 0xe010_0000,
        clock_hz: 52_000_000,
        irq: 32 + 24,
        profile: Profile::Zynq,
        gic: [0xf8f0_1000, 0xf8f0_0100],
        global_timer: 0xf8f0_0200,
    },
    Machine {
        name: "mcimx6ul-evk",
        image: 0x8001_0000,
        registers: 0x0219_0000,
        clock_hz: 198_000_000,
        irq: 32 + 22,
        profile: Profile::Usdhc,
        gic: [0x00a0_1000, 0x00a0_2000],
        global_timer: 0,
    },
    Machine {
        name: "ast2600-evb",
        image: 0x8001_0000,
        registers: 0x1e74_0100,
        clock_hz: 50_000_000,
        irq: 32 + 43,
        profile: Profile::Aspeed,
        gic: [0x4046_1000, 0x4046_2000],
        global_timer: 0,
    },
    Machine {
        name: "xlnx-zcu102",
        image: 0x10_0000,
        registers: 0xff16_0000,
        clock_hz: 200_000_000,
        irq: 32 + 48,
        profile: Profile::ZynqMp,
        gic: [0xf901_0000, 0xf902_0000],
        global_timer: 0,
    },
    Machine {
        name: "raspi3b",
        image: 0x8_0000,
        registers: 0x3f30_0000,
        clock_hz: 50_000_000,
        irq: 62,
        profile: Profile::Bcm2835,
        gic: [0; 2],
        global_timer: 0,
    },
    Machine {
        name: "orangepi-pc",
        image: 0x4001_0000,
        registers: 0x01c0_f000,
        clock_hz: 50_000_000,
        irq: 32 + 60,
        profile: Profile::Smhc,
        gic: [0x01c8_1000, 0x01c8_2000],
        global_timer: 0,
    },
    Machine {
        name: "bpim2u",
        image: 0x4001_0000,
        registers: 0x01c0_f000,
        clock_hz: 50_000_000,
        irq: 32 + 32,
        profile: Profile::Smhc,
        gic: [0x01c8_1000, 0x01c8_2000],
        global_timer: 0,
    },
];

/// Machine of this image: the feature with its name selects it.
pub const MACHINE: Machine = MACHINES[if cfg!(feature = "xilinx-zynq-a9") {
    0
} else if cfg!(feature = "mcimx6ul-evk") {
    1
} else if cfg!(feature = "ast2600-evb") {
    2
} else if cfg!(feature = "xlnx-zcu102") {
    3
} else if cfg!(feature = "raspi3b") {
    4
} else if cfg!(feature = "orangepi-pc") {
    5
} else if cfg!(feature = "bpim2u") {
    6
} else {
    panic!("expected a feature with the name of a machine")
}];
