//! The dispatcher from outside: producers, queues, model servers and operators.

mod bad_keys;
mod batches;
mod crashes;
mod fixture;
mod gate_age;
mod gates;
mod kills;
mod llm_d_async;
mod operator_commands;
mod poison;
mod pubsub;
mod queues;
mod shares;
mod store_outage;
mod tls;
mod verdict;
