//! exec and port-forward with a client library: it speaks the channels of a WebSocket, and asks for ports in the query.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::AttachParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use tests::{Cluster, containers_are_possible, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: quarterdeck/storefront-api:1.0
    imagePullPolicy: IfNotPresent
    command: [/bin/sh, -c, "mkdir -p www; echo hello > www/index.html; exec busybox httpd -f -p 18081 -h www"]
    readinessProbe: {tcpSocket: {port: 18081}, periodSeconds: 1}
"#;

async fn pods(cluster: &Cluster) -> Api<Pod> {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::default_namespaced(Client::try_from(config).unwrap())
}

async fn a_command_hears_the_end_of_its_input(pods: &Api<Pod>) {
    let params = AttachParams::default().stdin(true).stderr(false);
    let mut command = pods.exec("server", ["sh", "-c", "cat; exit 3"], &params).await.unwrap();
    let (mut stdin, mut stdout) = (command.stdin().unwrap(), command.stdout().unwrap());
    stdin.write_all(b"over and out").await.unwrap();
    stdin.shutdown().await.unwrap();
    let mut output = String::new();
    stdout.read_to_string(&mut output).await.unwrap();
    let status = command.take_status().unwrap().await.unwrap();
    let causes = status.details.unwrap().causes.unwrap();
    assert_eq!((output.as_str(), causes[0].message.as_deref()), ("over and out", Some("3")));
}

async fn a_port_answers(pods: &Api<Pod>) {
    let mut forwarder = pods.portforward("server", &[18081]).await.unwrap();
    let mut port = forwarder.take_stream(18081).unwrap();
    port.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    port.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("hello\n"), "{answer:?}");
}

fn streams(runtime: &str) {
    let cluster = Cluster::up(&["--runtime", runtime]);
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    cluster.apply(POD);
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/server", "--timeout=60s"]).ok();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let pods = pods(&cluster).await;
        a_command_hears_the_end_of_its_input(&pods).await;
        a_port_answers(&pods).await;
    });
}

#[test]
fn a_library_streams_to_plain_processes() {
    streams("process");
}

#[test]
fn a_library_streams_to_real_containers() {
    if containers_are_possible() {
        streams("containerd");
    }
}
