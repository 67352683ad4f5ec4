//! Scenarios that are wrong, and what is said of them.
