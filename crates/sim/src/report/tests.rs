//! Reports of tiny scenarios, down to the byte.
