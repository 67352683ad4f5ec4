//! The Lua scripts. The name of each begins with the verb that runs it. All keys of a script are in
//! one slot, as a cluster demands.

use std::sync::LazyLock;

use redis::Script;

/// Declares a field for each script, read from the file of its name.
macro_rules! scripts {
    ($($name:ident),+ $(,)?) => {
        /// All scripts.
        pub(super) struct Scripts {
            $(pub(super) $name: Script,)+
        }

        impl Scripts {
            fn new() -> Self {
                Self {
                    $($name: Script::new(include_str!(
                        concat!("scripts/", stringify!($name), ".lua")
                    )),)+
                }
            }

            /// Each script once, to be loaded into the server.
            pub(super) fn all(&self) -> impl Iterator<Item = &Script> {
                [$(&self.$name),+].into_iter()
            }
        }
    };
}

scripts!(
    submit,
    claim,
    renew,
    complete,
    complete_push_result,
    complete_delete_mark,
    release,
    release_until_due,
    dead_letter,
    dead_letter_unreadable,
    reclaim,
    reclaim_due,
    redrive_dead_letters,
    purge_dead_letters,
    take_results,
);

/// The scripts, compiled once.
pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);
