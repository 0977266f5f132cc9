//! Compiles the peer protocol, `proto/raft/v1`, without a protoc binary.

use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let file = root.join("raft/v1/raft.proto");
    println!("cargo:rerun-if-changed={}", file.display());
    let descriptors = protox::compile([file], [root])?;
    tonic_prost_build::configure().bytes(".raft.v1").compile_fds(descriptors)?;
    Ok(())
}
