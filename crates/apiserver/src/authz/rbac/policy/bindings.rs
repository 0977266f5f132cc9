//! Who has which role from the start, and the roles of single namespaces.

/// Name, role, subjects.
pub(super) struct Binding(pub(super) &'static str, pub(super) &'static str, pub(super) &'static [Subject]);

/// Who is bound; accounts are those of kube-system.
pub(super) enum Subject {
    User(&'static str),
    Group(&'static str),
    Account(&'static str),
}

use Subject::{Account, Group, User};

const MANAGER: Subject = User("system:kube-controller-manager");
const SCHEDULER: Subject = User("system:kube-scheduler");
const AUTHENTICATED: Subject = Group("system:authenticated");

/// Cluster-wide, but for the controllers' own.
#[rustfmt::skip]
pub(super) const BINDINGS: &[Binding] = &[
    Binding("cluster-admin", "cluster-admin", &[Group("system:masters")]),
    Binding("system:basic-user", "system:basic-user", &[AUTHENTICATED]),
    Binding("system:discovery", "system:discovery", &[AUTHENTICATED]),
    Binding("system:kube-controller-manager", "system:kube-controller-manager", &[MANAGER]),
    Binding("system:kube-dns", "system:kube-dns", &[Account("kube-dns")]),
    Binding("system:kube-scheduler", "system:kube-scheduler", &[SCHEDULER]),
    Binding("system:monitoring", "system:monitoring", &[Group("system:monitoring")]),
    // Nodes live by the Node authorizer; the binding without subjects is there for the name.
    Binding("system:node", "system:node", &[]),
    Binding("system:node-proxier", "system:node-proxier", &[User("system:kube-proxy")]),
    Binding("system:public-info-viewer", "system:public-info-viewer", &[AUTHENTICATED, Group("system:unauthenticated")]),
    Binding("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", &[Group("system:serviceaccounts")]),
    Binding("system:volume-scheduler", "system:volume-scheduler", &[SCHEDULER]),
];

const LEADER: &[&str] = &[
    "create get list update watch | coordination.k8s.io | leases",
    "create get list update watch | coordination.k8s.io | leasecandidates",
];

/// Namespace, name, rules.
#[rustfmt::skip]
pub(super) const NAMESPACED_ROLES: &[(&str, &str, &[&str])] = &[
    ("kube-public", "system:controller:bootstrap-signer", &[
        "get list watch | core | configmaps",
        "update | core | configmaps | cluster-info",
        "create patch update | core events.k8s.io | events",
    ]),
    ("kube-system", "extension-apiserver-authentication-reader", &["get list watch | core | configmaps | extension-apiserver-authentication"]),
    ("kube-system", "system::leader-locking-kube-controller-manager", LEADER),
    ("kube-system", "system::leader-locking-kube-scheduler", LEADER),
    ("kube-system", "system:controller:bootstrap-signer", &["get list watch | core | secrets"]),
    ("kube-system", "system:controller:cloud-provider", &["create get list watch | core | configmaps"]),
    ("kube-system", "system:controller:token-cleaner", &["delete get list watch | core | secrets", "create patch update | core events.k8s.io | events"]),
];

/// Namespace and binding.
#[rustfmt::skip]
pub(super) const NAMESPACED_BINDINGS: &[(&str, Binding)] = &[
    ("kube-public", Binding("system:controller:bootstrap-signer", "system:controller:bootstrap-signer", &[Account("bootstrap-signer")])),
    ("kube-system", Binding("system::extension-apiserver-authentication-reader", "extension-apiserver-authentication-reader", &[MANAGER, SCHEDULER])),
    ("kube-system", Binding("system::leader-locking-kube-controller-manager", "system::leader-locking-kube-controller-manager",
        &[MANAGER, Account("kube-controller-manager"), Account("leader-election-controller")])),
    ("kube-system", Binding("system::leader-locking-kube-scheduler", "system::leader-locking-kube-scheduler", &[SCHEDULER, Account("kube-scheduler")])),
    ("kube-system", Binding("system:controller:bootstrap-signer", "system:controller:bootstrap-signer", &[Account("bootstrap-signer")])),
    ("kube-system", Binding("system:controller:cloud-provider", "system:controller:cloud-provider", &[Account("cloud-provider")])),
    ("kube-system", Binding("system:controller:token-cleaner", "system:controller:token-cleaner", &[Account("token-cleaner")])),
];
