//! The messages that Tidegate exchanges with Envoy, with KEDA and with clients of gRPC's standard
//! services: types and descriptors, nothing that runs.
//!
//! The files of `generated/` are made from `proto/` and committed, so that building needs no
//! generator; `tests/generated` makes them and proves that they are up to date. Bytes are
//! [`prost::bytes::Bytes`]: a body that is decoded from `Bytes` is not copied.

mod generated;

pub use generated::{base, ext_proc, health, mode, reflection, scaler, status};

/// The files of `proto/` and all that they import, each after those it needs, as an encoded
/// `google.protobuf.FileDescriptorSet`: what reflection tells.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

#[cfg(test)]
mod tests;
