//! Setting a key.

use super::{lease, write::Writer};
use crate::{
    command::{Put, PutResponse},
    mvcc::Result,
    refusal::Refusal,
};

pub(super) fn put(writer: &mut Writer<'_, '_>, put: &Put) -> Result<PutResponse> {
    if put.lease != 0 && lease::read(writer.view(), put.lease)?.is_none() {
        return Err(Refusal::LeaseNotFound.into());
    }
    let prev = writer.newest(&put.key)?;
    if (put.ignore_value || put.ignore_lease) && prev.is_none() {
        return Err(Refusal::KeyNotFound.into());
    }
    let kept_value = prev.as_ref().filter(|_| put.ignore_value).map(|prev| prev.kv.value.clone());
    let kept_lease = prev.as_ref().filter(|_| put.ignore_lease).map(|prev| prev.kv.lease);
    let prev_kv = prev.as_ref().filter(|_| put.prev_kv).map(|prev| prev.kv.clone());
    let (value, lease) = (kept_value.unwrap_or_else(|| put.value.clone()), kept_lease.unwrap_or(put.lease));
    writer.set(&put.key, value, lease, prev)?;
    Ok(PutResponse { prev_kv })
}
