//! Alarms: raised for a member, felt by all.

use super::write::Writer;
use crate::{
    command::{Alarm, AlarmKind},
    disk::{self, Column, Read, columns},
    mvcc::Result,
};
use bytes::Bytes;
use std::collections::BTreeSet;

/// The raised alarms: member and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarms(pub BTreeSet<(u64, i32)>);

impl Alarms {
    /// Reads them all.
    pub fn read(read: &dyn Read) -> disk::Result<Self> {
        let mut cursor = read.scan(Column::Alarm, b"", None)?;
        let mut alarms = BTreeSet::new();
        while let Some((key, _)) = cursor.row() {
            alarms.insert(columns::read_alarm_key(key)?);
            cursor.advance()?;
        }
        Ok(Alarms(alarms))
    }

    /// Some member has no space left: writes that need some are refused.
    pub fn no_space(&self) -> bool {
        self.raised(AlarmKind::NoSpace)
    }

    /// Some member's data is corrupt: every change is refused.
    pub fn corrupt(&self) -> bool {
        self.raised(AlarmKind::Corrupt)
    }

    fn raised(&self, wanted: AlarmKind) -> bool {
        self.0.iter().any(|(_, kind)| *kind == wanted as i32)
    }
}

pub(super) fn set(writer: &mut Writer<'_, '_>, alarm: Alarm) -> Result<()> {
    let key = Bytes::copy_from_slice(&columns::alarm_key(alarm.member, alarm.kind));
    let view = writer.view_mut();
    if alarm.raised {
        view.alarms.0.insert((alarm.member, alarm.kind));
        view.put(Column::Alarm, key, Bytes::new());
    } else {
        view.alarms.0.remove(&(alarm.member, alarm.kind));
        view.delete(Column::Alarm, key);
    }
    Ok(())
}
