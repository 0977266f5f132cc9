//! Compiles the peer protocol, `proto/raft/v1`, and gRPC's own services, `proto/grpc`, without a protoc binary.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use prost::Message;

const PEERS: &[&str] = &["raft/v1/raft.proto"];
const GRPC: &[&str] = &["grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    for file in PEERS.iter().chain(GRPC) {
        println!("cargo:rerun-if-changed={}", root.join(file).display());
    }
    tonic_prost_build::configure().bytes(".raft.v1").compile_fds(protox::compile(PEERS, [&root])?)?;
    let descriptors = protox::compile(GRPC, [&root])?;
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("grpc.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".grpc").compile_fds(descriptors)?;
    Ok(())
}
