//! Who may do what: auth, roles, certificates.

use crate::session::Session;

/// Asks for a certificate of jane in group crew; PEM in base64.
const REQUEST: &str = "\
    LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIYU1JR0FBZ0VBTUI0eERUQUxCZ05WQkFvTUJHTnlaWGN4RFRB\
    TEJnTlZCQU1NQkdwaGJtVXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVExZGJXZTRGa3AzTXpFb0tqdHpsWFRv\
    cVNKZWwrQzJiUXI3eUFKCjFtbkRUS0NmTE1Ua0w0ZFB0amJUbGNtTGt1ZnNmbjRrVGw4cXRsOWRCKzMvOTVqOG9BQXdDZ1lJS29a\
    SXpqMEUKQXdJRFNRQXdSZ0loQU13TmlSWkhJQ1FFYzJXbHQ3eE04V2hzWjk5VmYvUGJEQzBWOUNPbzJuczJBaUVBOGNoWgp4MkFY\
    UHhsRk8yb0FGOGZ1Q1Q5Y3FUa1FNNitYdFp3QzU4THB1Zmc9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

const ROLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reconciled}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list]}
"#;

pub(crate) fn all(session: &Session) {
    session.fails("auth can-i list pods --as=jane", "no");
    session.does(&[
        ("auth can-i create pods", "yes"),
        ("auth whoami", "system:masters"),
        ("auth whoami --as=jane -o jsonpath={.status.userInfo.username}", "jane"),
        ("create role reader --verb=get,list --resource=pods", "role.rbac.authorization.k8s.io/reader created"),
        ("create rolebinding readers --role=reader --user=john", "rolebinding.rbac.authorization.k8s.io/readers created"),
        ("set subject rolebinding/readers --user=jane", "subjects updated"),
        ("auth can-i list pods --as=jane", "yes"),
        ("auth can-i --list --as=jane", "pods"),
    ]);
    for _ in 0..2 {
        let said = session.fed("auth reconcile -f -", ROLE).ok();
        assert!(said.contains("clusterrole.rbac.authorization.k8s.io/reconciled reconciled"), "{said}");
    }
    session.does(&[("get clusterrole reconciled -o jsonpath={.rules[0].resources[0]}", "configmaps")]);
    decides_on_certificates(session);
}

fn decides_on_certificates(session: &Session) {
    for (name, verb, done, condition) in [("good", "approve", "approved", "Approved"), ("bad", "deny", "denied", "Denied")] {
        let object = serde_json::json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": REQUEST, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]},
        });
        session.fed("create -f -", &object.to_string()).ok();
        session.does(&[
            (&format!("get csr {name}"), "Pending"),
            (&format!("certificate {verb} {name}"), &format!("certificatesigningrequest.certificates.k8s.io/{name} {done}")),
            (&format!("get csr {name} -o jsonpath={{.status.conditions[0].type}}"), condition),
            (&format!("get csr {name}"), condition),
            (&format!("delete csr {name}"), "deleted"),
        ]);
    }
}
