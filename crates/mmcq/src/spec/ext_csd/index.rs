//! Byte numbers of the modes segment, for CMD6 [eMMC 7.4].

/// Turns the command queue on.
pub const CMDQ_MODE_EN: u8 = 15;
/// How secure removal is done.
pub const SECURE_REMOVAL_TYPE: u8 = 16;
/// Production state awareness.
pub const PRODUCT_STATE_AWARENESS_ENABLEMENT: u8 = 17;
/// Field firmware update: operation code.
pub const MODE_OPERATION_CODES: u8 = 29;
/// Field firmware update: mode.
pub const MODE_CONFIG: u8 = 30;
/// Turns the barrier on.
pub const BARRIER_CTRL: u8 = 31;
/// Bit 0 flushes the cache, bit 1 sets a barrier.
pub const FLUSH_CACHE: u8 = 32;
/// Turns the cache on.
pub const CACHE_CTRL: u8 = 33;
/// 1 powered on, 2 power off short, 3 power off long, 4 sleep.
pub const POWER_OFF_NOTIFICATION: u8 = 34;
/// First of the 15 context configurations.
pub const CONTEXT_CONF: u8 = 37;
/// First byte of the extended partition attributes.
pub const EXT_PARTITIONS_ATTRIBUTE: u8 = 52;
/// First byte of the exception events' control.
pub const EXCEPTION_EVENTS_CTRL: u8 = 56;
/// Releases dynamic capacity.
pub const DYNCAP_NEEDED: u8 = 58;
/// Meaning of class 6.
pub const CLASS_6_CTRL: u8 = 59;
/// Switches to native sectors.
pub const USE_NATIVE_SECTOR: u8 = 62;
/// Periodic wake-up.
pub const PERIODIC_WAKEUP: u8 = 131;
/// Package case temperature is controlled.
pub const TCASE_SUPPORT: u8 = 132;
/// Production state.
pub const PRODUCTION_STATE_AWARENESS: u8 = 133;
/// Bad blocks are retired securely.
pub const SEC_BAD_BLK_MGMNT: u8 = 134;
/// First byte of the enhanced area's start.
pub const ENH_START_ADDR: u8 = 136;
/// First byte of the enhanced area's size.
pub const ENH_SIZE_MULT: u8 = 140;
/// First byte of the general purpose partitions' sizes.
pub const GP_SIZE_MULT: u8 = 143;
/// Makes the partitioning final.
pub const PARTITION_SETTING_COMPLETED: u8 = 155;
/// Enhanced attribute of each partition.
pub const PARTITIONS_ATTRIBUTE: u8 = 156;
/// Turns the high-priority interrupt on.
pub const HPI_MGMT: u8 = 161;
/// Meaning of the reset pin; can be written once.
pub const RST_N_FUNCTION: u8 = 162;
/// Background operations: manual, automatic.
pub const BKOPS_EN: u8 = 163;
/// Starts background operations.
pub const BKOPS_START: u8 = 164;
/// Starts a sanitize.
pub const SANITIZE_START: u8 = 165;
/// Write reliability of each partition.
pub const WR_REL_SET: u8 = 167;
/// Firmware updates allowed.
pub const FW_CONFIG: u8 = 169;
/// Write protection of the user area.
pub const USER_WP: u8 = 171;
/// Write protection of the boot areas.
pub const BOOT_WP: u8 = 173;
/// High-capacity erase groups.
pub const ERASE_GROUP_DEF: u8 = 175;
/// Bus width and timing while booting.
pub const BOOT_BUS_CONDITIONS: u8 = 177;
/// Protects the boot configuration.
pub const BOOT_CONFIG_PROT: u8 = 178;
/// Which partition is accessed, and which boots.
pub const PARTITION_CONFIG: u8 = 179;
/// Bus width; bit 7 is the enhanced strobe.
pub const BUS_WIDTH: u8 = 183;
/// Timing interface in bits 3:0, driver strength in 7:4.
pub const HS_TIMING: u8 = 185;
/// Power class.
pub const POWER_CLASS: u8 = 187;
/// Command set.
pub const CMD_SET: u8 = 191;
