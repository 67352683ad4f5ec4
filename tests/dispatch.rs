//! The dispatcher from outside: producers, queues, model servers and operators.

mod batches;
mod crashes;
mod fixture;
mod gates;
mod operator_commands;
mod queues;
mod store_outage;
