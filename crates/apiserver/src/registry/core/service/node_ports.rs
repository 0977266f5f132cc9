//! Node ports: one bitmap for the whole cluster, the RangeAllocation `/registry/ranges/servicenodeports`, changed
//! under its resourceVersion, in the form kube-apiserver keeps it.

use std::{collections::BTreeMap, ops::RangeInclusive};

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    status::Status,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use rand::Rng;
use serde_json::{Value, json};

use super::{Service, allocate::Held, invalid, needs_health_port, needs_node_ports};
use crate::{
    loopback::Loopback,
    registry::{
        check::At,
        edit::{each, ensure_object, text},
    },
    request::RequestContext,
};

/// The internal resource that keeps ranges; not shown in discovery.
pub(crate) const RESOURCE: &str = "rangeallocations";
const NAME: &str = "servicenodeports";
/// Attempts against other servers.
const TRIES: usize = 20;

/// Node ports a service has, health check included.
pub(crate) fn of(obj: &Object) -> Vec<u16> {
    let spec = At::field(obj, "spec");
    let ports = spec.get("ports").items();
    let all = ports.iter().map(|port| port.get("nodePort")).chain([spec.get("healthCheckNodePort")]);
    let mut numbers: Vec<u16> = all.filter_map(|at| u16::try_from(at.int()?).ok()).filter(|port| *port != 0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Takes the node ports the service names, and draws those it leaves open.
pub(crate) async fn take(
    service: &Service,
    ctx: &RequestContext,
    api: &Loopback,
    obj: &mut Object,
    old: &Object,
    taken: &mut Held,
) -> Result<(), Status> {
    if !needs_node_ports(obj) && !needs_health_port(obj) {
        return Ok(());
    }
    let ours = of(old);
    check(obj, &ours).map_err(|errs| invalid(obj, errs))?;
    if ctx.dry_run {
        let mut bitmap = Bitmap::new(&service.node_ports, &[]);
        return fill(obj, &mut bitmap, &[], true).map(drop).map_err(|errs| invalid(obj, errs));
    }
    let draft = obj.clone();
    let (filled, fresh) = edit(service, api, |bitmap| {
        let mut obj = draft.clone();
        let fresh = fill(&mut obj, bitmap, &ours, false).map_err(|errs| invalid(&obj, errs))?;
        Ok((obj, fresh))
    })
    .await?;
    *obj = filled;
    taken.ports.extend(fresh);
    Ok(())
}

/// Gives ports back.
pub(crate) async fn give_back(service: &Service, api: &Loopback, ports: &[u16]) -> Result<(), Status> {
    edit(service, api, |bitmap| {
        ports.iter().for_each(|port| bitmap.clear(*port));
        Ok(())
    })
    .await
}

/// A port may be named twice only for different protocols.
fn check(obj: &Object, ours: &[u16]) -> Result<(), ErrorList> {
    let mut seen: BTreeMap<(i64, &str), ()> = BTreeMap::new();
    let mut errs = ErrorList::new();
    for port in At::field(obj, "spec").get("ports").items() {
        let at = port.get("nodePort");
        let Some(number) = at.int().filter(|n| *n != 0) else { continue };
        let repeated = seen.insert((number, port.get("protocol").str()), ()).is_some();
        if repeated && !ours.iter().any(|known| i64::from(*known) == number) {
            errs.push(at.invalid("provided port is already allocated"));
        }
    }
    if errs.is_empty() { Ok(()) } else { Err(errs) }
}

/// Marks the service's ports in the bitmap and writes drawn ones into the service; answers what was not its own before.
fn fill(obj: &mut Object, bitmap: &mut Bitmap, ours: &[u16], rehearsal: bool) -> Result<Vec<u16>, ErrorList> {
    let mut fresh = Vec::new();
    if needs_node_ports(obj) {
        let wanted: Vec<Error> = named(obj, bitmap, ours, rehearsal, &mut fresh);
        if !wanted.is_empty() {
            return Err(wanted);
        }
        draw_ports(obj, bitmap, &mut fresh)?;
    }
    let spec = At::field(obj, "spec");
    let health = spec.get("healthCheckNodePort").int().unwrap_or(0);
    if needs_health_port(obj) && health == 0 {
        let port = bitmap.draw().ok_or_else(|| full(&spec.get("healthCheckNodePort")))?;
        fresh.push(port);
        ensure_object(&mut obj.0, "spec").insert("healthCheckNodePort".into(), port.into());
    }
    Ok(fresh)
}

fn full(at: &At<'_>) -> ErrorList {
    vec![Error::internal(&at.path, "failed to allocate a nodePort: range is full")]
}

fn named(obj: &Object, bitmap: &mut Bitmap, ours: &[u16], rehearsal: bool, fresh: &mut Vec<u16>) -> Vec<Error> {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    let ports = spec.get("ports").items();
    let all = ports.iter().map(|port| port.get("nodePort")).chain([spec.get("healthCheckNodePort")]);
    for at in all {
        let Some(number) = at.int().filter(|n| *n != 0) else { continue };
        match u16::try_from(number) {
            Ok(port) if ours.contains(&port) || fresh.contains(&port) => {}
            _ if rehearsal => {}
            Ok(port) if bitmap.range.contains(&port) => {
                if bitmap.set(port) {
                    fresh.push(port)
                } else {
                    errs.push(at.invalid("provided port is already allocated"))
                }
            }
            _ => {
                let (low, high) = (bitmap.range.start(), bitmap.range.end());
                let detail = format!("provided port is not in the valid range. The range of valid ports is {low}-{high}");
                errs.push(at.invalid(detail));
            }
        }
    }
    errs
}

fn draw_ports(obj: &mut Object, bitmap: &mut Bitmap, fresh: &mut Vec<u16>) -> Result<(), ErrorList> {
    let at = At::field(obj, "spec").get("ports").path.index(0).child("nodePort");
    // Ports of one number and different protocols share a node port, as DNS over TCP and UDP wants.
    let mut by_number: BTreeMap<i64, (u16, String)> = BTreeMap::new();
    for port in each(ensure_object(&mut obj.0, "spec"), "ports") {
        if port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0 {
            continue;
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let protocol = text(port, "protocol").to_owned();
        let drawn = match by_number.get(&number) {
            Some((node_port, other)) if *other != protocol => *node_port,
            _ => {
                let Some(drawn) = bitmap.draw() else { return Err(full(&At::new(at, &Value::Null))) };
                fresh.push(drawn);
                drawn
            }
        };
        by_number.insert(number, (drawn, protocol));
        port.insert("nodePort".into(), drawn.into());
    }
    Ok(())
}

/// Changes the stored bitmap; `change` runs again where another writer was faster.
async fn edit<T>(service: &Service, api: &Loopback, change: impl Fn(&mut Bitmap) -> Result<T, Status>) -> Result<T, Status> {
    let _alone = service.allocating.lock().await;
    let ranges = api.api("v1", RESOURCE);
    let mut last = Status::internal("node ports could not be allocated");
    for _ in 0..TRIES {
        let stored = ranges.get_opt(NAME).await?;
        let bytes = stored.as_ref().and_then(|obj| STANDARD.decode(obj.str_at("/data")).ok()).unwrap_or_default();
        let mut bitmap = Bitmap::new(&service.node_ports, &bytes);
        let answer = change(&mut bitmap)?;
        let written = match stored {
            Some(old) => ranges.update(&bitmap.object(old)).await,
            None => ranges.create(&bitmap.object(new_range())).await,
        };
        match written {
            Ok(_) => return Ok(answer),
            Err(status) if status.code == 409 => last = status,
            Err(status) => return Err(status),
        }
    }
    Err(last)
}

fn new_range() -> Object {
    let range = json!({"apiVersion": "v1", "kind": "RangeAllocation", "metadata": {"name": NAME}});
    Object::from_value(range).unwrap_or_default()
}

/// Which ports of the range are taken: bit n stands for the n-th port.
struct Bitmap {
    range: RangeInclusive<u16>,
    /// Least significant byte first; stored the other way round, as Go's `big.Int` writes it.
    bytes: Vec<u8>,
}

impl Bitmap {
    fn new(range: &RangeInclusive<u16>, stored: &[u8]) -> Self {
        let mut bytes: Vec<u8> = stored.iter().rev().copied().collect();
        bytes.resize(usize::from(range.end() - range.start()) / 8 + 1, 0);
        Self { range: range.clone(), bytes }
    }

    fn place(&self, port: u16) -> (usize, u8) {
        let bit = usize::from(port.saturating_sub(*self.range.start()));
        (bit / 8, 1 << (bit % 8))
    }

    /// Takes a port of the range; false where it is taken.
    fn set(&mut self, port: u16) -> bool {
        let (byte, mask) = self.place(port);
        let free = self.bytes[byte] & mask == 0;
        self.bytes[byte] |= mask;
        free
    }

    fn clear(&mut self, port: u16) {
        if self.range.contains(&port) {
            let (byte, mask) = self.place(port);
            self.bytes[byte] &= !mask;
        }
    }

    /// Takes any free port, beginning to look at a random one.
    fn draw(&mut self) -> Option<u16> {
        let (low, high) = (*self.range.start(), *self.range.end());
        let start = rand::rng().random_range(low..=high);
        (start..=high).chain(low..start).find(|port| self.set(*port))
    }

    fn object(&self, mut obj: Object) -> Object {
        let mut big_endian: Vec<u8> = self.bytes.iter().rev().skip_while(|byte| **byte == 0).copied().collect();
        big_endian.shrink_to_fit();
        obj.0.insert("range".into(), format!("{}-{}", self.range.start(), self.range.end()).into());
        obj.0.insert("data".into(), STANDARD.encode(big_endian).into());
        obj
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: RangeInclusive<u16> = 30000..=30002;

    fn service(ports: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "x"}, "spec": {"type": "NodePort", "ports": ports}})).unwrap()
    }

    #[test]
    fn named_ports_are_marked_and_open_ones_drawn() {
        let mut bitmap = Bitmap::new(&RANGE, &[]);
        let mut obj = service(json!([{"port": 80, "protocol": "TCP", "nodePort": 30001}, {"port": 53, "protocol": "TCP"},
            {"port": 53, "protocol": "UDP"}]));
        let fresh = fill(&mut obj, &mut bitmap, &[], false).unwrap();
        assert_eq!(fresh.len(), 2);
        let drawn = obj.0["spec"]["ports"][1]["nodePort"].as_u64().unwrap();
        assert!(drawn == 30000 || drawn == 30002);
        assert_eq!(obj.0["spec"]["ports"][2]["nodePort"], drawn);
    }

    #[test]
    fn taken_and_foreign_ports_are_refused() {
        let mut bitmap = Bitmap::new(&RANGE, &[0b10]);
        let refused = |port: u16, bitmap: &mut Bitmap| {
            fill(&mut service(json!([{"port": 80, "nodePort": port}])), bitmap, &[], false).unwrap_err()[0].to_string()
        };
        assert_eq!(refused(30001, &mut bitmap), "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated");
        assert_eq!(
            refused(80, &mut bitmap),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. \
            The range of valid ports is 30000-30002"
        );
    }

    #[test]
    fn the_bitmap_is_stored_as_a_big_endian_integer() {
        let range = 30000..=32767;
        let mut bitmap = Bitmap::new(&range, &[]);
        assert!(bitmap.set(30000) && bitmap.set(30009) && !bitmap.set(30009));
        let obj = bitmap.object(new_range());
        assert_eq!((obj.str_at("/range"), obj.str_at("/data")), ("30000-32767", STANDARD.encode([0b10, 0b1]).as_str()));
        bitmap.clear(30009);
        assert_eq!(bitmap.object(new_range()).str_at("/data"), STANDARD.encode([1]));
    }
}
