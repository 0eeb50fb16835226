//! Names of commands in the standards, for traces.

/// Returns the standard's name of a command. `app`: the command follows CMD55; `emmc`: the card is
/// an eMMC. Returns `"RESERVED"` or `"VENDOR"` for an index that the standard reserves or leaves to
/// the vendor.
pub const fn name(index: u8, app: bool, emmc: bool) -> &'static str {
    if emmc {
        emmc_name(index)
    } else if app {
        acmd_name(index)
    } else {
        sd_name(index)
    }
}

/// Returns the name of a command that SD and eMMC share.
const fn shared_name(index: u8) -> &'static str {
    match index {
        0 => "GO_IDLE_STATE",
        2 => "ALL_SEND_CID",
        4 => "SET_DSR",
        7 => "SELECT/DESELECT_CARD",
        9 => "SEND_CSD",
        10 => "SEND_CID",
        12 => "STOP_TRANSMISSION",
        13 => "SEND_STATUS",
        15 => "GO_INACTIVE_STATE",
        16 => "SET_BLOCKLEN",
        17 => "READ_SINGLE_BLOCK",
        18 => "READ_MULTIPLE_BLOCK",
        23 => "SET_BLOCK_COUNT",
        24 => "WRITE_BLOCK",
        25 => "WRITE_MULTIPLE_BLOCK",
        27 => "PROGRAM_CSD",
        28 => "SET_WRITE_PROT",
        29 => "CLR_WRITE_PROT",
        30 => "SEND_WRITE_PROT",
        38 => "ERASE",
        42 => "LOCK_UNLOCK",
        55 => "APP_CMD",
        56 => "GEN_CMD",
        60..=63 => "VENDOR",
        _ => "RESERVED",
    }
}

/// Returns the name of a command of SD [SD 4.7.4] or SDIO [SDIO 5].
const fn sd_name(index: u8) -> &'static str {
    match index {
        3 => "SEND_RELATIVE_ADDR",
        5 => "IO_SEND_OP_COND",
        6 => "SWITCH_FUNC",
        8 => "SEND_IF_COND",
        11 => "VOLTAGE_SWITCH",
        19 => "SEND_TUNING_BLOCK",
        20 => "SPEED_CLASS_CONTROL",
        22 => "ADDRESS_EXTENSION",
        26 => "VENDOR",
        32 => "ERASE_WR_BLK_START",
        33 => "ERASE_WR_BLK_END",
        43 => "Q_MANAGEMENT",
        44 => "Q_TASK_INFO_A",
        45 => "Q_TASK_INFO_B",
        46 => "Q_RD_TASK",
        47 => "Q_WR_TASK",
        48 => "READ_EXTR_SINGLE",
        49 => "WRITE_EXTR_SINGLE",
        52 => "IO_RW_DIRECT",
        53 => "IO_RW_EXTENDED",
        58 => "READ_EXTR_MULTI",
        59 => "WRITE_EXTR_MULTI",
        _ => shared_name(index),
    }
}

/// Returns the name of the application command with this index [SD 4.7.4]; security commands have
/// the names of the copy protection specification.
const fn acmd_name(index: u8) -> &'static str {
    match index {
        6 => "SET_BUS_WIDTH",
        13 => "SD_STATUS",
        18 => "SECURE_READ_MULTI_BLOCK",
        22 => "SEND_NUM_WR_BLOCKS",
        23 => "SET_WR_BLK_ERASE_COUNT",
        25 => "SECURE_WRITE_MULTI_BLOCK",
        26 => "SECURE_WRITE_MKB",
        38 => "SECURE_ERASE",
        41 => "SD_SEND_OP_COND",
        42 => "SET_CLR_CARD_DETECT",
        43 => "GET_MKB",
        44 => "GET_MID",
        45 => "SET_CER_RN1",
        46 => "GET_CER_RN2",
        47 => "SET_CER_RES2",
        48 => "GET_CER_RES1",
        49 => "CHANGE_SECURE_AREA",
        51 => "SEND_SCR",
        53 => "SECURE_RECEIVE",
        54 => "SECURE_SEND",
        // A card executes an index that is no application command as the ordinary command
        // [SD 4.3.9.1].
        _ => sd_name(index),
    }
}

/// Returns the name of a command of eMMC [eMMC 6.10.4].
const fn emmc_name(index: u8) -> &'static str {
    match index {
        1 => "SEND_OP_COND",
        3 => "SET_RELATIVE_ADDR",
        5 => "SLEEP_AWAKE",
        6 => "SWITCH",
        8 => "SEND_EXT_CSD",
        14 => "BUSTEST_R",
        19 => "BUSTEST_W",
        21 => "SEND_TUNING_BLOCK",
        26 => "PROGRAM_CID",
        31 => "SEND_WRITE_PROT_TYPE",
        35 => "ERASE_GROUP_START",
        36 => "ERASE_GROUP_END",
        39 => "FAST_IO",
        40 => "GO_IRQ_STATE",
        44 => "QUEUED_TASK_PARAMS",
        45 => "QUEUED_TASK_ADDRESS",
        46 => "EXECUTE_READ_TASK",
        47 => "EXECUTE_WRITE_TASK",
        48 => "CMDQ_TASK_MGMT",
        49 => "SET_TIME",
        53 => "PROTOCOL_RD",
        54 => "PROTOCOL_WR",
        _ => shared_name(index),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn one_index_has_many_names() {
        assert_eq!(name(6, false, false), "SWITCH_FUNC");
        assert_eq!(name(6, true, false), "SET_BUS_WIDTH");
        assert_eq!(name(6, false, true), "SWITCH");
        assert_eq!(name(55, true, false), "APP_CMD");
        assert_eq!(name(18, false, true), "READ_MULTIPLE_BLOCK");
        assert_eq!(name(62, false, true), "VENDOR");
        assert_eq!(name(255, false, false), "RESERVED");
    }
}
