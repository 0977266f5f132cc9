//! Who is in the cluster: the initial membership, and the IDs every member derives from it alike.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::types::Member;
use crate::url::{self, Url};

/// Who this member is; written once, when its data directory is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Shared by all members of a cluster; never 0.
    pub(crate) cluster_id: u64,
    /// This member's own; never 0.
    pub(crate) member_id: u64,
}

/// Why an initial cluster cannot be formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("--initial-cluster: no \"name=url\" in {0:?}")]
    Syntax(String),
    #[error("--initial-cluster: {0}")]
    Url(#[from] url::Error),
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotListed(String),
    #[error("--initial-cluster has {0} for {1:?}, but --initial-advertise-peer-urls is {2}")]
    OtherUrls(String, String, String),
    #[error("--initial-cluster: {0:?} and {1:?} have the same peer URLs")]
    SameUrls(String, String),
}

/// Peer URLs by member name, from `name=url,name=url`; a name may come more than once.
pub(crate) fn parse_initial_cluster(text: &str) -> Result<BTreeMap<String, Vec<Url>>, Error> {
    let mut members = BTreeMap::<String, Vec<Url>>::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, url) = part.split_once('=').ok_or_else(|| Error::Syntax(part.into()))?;
        members.entry(name.trim().into()).or_default().push(url.parse()?);
    }
    Ok(members)
}

/// The initial membership by ID, and which of them is `name`.
pub(crate) fn initial(
    cluster: &BTreeMap<String, Vec<Url>>,
    name: &str,
    advertised: &[Url],
    token: &str,
) -> Result<(Identity, BTreeMap<u64, Member>), Error> {
    listed(cluster, name, advertised)?;
    let mut members = BTreeMap::<u64, Member>::new();
    for (other, urls) in cluster {
        let id = member_id(urls, token);
        let member = Member { name: other.clone(), peer_urls: sorted(urls), learner: false };
        if let Some(twin) = members.insert(id, member) {
            return Err(Error::SameUrls(twin.name, other.clone()));
        }
    }
    let identity = Identity { cluster_id: cluster_id(members.keys()), member_id: member_id(advertised, token) };
    Ok((identity, members))
}

/// The peer URLs of `name` in the initial cluster, which must be those it advertises.
pub(crate) fn listed(cluster: &BTreeMap<String, Vec<Url>>, name: &str, advertised: &[Url]) -> Result<Vec<String>, Error> {
    let listed = sorted(cluster.get(name).ok_or_else(|| Error::NotListed(name.into()))?);
    let advertised = sorted(advertised);
    if listed == advertised { Ok(listed) } else { Err(Error::OtherUrls(listed.join(","), name.into(), advertised.join(","))) }
}

/// A new member's ID: unlike those of the first members it must differ from that of an earlier one with the same URLs.
pub(crate) fn fresh_member_id(urls: &[Url], chance: u64) -> u64 {
    member_id(urls, &chance.to_string())
}

/// A member's ID: a hash of its peer URLs and the cluster token, so every member derives the same.
fn member_id(urls: &[Url], token: &str) -> u64 {
    let mut hash = Sha256::new();
    for url in sorted(urls) {
        hash.update(url);
    }
    hash.update(token);
    nonzero(hash)
}

fn cluster_id<'a>(members: impl Iterator<Item = &'a u64>) -> u64 {
    let mut hash = Sha256::new();
    for id in members {
        hash.update(id.to_be_bytes());
    }
    nonzero(hash)
}

fn nonzero(hash: Sha256) -> u64 {
    let digest = hash.finalize();
    let id = digest.iter().take(8).fold(0u64, |id, byte| id << 8 | u64::from(*byte));
    id.max(1)
}

pub(crate) fn sorted(urls: &[Url]) -> Vec<String> {
    let mut urls: Vec<_> = urls.iter().map(Url::to_string).collect();
    urls.sort();
    urls.dedup();
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "a=http://h1:2380,b=http://h2:2380,c=http://h3:2380";

    fn as_member(name: &str, url: &str) -> Result<(Identity, BTreeMap<u64, Member>), Error> {
        initial(&parse_initial_cluster(THREE)?, name, &[url.parse()?], "token")
    }

    #[test]
    fn every_member_derives_the_same_membership() {
        let (a, members_a) = as_member("a", "http://h1:2380").unwrap();
        let (b, members_b) = as_member("b", "http://h2:2380").unwrap();
        assert_eq!(members_a, members_b);
        assert_eq!(a.cluster_id, b.cluster_id);
        assert_ne!(a.member_id, b.member_id);
        assert_eq!(members_a[&a.member_id].name, "a");
    }

    #[test]
    fn another_token_makes_another_cluster() {
        let cluster = parse_initial_cluster("a=http://h1:2380").unwrap();
        let id = |token| initial(&cluster, "a", &cluster["a"], token).unwrap().0;
        assert_ne!(id("one").cluster_id, id("two").cluster_id);
    }

    #[test]
    fn a_member_must_be_listed_as_it_advertises_itself() {
        assert!(matches!(as_member("d", "http://h4:2380"), Err(Error::NotListed(_))));
        assert!(matches!(as_member("a", "http://elsewhere:2380"), Err(Error::OtherUrls(..))));
        let twins = parse_initial_cluster("a=http://h:1,b=http://h:1").unwrap();
        assert!(matches!(initial(&twins, "a", &twins["a"], ""), Err(Error::SameUrls(..))));
    }
}
