//! The messages that Tidegate exchanges with Envoy and with clients of gRPC's standard services:
//! types and descriptors, nothing that runs.
//!
//! The files beside this one are generated from `proto/` and committed, so that building needs no
//! generator; `tests/generated` makes them and proves that they are up to date. Bytes are
//! [`prost::bytes::Bytes`]: a body that is decoded from `Bytes` is not copied.

pub mod base;
pub mod ext_proc;
pub mod health;
pub mod mode;
pub mod reflection;
pub mod status;

/// The files of `proto/` and all that they import, each after those it needs, as an encoded
/// `google.protobuf.FileDescriptorSet`: what reflection tells.
pub const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

#[cfg(test)]
mod tests;
