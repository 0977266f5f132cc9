//! The Auth service: users, roles and what they allow.

use base64::{Engine, engine::general_purpose::STANDARD};
use etcd::{
    authpb,
    etcdserverpb::{
        AuthDisableRequest, AuthDisableResponse, AuthEnableRequest, AuthEnableResponse, AuthRoleAddRequest, AuthRoleAddResponse,
        AuthRoleDeleteRequest, AuthRoleDeleteResponse, AuthRoleGetRequest, AuthRoleGetResponse, AuthRoleGrantPermissionRequest,
        AuthRoleGrantPermissionResponse, AuthRoleListRequest, AuthRoleListResponse, AuthRoleRevokePermissionRequest,
        AuthRoleRevokePermissionResponse, AuthStatusRequest, AuthStatusResponse, AuthUserAddRequest, AuthUserAddResponse,
        AuthUserChangePasswordRequest, AuthUserChangePasswordResponse, AuthUserDeleteRequest, AuthUserDeleteResponse, AuthUserGetRequest,
        AuthUserGetResponse, AuthUserGrantRoleRequest, AuthUserGrantRoleResponse, AuthUserListRequest, AuthUserListResponse,
        AuthUserRevokeRoleRequest, AuthUserRevokeRoleResponse, AuthenticateRequest, AuthenticateResponse, ResponseHeader, auth_server,
    },
};
use tonic::{Request, Response, Status};

use super::{
    Context, disk_status,
    identity::{Asked, Credentials},
    passwords,
};
use crate::{
    auth::records::{self, Kind, Permission, ROOT, Role, User},
    command::{Auth, Change, Command, Done, Named, RoleKeys, RolePermission, UserAdd, UserPassword, UserRole},
    disk::{self, Read},
    refusal::Refusal,
};
use bytes::Bytes;

impl Context {
    /// Has a change applied.
    async fn change<T>(&self, request: &Request<T>, change: Change) -> Result<Option<ResponseHeader>, Refusal> {
        let command = Command::Auth(Auth { change: Some(change) });
        let (revision, _) = self.propose_for(&Credentials::of(request), command).await?;
        Ok(self.header(revision))
    }

    /// Who asks, once everything acknowledged before is here.
    async fn asked_now<T>(&self, request: &Request<T>) -> Result<Asked, Refusal> {
        self.barrier(false).await?;
        self.asked(&Credentials::of(request)).await
    }

    /// Reads users and roles for somebody who may.
    #[allow(clippy::result_large_err)]
    fn look<T>(&self, asked: &Asked, look: impl FnOnce(&dyn Read) -> disk::Result<T>) -> Result<(Option<ResponseHeader>, T), Status> {
        let both = self.node.state().read(|read, revisions| look(read).map(|found| (revisions.current, found)));
        let (revision, found) = both.and_then(|both| both).map_err(disk_status)?;
        self.unchanged(asked)?;
        Ok((self.header(revision), found))
    }
}

fn text(name: &Bytes) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn permission(permission: Permission) -> authpb::Permission {
    authpb::Permission { perm_type: permission.kind, key: permission.key, range_end: permission.range_end }
}

/// What a role allows. That of root allows everything, whatever is written in it.
fn permissions(role: Role) -> Vec<authpb::Permission> {
    if role.name == ROOT {
        return vec![authpb::Permission { perm_type: Kind::ReadWrite as i32, key: Bytes::new(), range_end: Bytes::from_static(&[0]) }];
    }
    role.permissions.into_iter().map(permission).collect()
}

#[tonic::async_trait]
impl auth_server::Auth for Context {
    async fn auth_enable(&self, request: Request<AuthEnableRequest>) -> Result<Response<AuthEnableResponse>, Status> {
        let header = self.change(&request, Change::Enable(Done {})).await?;
        tracing::info!("enabled authentication");
        Ok(Response::new(AuthEnableResponse { header }))
    }

    async fn auth_disable(&self, request: Request<AuthDisableRequest>) -> Result<Response<AuthDisableResponse>, Status> {
        let header = self.change(&request, Change::Disable(Done {})).await?;
        tracing::info!("disabled authentication");
        Ok(Response::new(AuthDisableResponse { header }))
    }

    /// Anybody may know.
    async fn auth_status(&self, _: Request<AuthStatusRequest>) -> Result<Response<AuthStatusResponse>, Status> {
        self.barrier(false).await?;
        let (policy, header) = (self.node.state().policy(), self.header(self.node.state().revision()));
        Ok(Response::new(AuthStatusResponse { header, enabled: policy.enabled(), auth_revision: policy.revision() }))
    }

    async fn authenticate(&self, request: Request<AuthenticateRequest>) -> Result<Response<AuthenticateResponse>, Status> {
        let AuthenticateRequest { name, password } = request.into_inner();
        let (revision, token) = passwords::authenticate(self, name, password).await?;
        Ok(Response::new(AuthenticateResponse { header: self.header(revision), token }))
    }

    async fn user_add(&self, request: Request<AuthUserAddRequest>) -> Result<Response<AuthUserAddResponse>, Status> {
        // Before the hashing, which costs much.
        self.asked(&Credentials::of(&request)).await?.root()?;
        let AuthUserAddRequest { name, password, options, .. } = request.get_ref().clone();
        let no_password = options.is_some_and(|options| options.no_password);
        let password = if no_password { Bytes::new() } else { passwords::hash(self, password).await? };
        let header = self.change(&request, Change::UserAdd(UserAdd { name, password, no_password })).await?;
        Ok(Response::new(AuthUserAddResponse { header }))
    }

