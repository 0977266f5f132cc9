//! The Lock service: who is first in line holds the lock.

use bytes::Bytes;
use etcd::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server::Lock};
use tonic::{Request, Response, Status};

use super::{Context, check, identity::Credentials};
use crate::command::{Command, DeleteRange};

#[tonic::async_trait]
impl Lock for Context {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let who = Credentials::of(&request);
        let LockRequest { name, lease } = request.into_inner();
        let place = self.enter(&who, &name, lease, Bytes::new()).await?;
        if !self.wait_turn(&who, &place).await? {
            return Err(Status::unknown("mutex: session is expired"));
        }
        Ok(Response::new(LockResponse { header: self.header(self.node.state().revision()), key: place.key }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        let delete = DeleteRange { key: request.get_ref().key.clone(), ..Default::default() };
        check::delete_range(&delete)?;
        let (revision, _) = self.propose_for(&Credentials::of(&request), Command::DeleteRange(delete)).await?;
        Ok(Response::new(UnlockResponse { header: self.header(revision) }))
    }
}
