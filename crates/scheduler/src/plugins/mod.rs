//! The table of plugins.

mod balanced_allocation;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod scheduling_gates;
mod taint_toleration;

use crate::framework::Plugin;

/// A plugin and the weight of its score, as in upstream's default profile.
pub(crate) type Entry = (Box<dyn Plugin>, i64);

/// All plugins, in the order in which upstream's default profile runs them.
pub(crate) fn all() -> Vec<Entry> {
    vec![
        (Box::new(scheduling_gates::SchedulingGates), 0),
        (Box::new(node_unschedulable::NodeUnschedulable), 0),
        (Box::new(node_name::NodeName), 0),
        (Box::new(taint_toleration::TaintToleration), 3),
        (Box::new(node_affinity::NodeAffinity), 2),
        (Box::new(node_ports::NodePorts), 0),
        (Box::new(node_resources_fit::Fit), 1),
        (Box::new(balanced_allocation::BalancedAllocation), 1),
    ]
}
