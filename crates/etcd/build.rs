//! Generates messages and services from `proto/etcd/v3`.

use std::path::Path;

use prost::Message;

/// The services; what they import comes along.
const FILES: [&str; 8] =
    ["auth.proto", "cluster.proto", "election.proto", "kv.proto", "lease.proto", "lock.proto", "maintenance.proto", "watch.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto/etcd/v3");
    println!("cargo::rerun-if-changed={}", dir.display());
    let server = std::env::var_os("CARGO_FEATURE_SERVER").is_some();
    let client = std::env::var_os("CARGO_FEATURE_CLIENT").is_some();
    let descriptors = protox::compile(FILES, [&dir])?;
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().build_server(server).build_client(client).bytes(".").compile_fds(descriptors)?;
    if server {
        encoded_watch();
    }
    Ok(())
}

/// The Watch service once more, answering with events that are encoded already.
fn encoded_watch() {
    use tonic_prost_build::manual::{Builder, Method, Service};
    let watch = Method::builder()
        .name("watch")
        .route_name("Watch")
        .input_type("crate::etcdserverpb::WatchRequest")
        .output_type("crate::encoded::WatchResponse")
        .codec_path("tonic_prost::ProstCodec")
        .client_streaming()
        .server_streaming()
        .build();
    // The file's name is package and service; the package must stay the wire's.
    let service = Service::builder().package("etcdserverpb").name("Watch").method(watch).build();
    Builder::new().build_client(false).compile(&[service]);
}
