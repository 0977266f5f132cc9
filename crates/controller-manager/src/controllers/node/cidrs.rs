//! Cuts a range into equal parts and remembers which are taken. Pure.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

/// No more parts than this per range (upstream: a set of 2^16 subnets).
const MOST_BITS: u8 = 16;

/// A range that cannot be cut.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Error {
    #[error("node mask /{mask} is shorter than that of the cluster range {range}")]
    MaskTooShort { range: IpNet, mask: u8 },
    #[error("cluster range {range} cut by /{mask} makes more than 65536 node ranges")]
    TooMany { range: IpNet, mask: u8 },
}

/// One cluster range and the node ranges given out of it.
#[derive(Debug)]
pub(super) struct Cidrs {
    range: IpNet,
    mask: u8,
    taken: BTreeSet<u32>,
    next: u32,
}

impl Cidrs {
    pub(super) fn new(range: IpNet, mask: u8) -> Result<Self, Error> {
        let range = range.trunc();
        if mask < range.prefix_len() || mask > range.max_prefix_len() {
            return Err(Error::MaskTooShort { range, mask });
        }
        if mask - range.prefix_len() > MOST_BITS {
            return Err(Error::TooMany { range, mask });
        }
        Ok(Self { range, mask, taken: BTreeSet::new(), next: 0 })
    }

    fn count(&self) -> u32 {
        1 << (self.mask - self.range.prefix_len())
    }

    /// Takes a free part; `None` when there is none. Parts given back come round again last.
    pub(super) fn allocate(&mut self) -> Option<IpNet> {
        let count = self.count();
        let free = (0..count).map(|step| (self.next + step) % count).find(|index| !self.taken.contains(index))?;
        self.taken.insert(free);
        self.next = (free + 1) % count;
        self.part(free)
    }

    /// Marks every part that `net` touches as taken; whether it lies in this range at all.
    pub(super) fn occupy(&mut self, net: &IpNet) -> bool {
        let touched = self.touched(net);
        self.taken.extend(touched.clone());
        !touched.is_empty()
    }

    /// Gives `net` back.
    pub(super) fn release(&mut self, net: &IpNet) {
        for index in self.touched(net) {
            self.taken.remove(&index);
        }
    }

    fn touched(&self, net: &IpNet) -> std::ops::Range<u32> {
        if net.addr().is_ipv4() != self.range.addr().is_ipv4() {
            return 0..0;
        }
        if net.contains(&self.range) {
            return 0..self.count();
        }
        if !self.range.contains(net) {
            return 0..0;
        }
        let (first, last) = (self.index(net.network()), self.index(net.broadcast()));
        first..last + 1
    }

    fn index(&self, address: IpAddr) -> u32 {
        let shift = u32::from(self.range.max_prefix_len() - self.mask);
        let offset = bits(address) - bits(self.range.network());
        // Within 16 bits by construction.
        u32::try_from(offset.checked_shr(shift).unwrap_or(0)).unwrap_or(0)
    }

    fn part(&self, index: u32) -> Option<IpNet> {
        let shift = u32::from(self.range.max_prefix_len() - self.mask);
        let start = bits(self.range.network()) + u128::from(index).checked_shl(shift).unwrap_or(0);
        let address = match self.range {
            IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(start).ok()?)),
            IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(start)),
        };
        IpNet::new(address, self.mask).ok()
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cidrs, Error};

    fn cidrs(range: &str, mask: u8) -> Cidrs {
        Cidrs::new(range.parse().unwrap(), mask).unwrap()
    }

    fn take(cidrs: &mut Cidrs) -> Option<String> {
        cidrs.allocate().map(|net| net.to_string())
    }

    #[test]
    fn gives_out_each_part_once() {
        let mut cidrs = cidrs("10.244.0.0/22", 24);
        let all: Vec<_> = std::iter::from_fn(|| take(&mut cidrs)).collect();
        assert_eq!(all, ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"]);
    }

    #[test]
    fn occupied_parts_are_passed_over_and_released_ones_come_back() {
        let mut cidrs = cidrs("10.244.0.0/23", 24);
        assert!(cidrs.occupy(&"10.244.0.0/24".parse().unwrap()));
        assert!(!cidrs.occupy(&"10.9.0.0/24".parse().unwrap()));
        assert_eq!(take(&mut cidrs).as_deref(), Some("10.244.1.0/24"));
        assert_eq!(take(&mut cidrs), None);
        cidrs.release(&"10.244.0.0/24".parse().unwrap());
        assert_eq!(take(&mut cidrs).as_deref(), Some("10.244.0.0/24"));
    }

    #[test]
    fn a_service_range_inside_is_kept_free() {
        let mut cidrs = cidrs("10.0.0.0/22", 24);
        cidrs.occupy(&"10.0.0.0/23".parse().unwrap());
        assert_eq!(take(&mut cidrs).as_deref(), Some("10.0.2.0/24"));
    }

    #[test]
    fn cuts_ipv6_too() {
        let mut cidrs = cidrs("fd00::/56", 64);
        assert_eq!([take(&mut cidrs), take(&mut cidrs)].map(Option::unwrap), ["fd00::/64", "fd00:0:0:1::/64"]);
    }

    #[test]
    fn refuses_what_cannot_be_cut() {
        assert!(matches!(Cidrs::new("10.0.0.0/24".parse().unwrap(), 16), Err(Error::MaskTooShort { .. })));
        assert!(matches!(Cidrs::new("fd00::/40".parse().unwrap(), 64), Err(Error::TooMany { .. })));
    }
}
