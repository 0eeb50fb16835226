//! The status of CMD6 on SD cards, 64 bytes of data [SD 4.3.10.4].

use super::bits;
use super::command::sd::Group;

/// The status of CMD6: the functions that the card supports, and the functions that are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchStatus {
    /// Current in mA that the card draws, or would draw, with the selected functions; `None` if the
    /// card refused one of them.
    pub max_current_ma: Option<u16>,
    /// Version of the status structure; from version 1 on it has busy bits.
    pub version: u8,
    bytes: [u8; 64],
}

impl SwitchStatus {
    /// Decodes the 64 bytes of the status. Every content gives a value.
    pub fn parse(bytes: &[u8; 64]) -> Self {
        let at = |hi, lo| bits::of_bytes(bytes, hi, lo);
        SwitchStatus {
            max_current_ma: match at(511, 496) {
                0 => None,
                current => Some(current as u16),
            },
            version: at(375, 368) as u8,
            bytes: *bytes,
        }
    }

    /// Returns the field of `group` in a row of fields of `width` bits; the field of group 1 begins
    /// at bit `base`, the lowest.
    fn of(&self, group: Group, base: u32, width: u32) -> u16 {
        let lo = base + width * group as u32;
        bits::of_bytes(&self.bytes, lo + width - 1, lo) as u16
    }

    /// Returns whether the card supports function `function` (0 to 15) of the group.
    pub fn supports(&self, group: Group, function: u8) -> bool {
        function < 16 && self.supported(group) >> function & 1 != 0
    }

    /// Returns all supported functions of the group, bit n for function n.
    pub fn supported(&self, group: Group) -> u16 {
        self.of(group, 400, 16)
    }

    /// Returns the function that is selected in the group; `None` if the card refused the request
    /// (0xf).
    pub fn selected(&self, group: Group) -> Option<u8> {
        match self.of(group, 376, 4) {
            0xf => None,
            function => Some(function as u8),
        }
    }

    /// Returns whether this function (0 to 15) is busy, so that CMD6 cannot select it now.
    pub fn busy(&self, group: Group, function: u8) -> bool {
        function < 16 && self.version != 0 && self.of(group, 272, 16) >> function & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uhs_card_in_sdr104() {
        // 200 mA; groups 6 to 1: only defaults, but all driver strengths and access modes; SDR104
        // selected; version 1.
        let mut bytes = [0; 64];
        bytes[..18].copy_from_slice(&[
            0x00, 0xc8, 0x80, 0x01, 0x80, 0x01, 0x80, 0x0f, 0x80, 0x0f, 0x80, 0x01, 0x80, 0x1f, 0x00, 0x01,
            0x03, 0x01,
        ]);
        // Busy bits of group 1 are bytes 28 and 29.
        bytes[29] = 0x08;
        let status = SwitchStatus::parse(&bytes);
        assert_eq!((status.max_current_ma, status.version), (Some(200), 1));
        assert_eq!(status.supported(Group::AccessMode), 0x801f);
        assert_eq!(status.supported(Group::PowerLimit), 0x800f);
        assert!(status.supports(Group::DriverStrength, 3) && !status.supports(Group::DriverStrength, 4));
        assert!(!status.supports(Group::AccessMode, 16));
        assert_eq!(status.selected(Group::AccessMode), Some(3));
        assert_eq!(status.selected(Group::PowerLimit), Some(0));
        assert_eq!(status.selected(Group::DriverStrength), Some(1));
        assert!(status.busy(Group::AccessMode, 3) && !status.busy(Group::PowerLimit, 3));
    }

    #[test]
    fn refusal() {
        let mut bytes = [0; 64];
        bytes[16] = 0x0f;
        bytes[28] = 0xff;
        let status = SwitchStatus::parse(&bytes);
        assert_eq!((status.max_current_ma, status.selected(Group::AccessMode)), (None, None));
        // Version 0 has no busy bits.
        assert!(!status.busy(Group::AccessMode, 15));
    }

    #[test]
    fn any_input_is_read() {
        crate::fuzz::fuzz("any_input_is_read", 200, |u| {
            let mut bytes = [0; 64];
            u.fill_buffer(&mut bytes)?;
            let status = SwitchStatus::parse(&bytes);
            let function = u.arbitrary()?;
            for group in Group::ALL {
                assert!(status.selected(group).is_none_or(|function| function < 15));
                assert!(function < 16 || !status.supports(group, function));
                assert!(status.version != 0 || !status.busy(group, function));
            }
            Ok(())
        });
    }
}
