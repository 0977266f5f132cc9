//! The resources of group `policy`.

mod poddisruptionbudget;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
            .short(&["pdb"])
            .status()
            .strategy(poddisruptionbudget::PodDisruptionBudget),
    ]
}
