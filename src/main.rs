//! Tidegate: flow control for LLM inference.

fn main() {}
