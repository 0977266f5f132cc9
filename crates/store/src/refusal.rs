//! Every way the store says no: one table of number, gRPC code and the text clients match on (etcd's `rpctypes`).

use tonic::Code;

macro_rules! refusals {
    ($($number:literal $name:ident $code:ident $text:literal)*) => {
        /// Why a request was refused. The numbers are replicated with outcomes: append, never renumber.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
        #[repr(i32)]
        pub enum Refusal {
            $(#[doc = $text] $name = $number,)*
        }

        impl Refusal {
            /// The gRPC code etcd answers with.
            pub fn code(self) -> Code {
                match self { $(Refusal::$name => Code::$code,)* }
            }

            /// The text etcd answers with.
            pub fn text(self) -> &'static str {
                match self { $(Refusal::$name => $text,)* }
            }
        }
    };
}

refusals! {
    0 Unknown Unknown "etcdserver: unknown error"
    1 EmptyKey InvalidArgument "etcdserver: key is not provided"
    2 KeyNotFound InvalidArgument "etcdserver: key not found"
    3 ValueProvided InvalidArgument "etcdserver: value is provided"
    4 LeaseProvided InvalidArgument "etcdserver: lease is provided"
    5 TooManyOps InvalidArgument "etcdserver: too many operations in txn request"
    6 DuplicateKey InvalidArgument "etcdserver: duplicate key given in txn request"
    7 InvalidClientApiVersion InvalidArgument "etcdserver: invalid client api version"
    8 InvalidSortOption InvalidArgument "etcdserver: invalid sort option"
    9 Compacted OutOfRange "etcdserver: mvcc: required revision has been compacted"
    10 FutureRevision OutOfRange "etcdserver: mvcc: required revision is a future revision"
    11 NoSpace ResourceExhausted "etcdserver: mvcc: database space exceeded"
    12 LeaseNotFound NotFound "etcdserver: requested lease not found"
    13 LeaseExists FailedPrecondition "etcdserver: lease already exists"
    14 LeaseTtlTooLarge OutOfRange "etcdserver: too large lease TTL"
    15 WatchCanceled Cancelled "etcdserver: watch canceled"
    16 MemberExists FailedPrecondition "etcdserver: member ID already exist"
    17 PeerUrlExists FailedPrecondition "etcdserver: Peer URLs already exists"
    18 MemberNotEnoughStarted FailedPrecondition "etcdserver: re-configuration failed due to not enough started members"
    19 MemberBadUrls InvalidArgument "etcdserver: given member URLs are invalid"
    20 MemberNotFound NotFound "etcdserver: member not found"
    21 MemberNotLearner FailedPrecondition "etcdserver: can only promote a learner member"
    22 LearnerNotReady FailedPrecondition "etcdserver: can only promote a learner member which is in sync with leader"
    23 TooManyLearners FailedPrecondition "etcdserver: too many learner members in cluster"
    24 ClusterIdMismatch FailedPrecondition "etcdserver: cluster ID mismatch"
    25 RequestTooLarge InvalidArgument "etcdserver: request is too large"
    26 TooManyRequests ResourceExhausted "etcdserver: too many requests"
    27 RootUserNotExist FailedPrecondition "etcdserver: root user does not exist"
    28 RootRoleNotExist FailedPrecondition "etcdserver: root user does not have root role"
    29 UserExists FailedPrecondition "etcdserver: user name already exists"
    30 UserEmpty InvalidArgument "etcdserver: user name is empty"
    31 UserNotFound FailedPrecondition "etcdserver: user name not found"
    32 RoleExists FailedPrecondition "etcdserver: role name already exists"
    33 RoleNotFound FailedPrecondition "etcdserver: role name not found"
    34 RoleEmpty InvalidArgument "etcdserver: role name is empty"
    35 AuthFailed InvalidArgument "etcdserver: authentication failed, invalid user ID or password"
    36 PermissionNotGiven InvalidArgument "etcdserver: permission not given"
    37 PermissionDenied PermissionDenied "etcdserver: permission denied"
    38 RoleNotGranted FailedPrecondition "etcdserver: role is not granted to the user"
    39 PermissionNotGranted FailedPrecondition "etcdserver: permission is not granted to the role"
    40 AuthNotEnabled FailedPrecondition "etcdserver: authentication is not enabled"
    41 InvalidAuthToken Unauthenticated "etcdserver: invalid auth token"
    42 InvalidAuthManagement InvalidArgument "etcdserver: invalid auth management"
    43 AuthOldRevision InvalidArgument "etcdserver: revision of auth store is old"
    44 NoLeader Unavailable "etcdserver: no leader"
    45 NotLeader FailedPrecondition "etcdserver: not leader"
    46 LeaderChanged Unavailable "etcdserver: leader changed"
    47 NotCapable FailedPrecondition "etcdserver: not capable"
    48 Stopped Unavailable "etcdserver: server stopped"
    49 Timeout Unavailable "etcdserver: request timed out"
    50 TimeoutLeaderFailed Unavailable "etcdserver: request timed out, possibly due to previous leader failure"
    51 TimeoutConnectionLost Unavailable "etcdserver: request timed out, possibly due to connection lost"
    52 TimeoutWaitingForApply Unavailable "etcdserver: request timed out, waiting for the applied index took too long"
    53 Unhealthy Unavailable "etcdserver: unhealthy cluster"
    54 Corrupt DataLoss "etcdserver: corrupt cluster"
    55 NotSupportedForLearner FailedPrecondition "etcdserver: rpc not supported for learner"
    56 BadLeaderTransferee FailedPrecondition "etcdserver: bad leader transferee"
    57 ClusterVersionUnavailable FailedPrecondition "etcdserver: cluster version not found during downgrade"
    58 WrongDowngradeVersion InvalidArgument "etcdserver: wrong downgrade target version format"
    59 InvalidDowngradeTarget InvalidArgument "etcdserver: invalid downgrade target version"
    60 DowngradeInProcess FailedPrecondition "etcdserver: cluster has a downgrade job in progress"
    61 NoInflightDowngrade FailedPrecondition "etcdserver: no inflight downgrade job"
    62 RequestCanceled Cancelled "etcdserver: request canceled"
    63 DeadlineExceeded DeadlineExceeded "etcdserver: context deadline exceeded"
    64 NoPasswordUser Unknown "auth: authentication failed, password was given for no password user"
    65 VerifyOnly Unknown "auth: token signing attempted with verify-only key"
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> Self {
        tonic::Status::new(refusal.code(), refusal.text())
    }
}
