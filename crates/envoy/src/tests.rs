//! That the messages are Envoy's and gRPC's, byte for byte, and that the files are up to date.

mod generated;
mod wire;
