//! A client that creates, changes and deletes the same few ConfigMaps.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Error,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{Acknowledged, Diary, PATIENCE, RETRY, Written, object};

/// What of a ConfigMap is written: another number each time.
pub(super) const FIELD: &str = "number";
/// So many there are.
const MAPS: u32 = 4;
/// One call in so many is a deletion.
const DELETIONS: u32 = 6;
/// A call takes no longer: shorter than the API server's own limit, so that its client sometimes never hears.
const DEADLINE: Duration = Duration::from_secs(5);
/// Between two calls; after one that failed, somewhat longer.
const PACE: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The client.
pub(super) struct Writer {
    maps: Api<ConfigMap>,
    diary: Diary,
    /// Writes so far: what makes its values its own.
    number: usize,
}

impl Writer {
    pub(super) fn new(maps: Api<ConfigMap>, diary: Diary) -> Self {
        Self { maps, diary, number: 0 }
    }

    pub(super) async fn run(mut self, mut dice: StdRng, stop: watch::Receiver<bool>) -> Self {
        while !*stop.borrow() {
            let name = format!("m{}", dice.random_range(0..MAPS));
            let deletion = dice.random_range(0..DELETIONS) == 0;
            let call = async { if deletion { self.delete(&name).await } else { self.put(&name).await.map(drop) } };
            let done = matches!(timeout(DEADLINE, call).await, Ok(Ok(())));
            tokio::time::sleep(if done { PACE } else { PAUSE }).await;
        }
        self
    }

    /// Writes one more number into a ConfigMap and says at which revision.
    async fn put(&mut self, name: &str) -> Result<i64, Error> {
        self.number += 1;
        let (start, change) = (self.diary.now(), json!({"data": {FIELD: self.number.to_string()}}));
        let changed = match self.maps.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await {
            Err(Error::Api(status)) if status.code == 404 => self.create(name, &change).await?,
            answer => answer?,
        };
        let pair = object::pair(&changed);
        self.diary.note(Written { start, key: pair.key, what: Acknowledged::Put { value: pair.value, revision: pair.modified } });
        Ok(pair.modified)
    }

    async fn create(&self, name: &str, change: &Value) -> Result<ConfigMap, Error> {
        let map = json!({"metadata": {"name": name}, "data": change["data"]});
        let map: ConfigMap = serde_json::from_value(map).map_err(Error::SerdeError)?;
        self.maps.create(&PostParams::default(), &map).await
    }

    async fn delete(&mut self, name: &str) -> Result<(), Error> {
        let start = self.diary.now();
        match self.maps.delete(name, &DeleteParams::default()).await {
            Err(Error::Api(status)) if status.code == 404 => return Ok(()),
            answer => {
                let deleted = answer?;
                let of_status = |status: kube::core::Status| status.details.map(|details| details.uid).unwrap_or_default();
                let uid = deleted.map_left(|map| object::uid(&map).to_owned()).map_right(of_status).into_inner();
                self.diary.note(Written { start, key: object::key(name), what: Acknowledged::Deleted { uid } });
            }
        }
        Ok(())
    }

    /// Writes until one more write is acknowledged, and says at which revision: everybody is shown that.
    pub(super) async fn last_words(mut self, name: &str) -> i64 {
        let began = Instant::now();
        loop {
            match timeout(DEADLINE, self.put(name)).await {
                Ok(Ok(revision)) => return revision,
                other => assert!(began.elapsed() < PATIENCE, "no last write through the API server: {other:?}"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}
