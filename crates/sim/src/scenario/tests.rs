//! Scenarios as people write them, right and wrong.
