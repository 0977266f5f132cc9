//! Everything that can break, broken on clusters of containers. Says so and passes where there is no Docker engine.
#![allow(clippy::unwrap_used)]

mod chain;
mod cleanup;
mod node_cut;
mod parts;
mod pods;
mod quorum;
mod rollout;
mod store_cut;

use libtest_mimic::{Arguments, Trial};
use tests::Compose;

/// So many clusters run side by side: more would measure two cores, fewer would wait for pauses to end.
const CLUSTERS: usize = 3;

/// Each on a cluster of its own; the longest first.
const TESTS: &[(&str, fn())] = &[
    ("members_are_lost_and_nothing_else", quorum::members_are_lost_and_nothing_else),
    ("a_rollout_goes_on_after_any_part_is_killed", parts::a_rollout_goes_on_after_any_part_is_killed),
    ("a_rollout_goes_on_after_apiserver_or_scheduler_pause", parts::a_rollout_goes_on_after_apiserver_or_scheduler_pause),
    (
        "a_rollout_goes_on_after_controller_manager_or_containerd_pause",
        parts::a_rollout_goes_on_after_controller_manager_or_containerd_pause,
    ),
    ("a_rollout_goes_on_after_a_kubelet_pauses", parts::a_rollout_goes_on_after_a_kubelet_pauses),
    ("a_node_that_is_cut_off_is_emptied_and_comes_back", node_cut::a_node_that_is_cut_off_is_emptied_and_comes_back),
    ("no_cut_between_members_costs_a_write_or_an_event", store_cut::no_cut_between_members_costs_a_write_or_an_event),
    ("the_chain_works_and_survives_down_and_up", chain::the_chain_works_and_survives_down_and_up),
    ("what_was_deleted_while_a_node_was_down_goes_when_it_returns", cleanup::what_was_deleted_while_a_node_was_down_goes_when_it_returns),
];

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CLUSTERS);
    let skipped = !arguments.list && !Compose::possible();
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(*name, run).with_ignored_flag(skipped)
    };
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit();
}
