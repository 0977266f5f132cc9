//! What works on manifests: apply, diff, replace, edit, kustomize, and the client's own affairs.

use std::{fs, os::unix::fs::PermissionsExt};

use tests::run;

use crate::session::Session;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: red}\n";
const KUSTOMIZATION: &str = "resources: [map.yaml]\nnamePrefix: my-\ncommonAnnotations: {by: kustomize}\n";

pub(crate) fn all(session: &Session) {
    applies(session);
    replaces_and_edits(session);
    kustomizes(session);
    creates(session);
    minds_its_own_affairs(session);
}

fn applies(session: &Session) {
    fs::write(session.directory().join("map.yaml"), MAP).unwrap();
    let blue = MAP.replace("red", "blue");
    session.does(&[
        ("apply -f map.yaml --dry-run=server", "configmap/settings created (server dry run)"),
        ("apply -f map.yaml", "configmap/settings created"),
        ("apply -f map.yaml", "configmap/settings unchanged"),
        ("apply view-last-applied configmap/settings", "colour: red"),
        ("apply set-last-applied -f map.yaml", "configmap/settings configured"),
    ]);
    let different = session.fed("diff -f -", &blue);
    assert!(different.code == 1 && different.out.contains("+  colour: blue"), "{different:?}");
    assert_eq!(session.typed("diff -f map.yaml").code, 0);
    assert!(session.fed("apply -f -", &blue).ok().contains("configmap/settings configured"));
    assert!(session.fed("apply --server-side -f -", MAP).ok().contains("serverside-applied"));
    session.does(&[("patch configmap settings -p {\"data\":{\"colour\":\"grey\"}} --field-manager=painter", "patched")]);
    let refused = session.fed("apply --server-side -f -", MAP);
    assert!(refused.code == 1 && refused.err.contains("conflict with \"painter\""), "{refused:?}");
    assert!(session.fed("apply --server-side --force-conflicts -f -", MAP).ok().contains("serverside-applied"));
    session.does(&[("get configmap settings -o jsonpath={.data.colour}", "red")]);
}

fn replaces_and_edits(session: &Session) {
    let shown = session.typed("get configmap settings -o yaml").ok();
    assert!(session.fed("replace -f -", &shown.replace("colour: red", "colour: green")).ok().contains("configmap/settings replaced"));
    assert!(session.fed("replace --force -f -", MAP).ok().contains("configmap/settings replaced"));
    let editor = session.directory().join("editor");
    fs::write(&editor, "#!/bin/sh\nsed -i 's/colour: red/colour: violet/' \"$1\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let edited = run(session.command(&["edit", "configmap/settings"]).env("KUBE_EDITOR", &editor)).ok();
    assert!(edited.contains("configmap/settings edited"), "{edited}");
    session.does(&[
        ("get configmap settings -o jsonpath={.data.colour}", "violet"),
        ("wait --for=jsonpath={.data.colour}=violet configmap/settings --timeout=10s", "condition met"),
        ("delete -f map.yaml", "configmap \"settings\" deleted"),
        ("wait --for=delete configmap/settings --timeout=10s", ""),
    ]);
}

fn kustomizes(session: &Session) {
    let directory = session.directory().join("overlay");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("map.yaml"), MAP).unwrap();
    fs::write(directory.join("kustomization.yaml"), KUSTOMIZATION).unwrap();
    session.does(&[
        ("kustomize overlay", "name: my-settings"),
        ("apply -k overlay", "configmap/my-settings created"),
        ("get configmap my-settings -o jsonpath={.metadata.annotations.by}", "kustomize"),
        ("delete -k overlay", "configmap \"my-settings\" deleted"),
    ]);
}

/// The makers that are in no other table.
fn creates(session: &Session) {
    session.does(&[
        ("create configmap c --from-literal=a=b --from-file=map.yaml", "configmap/c created"),
        ("create secret generic s --from-literal=a=b", "secret/s created"),
        ("create secret docker-registry r --docker-server=x --docker-username=u --docker-password=p", "secret/r created"),
        ("create quota q --hard=configmaps=50", "resourcequota/q created"),
        ("create poddisruptionbudget b --selector=app=web --min-available=1", "poddisruptionbudget.policy/b created"),
        ("create ingress i --rule=example.com/path=web:80", "ingress.networking.k8s.io/i created"),
        ("create service clusterip plain --tcp=80:8080", "service/plain created"),
        ("create service nodeport node --tcp=80:8080", "service/node created"),
        ("create service externalname there --external-name=example.com", "service/there created"),
        ("create token default", ""),
        ("get secret s -o jsonpath={.data.a}", "Yg=="),
        ("get resourcequota,pdb,ingress,service -o name", "ingress.networking.k8s.io/i"),
        ("delete service plain node there", "service \"plain\" deleted"),
        ("delete pdb b", "deleted"),
    ]);
}

fn minds_its_own_affairs(session: &Session) {
    session.does(&[
        ("config view --minify -o jsonpath={.contexts[0].context.namespace}", "round-"),
        ("config get-contexts -o name", ""),
        ("config set-credentials nobody --token=abc", "User \"nobody\" set."),
        ("config set-context other --cluster=none --user=nobody", "Context \"other\" created."),
        ("config delete-context other", "deleted context other"),
        ("config unset users.nobody", "Property \"users.nobody\" unset."),
        ("completion bash", "# bash completion"),
        ("options", "--kubeconfig"),
        ("version --client", "Client Version: v1."),
        ("help rollout", "Manage the rollout"),
    ]);
    session.fails("plugin list", "unable to find any kubectl plugins");
    session.fails("get configmap no-such", "configmaps \"no-such\" not found");
}
