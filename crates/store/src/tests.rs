//! What the engines are held to.

mod sqlite;
