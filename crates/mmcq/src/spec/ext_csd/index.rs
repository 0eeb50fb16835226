//! Byte numbers in EXT_CSD that CMD6 can write (modes segment) [eMMC 7.4].

/// 1 enables the command queue.
pub const CMDQ_MODE_EN: u8 = 15;
/// Kind of secure removal: how the device removes data.
pub const SECURE_REMOVAL_TYPE: u8 = 16;
/// Enables production state awareness.
pub const PRODUCT_STATE_AWARENESS_ENABLEMENT: u8 = 17;
/// Field firmware update: operation code (install or abort).
pub const MODE_OPERATION_CODES: u8 = 29;
/// Field firmware update: mode of the device (normal, update, vendor's).
pub const MODE_CONFIG: u8 = 30;
/// 1 enables the barrier.
pub const BARRIER_CTRL: u8 = 31;
/// Bit 0 flushes the cache, bit 1 issues a barrier.
pub const FLUSH_CACHE: u8 = 32;
/// 1 enables the cache.
pub const CACHE_CTRL: u8 = 33;
/// Power-off notification: 1 powered on, 2 power off short, 3 power off long, 4 sleep.
pub const POWER_OFF_NOTIFICATION: u8 = 34;
/// First of the 15 bytes that configure contexts 1 to 15.
pub const CONTEXT_CONF: u8 = 37;
/// First of two bytes with the extended partition attributes.
pub const EXT_PARTITIONS_ATTRIBUTE: u8 = 52;
/// First of two bytes that select which exception events the device reports.
pub const EXCEPTION_EVENTS_CTRL: u8 = 56;
/// Requests the release of dynamic capacity.
pub const DYNCAP_NEEDED: u8 = 58;
/// Meaning of command class 6: write protection or dynamic capacity.
pub const CLASS_6_CTRL: u8 = 59;
/// Switches the device to its native sector size.
pub const USE_NATIVE_SECTOR: u8 = 62;
/// Period of the wake-up for maintenance.
pub const PERIODIC_WAKEUP: u8 = 131;
/// Control of the package case temperature.
pub const TCASE_SUPPORT: u8 = 132;
/// Production state of the device.
pub const PRODUCTION_STATE_AWARENESS: u8 = 133;
/// Whether the device erases bad blocks securely when it retires them.
pub const SEC_BAD_BLK_MGMNT: u8 = 134;
/// First of four bytes with the start of the enhanced user area.
pub const ENH_START_ADDR: u8 = 136;
/// First of three bytes with the size of the enhanced user area.
pub const ENH_SIZE_MULT: u8 = 140;
/// First of twelve bytes with the sizes of the general purpose partitions.
pub const GP_SIZE_MULT: u8 = 143;
/// 1 makes the partitioning final.
pub const PARTITION_SETTING_COMPLETED: u8 = 155;
/// Enhanced attribute of the user area and the general purpose partitions, one bit each.
pub const PARTITIONS_ATTRIBUTE: u8 = 156;
/// 1 enables the high-priority interrupt (HPI).
pub const HPI_MGMT: u8 = 161;
/// Whether RST_n resets the device; can be written once.
pub const RST_N_FUNCTION: u8 = 162;
/// Enables background operations: bit 0 manual, bit 1 automatic.
pub const BKOPS_EN: u8 = 163;
/// Starts background operations.
pub const BKOPS_START: u8 = 164;
/// Starts a sanitize operation.
pub const SANITIZE_START: u8 = 165;
/// Write reliability of the partitions, one bit each.
pub const WR_REL_SET: u8 = 167;
/// Whether firmware updates are allowed.
pub const FW_CONFIG: u8 = 169;
/// Write protection of the user area.
pub const USER_WP: u8 = 171;
/// Write protection of the boot areas.
pub const BOOT_WP: u8 = 173;
/// 1 selects high-capacity erase groups.
pub const ERASE_GROUP_DEF: u8 = 175;
/// Bus width and timing during boot.
pub const BOOT_BUS_CONDITIONS: u8 = 177;
/// Protects the boot configuration against changes.
pub const BOOT_CONFIG_PROT: u8 = 178;
/// Partition that is accessed, and partition that boots.
pub const PARTITION_CONFIG: u8 = 179;
/// Bus width; bit 7 enables the enhanced strobe.
pub const BUS_WIDTH: u8 = 183;
/// Timing in bits 3:0, driver strength in 7:4.
pub const HS_TIMING: u8 = 185;
/// Power class: the current that the device may draw.
pub const POWER_CLASS: u8 = 187;
/// Command set in use.
pub const CMD_SET: u8 = 191;
