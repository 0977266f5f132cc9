//! The end of a pod: stopping what runs, the last report, and cleaning up.

use super::{Desired, Next, Worker};
use crate::{
    cri::observed::{self, Observed},
    pod::{conditions::Stage, facts, kill, plan::Verdicts},
};

impl Worker {
    /// Stops whatever runs, within the grace period; a shorter one that comes in between takes effect at once.
    pub(super) async fn stop(&mut self) {
        loop {
            let pod = self.pod();
            let Some(observed) = self.look().await else { continue };
            let verdicts = self.probes.verdicts(&observed);
            let still_up = observed.running().next().is_some() || observed.sandboxes.iter().any(|s| s.ready);
            if !still_up {
                return;
            }
            self.report(&pod, &observed, &verdicts, Stage::Stopping);
            let grace = facts::grace_seconds(&pod);
            let mut watch = self.desired.clone();
            tokio::select! {
                () = kill::everything(&self.node, &pod, &observed, grace) => {}
                _ = watch.wait_for(|d| facts::grace_seconds(&d.pod) < grace) => {}
            }
        }
    }

    /// A look that waits out a runtime that does not answer.
    async fn look(&mut self) -> Option<Observed> {
        match observed::observe(&*self.node.cri, &self.uid).await {
            Ok(observed) => Some(observed),
            Err(error) => {
                if let Next::After(wait) = self.runtime_failed("look at stopping pod", &error) {
                    tokio::time::sleep(wait).await;
                }
                None
            }
        }
    }

    /// Reports the end, waits for the deletion of a pod that ended by itself, and removes what is left of it.
    pub(super) async fn finish(&mut self) {
        let observed = loop {
            if let Some(observed) = self.look().await {
                break observed;
            }
        };
        let pod = self.pod();
        self.report(&pod, &observed, &Verdicts::default(), Stage::Terminated);
        let mut watch = self.desired.clone();
        let gone = match watch.wait_for(Desired::ends).await {
            Ok(desired) => desired.gone,
            Err(_) => return,
        };
        self.node.remove_pod(&self.pod(), &observed).await;
        if !gone {
            self.node.statuses.delete(&self.pod());
        }
    }
}
