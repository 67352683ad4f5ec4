//! Measurements and demonstrations.
