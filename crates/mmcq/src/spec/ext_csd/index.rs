//! Byte numbers in EXT_CSD that CMD6 can write (modes segment) [eMMC 7.4].

/// Byte 15: 1 enables the command queue.
pub const CMDQ_MODE_EN: u8 = 15;
/// Byte 16: kind of secure removal: how the device removes data.
pub const SECURE_REMOVAL_TYPE: u8 = 16;
/// Byte 17: enables production state awareness: the device gets data before it is soldered.
pub const PRODUCT_STATE_AWARENESS_ENABLEMENT: u8 = 17;
/// Byte 29: field firmware update: operation code (install or abort).
pub const MODE_OPERATION_CODES: u8 = 29;
/// Byte 30: field firmware update: mode of the device (normal, update, vendor's).
pub const MODE_CONFIG: u8 = 30;
/// Byte 31: 1 enables the barrier of the cache.
pub const BARRIER_CTRL: u8 = 31;
/// Byte 32: bit 0 flushes the cache, bit 1 issues a barrier of the cache.
pub const FLUSH_CACHE: u8 = 32;
/// Byte 33: 1 enables the cache.
pub const CACHE_CTRL: u8 = 33;
/// Byte 34: power-off notification: 1 powered on, 2 power off short, 3 power off long, 4 sleep.
pub const POWER_OFF_NOTIFICATION: u8 = 34;
/// Byte 37: first of the 15 bytes that configure contexts 1 to 15.
pub const CONTEXT_CONF: u8 = 37;
/// Byte 52: first of two bytes with the extended partition attributes.
pub const EXT_PARTITIONS_ATTRIBUTE: u8 = 52;
/// Byte 56: first of two bytes that select which exception events the device reports.
pub const EXCEPTION_EVENTS_CTRL: u8 = 56;
/// Byte 58: requests the release of dynamic capacity.
pub const DYNCAP_NEEDED: u8 = 58;
/// Byte 59: meaning of command class 6: write protection or dynamic capacity.
pub const CLASS_6_CTRL: u8 = 59;
/// Byte 62: switches the device to its native sector size.
pub const USE_NATIVE_SECTOR: u8 = 62;
/// Byte 131: period of the wake-up for maintenance.
pub const PERIODIC_WAKEUP: u8 = 131;
/// Byte 132: control of the package case temperature.
pub const TCASE_SUPPORT: u8 = 132;
/// Byte 133: whether the device gets data before it is soldered: 0 normal use, 1 and 2 manual mode
/// (while and after the data are written), 3 automatic mode.
pub const PRODUCTION_STATE_AWARENESS: u8 = 133;
/// Byte 134: whether the device erases bad blocks securely when it retires them.
pub const SEC_BAD_BLK_MGMNT: u8 = 134;
/// Byte 136: first of four bytes with the start of the enhanced user area.
pub const ENH_START_ADDR: u8 = 136;
/// Byte 140: first of three bytes with the size of the enhanced user area.
pub const ENH_SIZE_MULT: u8 = 140;
/// Byte 143: first of twelve bytes with the sizes of the general purpose partitions.
pub const GP_SIZE_MULT: u8 = 143;
/// Byte 155: 1 makes the partitioning final.
pub const PARTITION_SETTING_COMPLETED: u8 = 155;
/// Byte 156: enhanced attribute of the user area and the general purpose partitions, one bit each.
pub const PARTITIONS_ATTRIBUTE: u8 = 156;
/// Byte 161: 1 enables the high-priority interrupt (HPI).
pub const HPI_MGMT: u8 = 161;
/// Byte 162: whether RST_n resets the device; can be written only one time.
pub const RST_N_FUNCTION: u8 = 162;
/// Byte 163: enables background operations: bit 0 manual, bit 1 automatic.
pub const BKOPS_EN: u8 = 163;
/// Byte 164: starts background operations.
pub const BKOPS_START: u8 = 164;
/// Byte 165: starts a sanitize operation.
pub const SANITIZE_START: u8 = 165;
/// Byte 167: partitions that keep the old data when a write is interrupted, one bit each.
pub const WR_REL_SET: u8 = 167;
/// Byte 169: whether firmware updates are allowed.
pub const FW_CONFIG: u8 = 169;
/// Byte 171: write protection of the user area.
pub const USER_WP: u8 = 171;
/// Byte 173: write protection of the boot areas.
pub const BOOT_WP: u8 = 173;
/// Byte 175: 1 selects high-capacity erase groups.
pub const ERASE_GROUP_DEF: u8 = 175;
/// Byte 177: bus width and timing during boot.
pub const BOOT_BUS_CONDITIONS: u8 = 177;
/// Byte 178: protects the boot configuration against changes.
pub const BOOT_CONFIG_PROT: u8 = 178;
/// Byte 179: partition that is accessed, and partition that boots.
pub const PARTITION_CONFIG: u8 = 179;
/// Byte 183: bus width; bit 7 enables the enhanced strobe.
pub const BUS_WIDTH: u8 = 183;
/// Byte 185: timing in bits 3:0, driver strength in 7:4.
pub const HS_TIMING: u8 = 185;
/// Byte 187: power class: the current that the device may draw.
pub const POWER_CLASS: u8 = 187;
/// Byte 191: command set in use.
pub const CMD_SET: u8 = 191;
