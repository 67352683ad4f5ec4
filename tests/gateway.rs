//! The gateway from outside: what clients, model servers and operators see of it.

mod harness;
