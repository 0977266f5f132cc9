//! Cuts pages out of a state of the cache.

use super::super::paging::Continue;
use super::super::{Freshness, Key, List, ListOptions, Result, Revision, Scope};
use super::state::Objects;

/// Where a list begins, and which state it reads.
pub(super) struct Page {
    token: Option<Continue>,
    freshness: Freshness,
}

impl Page {
    /// Errors: `BadContinue`.
    pub(super) fn of(options: &ListOptions) -> Result<Self> {
        if options.continue_token.is_empty() {
            return Ok(Self { token: None, freshness: options.freshness });
        }
        let token = Continue::decode(&options.continue_token)?;
        let freshness = u64::try_from(token.revision).map_or(Freshness::Latest, Freshness::Exact);
        Ok(Self { token: Some(token), freshness })
    }

    pub(super) fn freshness(&self) -> Freshness {
        self.freshness
    }

    /// The page of `objects`, which show `revision`.
    pub(super) fn cut(&self, objects: &Objects, revision: Revision, scope: &Scope, options: &ListOptions) -> List {
        let prefix = scope.prefix("");
        let start = self.token.as_ref().map_or_else(|| prefix.clone(), |token| token.start_key(&prefix));
        let start = Key::parse(start.trim_start_matches('/'));
        let limit = if options.limit == 0 { usize::MAX } else { usize::try_from(options.limit).unwrap_or(usize::MAX) };
        let everything = options.predicate.is_everything();
        let mut list = List { revision, ..List::default() };
        let mut within = objects.range(start..).map(|(_, entry)| entry).take_while(|entry| scope.covers(entry.key()));
        for entry in within.by_ref() {
            if options.predicate.matches(entry) {
                list.items.push(entry.clone());
            }
            if list.items.len() == limit {
                break;
            }
        }
        // How many are left is told of everything only; for the rest it is enough to know whether there are any.
        let left = if everything { within.count() } else { usize::from(within.next().is_some()) } as u64;
        if left > 0
            && let Some(last) = list.items.last()
        {
            let below = format!("/{}", last.key());
            let below = below.strip_prefix(&prefix).unwrap_or(&below);
            list.continue_token = Continue::after(below, revision as i64).encode();
            list.remaining = everything.then_some(left);
        }
        list
    }
}
