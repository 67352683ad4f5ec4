//! Files, folders and what is wrong with them.
