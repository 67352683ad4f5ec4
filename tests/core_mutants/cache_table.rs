//! The mutants of what is known about prefix caches.

use super::Mutant;

pub(super) const CACHE: &[Mutant] = &[
    Mutant {
        name: "blocks of a prompt are not chained",
        file: "prompt_blocks.rs",
        site: "            self.state = «self.absorbed(block)»;",
        instead: "Self { state: 0, ..self.clone() }.absorbed(block)",
        noticed_by: "k01_prompts_share",
    },
    Mutant {
        name: "the key of a prompt does not count",
        file: "prompt_blocks.rs",
        site: "let mut state = «mixed(key)»;",
        instead: "mixed(0)",
        noticed_by: "k01_prompts_with_other_keys",
    },
    Mutant {
        name: "the index searches past a block that was moved by an eviction",
        file: "prefix_index.rs",
        site: "            if «from_home >= (at.wrapping_sub(empty) & mask)» {",
        instead: "false",
        noticed_by: "k01_the_index_holds",
    },
    Mutant {
        name: "a prompt that is used again does not stay",
        file: "prefix_index.rs",
        site: "            let slot = self.table[at];\n            «self.order.remove(slot)»;",
        instead: "return",
        noticed_by: "k01_the_end_of_a_prompt",
    },
    Mutant {
        name: "responses do not lower what a backend is believed to hold",
        file: "prefix_index.rs",
        site: "JUDGED_FROM && «found < expected.div_ceil(2)» {",
        instead: "false",
        noticed_by: "k01_responses_correct",
    },
    Mutant {
        name: "prompts weigh where no backend has a part of them",
        file: "controller/routing.rs",
        site: "let shared = «!blocks.is_empty() && usable.clone().any(|at| held(at) > 0)»;",
        instead: "true",
        noticed_by: "caches::k01_without",
    },
    Mutant {
        name: "a prompt that was computed still delays others",
        file: "controller/prompts.rs",
        site: "let own = u64::from(«std::mem::take(&mut kept.uncomputed)»);",
        instead: "0",
        noticed_by: "caches::k01_a_backend_that_has",
    },
    Mutant {
        name: "a backend that failed a prompt is believed to have it",
        file: "controller/prompts.rs",
        site: "«prefixes.withdraw(kept.blocks.hashes(), kept.cached_blocks as usize)»;",
        instead: "()",
        noticed_by: "caches::k01_a_backend_that_failed",
    },
    Mutant {
        name: "a restarted engine keeps its cache",
        file: "supply.rs",
        site: "«backend.prefixes.clear()»;",
        instead: "()",
        noticed_by: "caches::k01_a_restarted",
    },
    Mutant {
        name: "the size of the cache that an engine reports does not count",
        file: "controller/prompts.rs",
        site: "«backend.kv_tokens.unwrap_or(usual)»",
        instead: "usual",
        noticed_by: "caches::k01_an_engine_holds",
    },
    Mutant {
        name: "slack without a bound: cached asks starve the others",
        file: "controller/slack.rs",
        site: "fair_queue.up_to(«least.saturating_add(slack)»,",
        instead: "u64::MAX",
        noticed_by: "k02_the_bound",
    },
    Mutant {
        name: "virtual time passes the flow queue whose turn it was",
        file: "queue/virtual_clock.rs",
        site: "self.now = «self.now.max(least)»;",
        instead: "self.now.max(tag)",
        noticed_by: "differential::fifo",
    },
    Mutant {
        name: "slack while a flow queue is held back",
        file: "controller/slack.rs",
        site: "if «fair_queue.least_over_share().is_some_and(|held| held < least)» {",
        instead: "false",
        noticed_by: "differential::workload",
    },
    Mutant {
        name: "a grant within the slack costs nothing",
        file: "queue/virtual_clock.rs",
        site: "self.bounded(tag + weight.stretch(«cost»))",
        instead: "if least < tag { 0 } else { cost }",
        noticed_by: "slack::k02_a_cold",
    },
];
