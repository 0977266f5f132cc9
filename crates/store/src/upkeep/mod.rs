//! What a member does to keep itself: gives up history, removes what was given up, minds its quota, compares its data
//! with the others'.

pub mod auto_compaction;
pub mod compactor;
pub(crate) mod corruption;
pub mod quota;
