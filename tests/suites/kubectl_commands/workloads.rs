//! What makes, changes and shows workloads.

use crate::session::Session;

pub(crate) fn all(session: &Session) {
    session.does(&[
        ("create serviceaccount builder", "serviceaccount/builder created"),
        ("create deployment web --image=web:1 --replicas=2 --port=80", "deployment.apps/web created"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    ]);
    exposes_and_scales(session);
    sets_parts(session);
    rolls_out(session);
    marks(session);
    runs_pods(session);
    runs_jobs(session);
    shows(session);
    session.does(&[("delete deployment,service,job,cronjob,pod --all --timeout=60s", "deployment.apps \"web\" deleted"), ("get all", "")]);
}

fn exposes_and_scales(session: &Session) {
    session.does(&[
        ("expose deployment web --port=80 --target-port=8080", "service/web exposed"),
        ("get service web -o jsonpath={.spec.ports[0].targetPort},{.spec.selector.app}", "8080,web"),
        ("autoscale deployment web --min=1 --max=3", "horizontalpodautoscaler.autoscaling/web autoscaled"),
        ("get hpa web -o jsonpath={.spec.minReplicas},{.spec.maxReplicas}", "1,3"),
        ("delete hpa web", "deleted"),
        ("scale deployment/web --current-replicas=2 --replicas=1", "deployment.apps/web scaled"),
        ("wait --for=jsonpath={.status.readyReplicas}=1 deployment/web --timeout=60s", "condition met"),
    ]);
    session.fails("scale deployment/web --current-replicas=7 --replicas=1", "Expected replicas to be 7, was 1");
}

fn sets_parts(session: &Session) {
    session.does(&[
        ("set image deployment/web web=web:2", "deployment.apps/web image updated"),
        ("set env deployment/web COLOUR=red", "deployment.apps/web env updated"),
        ("set env deployment/web --list", "COLOUR=red"),
        ("set resources deployment/web --limits=cpu=200m,memory=64Mi --requests=cpu=100m", "resource requirements updated"),
        ("set serviceaccount deployment/web builder", "serviceaccount updated"),
        ("set selector service/web app=other", "selector updated"),
        ("get service web -o jsonpath={.spec.selector.app}", "other"),
    ]);
    let pod = "{.spec.template.spec.serviceAccountName}";
    let container = "{.spec.template.spec.containers[0]";
    let line =
        format!("get deployment web -o jsonpath={pod},{container}.image}},{container}.env[0].value}},{container}.resources.limits.cpu}}");
    session.does(&[(&line, "builder,web:2,red,200m")]);
}

fn rolls_out(session: &Session) {
    session.does(&[
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("rollout pause deployment/web", "deployment.apps/web paused"),
        ("set image deployment/web web=web:3", "image updated"),
        ("rollout resume deployment/web", "deployment.apps/web resumed"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("rollout undo deployment/web", "deployment.apps/web rolled back"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", "web:2"),
        ("rollout restart deployment/web", "deployment.apps/web restarted"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("rollout history deployment/web", "REVISION"),
        ("rollout history deployment/web --revision=1", "web:1"),
    ]);
}

fn marks(session: &Session) {
    session.does(&[
        ("label deployment web tier=front", "deployment.apps/web labeled"),
        ("label deployment web tier=back --overwrite", "deployment.apps/web labeled"),
        ("annotate deployment web note=hello", "deployment.apps/web annotated"),
        ("patch deployment web --type=merge -p {\"metadata\":{\"labels\":{\"more\":\"yes\"}}}", "deployment.apps/web patched"),
        ("get deployment -l tier=back,more=yes -o jsonpath={.items[0].metadata.annotations.note}", "hello"),
        ("label deployment web tier-", "deployment.apps/web unlabeled"),
    ]);
}

fn runs_pods(session: &Session) {
    session.does(&[
        ("run one --image=web:1 --restart=Never --labels=run=one", "pod/one created"),
        ("wait --for=condition=Ready pod/one --timeout=60s", "pod/one condition met"),
        ("debug pod/one --image=busybox:1 --container=dbg --profile=general --attach=false", ""),
        ("get pod one -o jsonpath={.spec.ephemeralContainers[0].name},{.spec.ephemeralContainers[0].image}", "dbg,busybox:1"),
        ("debug pod/one --image=busybox:1 --copy-to=two --profile=general --attach=false", ""),
        ("get pod two -o jsonpath={.spec.containers[*].image}", "busybox:1"),
        ("debug node/node-1 --image=busybox:1 --profile=general --attach=false", "Creating debugging pod node-debugger-node-1-"),
        ("events --for=pod/one", "Scheduled"),
        ("describe pod one", "Successfully assigned"),
        ("delete pod one --now --timeout=60s", "deleted"),
    ]);
    session.fails("top pods", "Metrics API not available");
    session.fails("top nodes", "Metrics API not available");
}

fn runs_jobs(session: &Session) {
    session.does(&[
        ("create job once --image=job:1", "job.batch/once created"),
        ("create cronjob nightly --image=job:1 --schedule=@daily", "cronjob.batch/nightly created"),
        ("create job now --from=cronjob/nightly", "job.batch/now created"),
        ("get job now -o jsonpath={.spec.template.spec.containers[0].image}", "job:1"),
    ]);
}

fn shows(session: &Session) {
    session.does(&[
        ("get all", "deployment.apps/web"),
        ("get deployment web -o custom-columns=NAME:.metadata.name,IMAGE:.spec.template.spec.containers[0].image", "web:2"),
        ("get pods --sort-by=.metadata.name -o name", "pod/web-"),
        ("get pods -A --chunk-size=1 -o wide", "round-"),
        ("explain pod.spec.containers.image", "FIELD: image <string>"),
        ("explain deployment --recursive", "maxSurge"),
        ("api-resources --verbs=list --namespaced -o name", "deployments.apps"),
        ("api-versions", "apps/v1"),
        ("cluster-info", "Kubernetes control plane"),
        ("get --raw /version", "gitVersion"),
    ]);
}
