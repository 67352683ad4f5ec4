//! The dispatcher from outside: producers, queues, model servers and operators.

mod absence;
mod batches;
mod crashes;
mod deeds;
mod gates;
mod queues;
mod yard;