    /// Everybody may know their own.
    async fn user_get(&self, request: Request<AuthUserGetRequest>) -> Result<Response<AuthUserGetResponse>, Status> {
        let asked = self.asked_now(&request).await?;
        let name = request.into_inner().name;
        asked.root().or_else(|refusal| if name == asked.caller().user { Ok(()) } else { Err(refusal) })?;
        let (header, user) = self.look(&asked, |read| records::user(read, &name))?;
        let roles = user.ok_or(Refusal::UserNotFound)?.roles;
        Ok(Response::new(AuthUserGetResponse { header, roles }))
    }

    async fn user_list(&self, request: Request<AuthUserListRequest>) -> Result<Response<AuthUserListResponse>, Status> {
        let asked = self.asked_now(&request).await?;
        asked.root()?;
        let (header, users) = self.look(&asked, records::users)?;
        Ok(Response::new(AuthUserListResponse { header, users: users.iter().map(|user| text(&user.name)).collect() }))
    }

    async fn user_delete(&self, request: Request<AuthUserDeleteRequest>) -> Result<Response<AuthUserDeleteResponse>, Status> {
        let name = request.get_ref().name.clone();
        let header = self.change(&request, Change::UserDelete(Named { name })).await?;
        Ok(Response::new(AuthUserDeleteResponse { header }))
    }

    async fn user_change_password(
        &self,
        request: Request<AuthUserChangePasswordRequest>,
    ) -> Result<Response<AuthUserChangePasswordResponse>, Status> {
        self.asked(&Credentials::of(&request)).await?.root()?;
        let AuthUserChangePasswordRequest { name, password, hashed_password } = request.get_ref().clone();
        let password = match password.is_empty() {
            false => passwords::hash(self, password).await?,
            true => STANDARD.decode(hashed_password).map_err(|_| Refusal::NoPasswordUser)?.into(),
        };
        let header = self.change(&request, Change::UserPassword(UserPassword { name, password })).await?;
        Ok(Response::new(AuthUserChangePasswordResponse { header }))
    }

    async fn user_grant_role(&self, request: Request<AuthUserGrantRoleRequest>) -> Result<Response<AuthUserGrantRoleResponse>, Status> {
        let AuthUserGrantRoleRequest { user, role } = request.get_ref().clone();
        let header = self.change(&request, Change::UserGrantRole(UserRole { user, role })).await?;
        Ok(Response::new(AuthUserGrantRoleResponse { header }))
    }

    async fn user_revoke_role(&self, request: Request<AuthUserRevokeRoleRequest>) -> Result<Response<AuthUserRevokeRoleResponse>, Status> {
        let AuthUserRevokeRoleRequest { name, role } = request.get_ref().clone();
        let header = self.change(&request, Change::UserRevokeRole(UserRole { user: name, role })).await?;
        Ok(Response::new(AuthUserRevokeRoleResponse { header }))
    }

    async fn role_add(&self, request: Request<AuthRoleAddRequest>) -> Result<Response<AuthRoleAddResponse>, Status> {
        let name = request.get_ref().name.clone();
        let header = self.change(&request, Change::RoleAdd(Named { name })).await?;
        Ok(Response::new(AuthRoleAddResponse { header }))
    }

    /// Everybody may know what they are allowed.
    async fn role_get(&self, request: Request<AuthRoleGetRequest>) -> Result<Response<AuthRoleGetResponse>, Status> {
        let asked = self.asked_now(&request).await?;
        let name = request.into_inner().role;
        let both = |read: &dyn Read| Ok((records::user(read, &asked.caller().user)?, records::role(read, &name)?));
        let (header, (user, role)) = self.look(&asked, both)?;
        let granted = user.is_some_and(|user: User| user.roles.contains(&name));
        asked.root().or_else(|refusal| if granted { Ok(()) } else { Err(refusal) })?;
        let perm = permissions(role.ok_or(Refusal::RoleNotFound)?);
        Ok(Response::new(AuthRoleGetResponse { header, perm }))
    }

    async fn role_list(&self, request: Request<AuthRoleListRequest>) -> Result<Response<AuthRoleListResponse>, Status> {
        let asked = self.asked_now(&request).await?;
        asked.root()?;
        let (header, roles) = self.look(&asked, records::roles)?;
        Ok(Response::new(AuthRoleListResponse { header, roles: roles.iter().map(|role| text(&role.name)).collect() }))
    }

    async fn role_delete(&self, request: Request<AuthRoleDeleteRequest>) -> Result<Response<AuthRoleDeleteResponse>, Status> {
        let name = request.get_ref().role.clone();
        let header = self.change(&request, Change::RoleDelete(Named { name })).await?;
        Ok(Response::new(AuthRoleDeleteResponse { header }))
    }

    async fn role_grant_permission(
        &self,
        request: Request<AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<AuthRoleGrantPermissionResponse>, Status> {
        let AuthRoleGrantPermissionRequest { name, perm } = request.get_ref().clone();
        let permission = perm.map(|perm| Permission { kind: perm.perm_type, key: perm.key, range_end: perm.range_end });
        let header = self.change(&request, Change::RoleGrantPermission(RolePermission { role: name, permission })).await?;
        Ok(Response::new(AuthRoleGrantPermissionResponse { header }))
    }

    async fn role_revoke_permission(
        &self,
        request: Request<AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<AuthRoleRevokePermissionResponse>, Status> {
        let AuthRoleRevokePermissionRequest { role, key, range_end } = request.get_ref().clone();
        let header = self.change(&request, Change::RoleRevokePermission(RoleKeys { role, key, range_end })).await?;
        Ok(Response::new(AuthRoleRevokePermissionResponse { header }))
    }
}
