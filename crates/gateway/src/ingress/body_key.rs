//! The keys of a body that the gateway acts on, and what other servers may read as one of them.
//!
//! Servers differ in two ways. Of a key that stands twice, some take the first value and some the
//! last. Go's `encoding/json` ignores case, by Unicode's rules, so that `ſtream` is `stream` there.
//! A body that two servers could read in two ways could name one model to the gateway and another
//! one to the backend, so it is refused.

/// A key that the gateway acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKey {
    Model,
    /// SGLang's adapter, which is a model of its own.
    Adapter,
    Name,
    Stream,
    /// Whether the response may be made in the background.
    Background,
    /// The limit of output tokens, under several names.
    OutputLimit,
    Choices,
    Options,
    /// Text of the prompt, or what a template may write into it.
    Prompt,
    CacheSalt,
    User,
    Session,
    ServiceTier,
    PromptCacheKey,
}

/// A key of a line of a batch, which has the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKey {
    CustomId,
    Method,
    Url,
    Body,
}

/// Why a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyProblem {
    Twice(&'static str),
    /// It is another spelling of this key.
    Spelling(&'static str),
    /// Its value is no number, but some servers make one of it.
    NoNumber(&'static str),
    /// The same for a boolean.
    NoBool(&'static str),
}

/// The keys that were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenKeys(u64);

/// The keys of the outermost object.
const BODY: [(&str, BodyKey); 33] = [
    ("model", BodyKey::Model),
    ("name", BodyKey::Name),
    ("stream", BodyKey::Stream),
    ("background", BodyKey::Background),
    ("max_tokens", BodyKey::OutputLimit),
    ("max_completion_tokens", BodyKey::OutputLimit),
    ("max_output_tokens", BodyKey::OutputLimit),
    ("n_predict", BodyKey::OutputLimit),
    ("n", BodyKey::Choices),
    ("best_of", BodyKey::Choices),
    ("options", BodyKey::Options),
    ("messages", BodyKey::Prompt),
    ("prompt", BodyKey::Prompt),
    ("input", BodyKey::Prompt),
    ("system", BodyKey::Prompt),
    ("instructions", BodyKey::Prompt),
    ("tools", BodyKey::Prompt),
    ("functions", BodyKey::Prompt),
    ("images", BodyKey::Prompt),
    ("suffix", BodyKey::Prompt),
    ("query", BodyKey::Prompt),
    ("documents", BodyKey::Prompt),
    ("queries", BodyKey::Prompt),
    ("text_1", BodyKey::Prompt),
    ("text_2", BodyKey::Prompt),
    ("chat_template", BodyKey::Prompt),
    ("chat_template_kwargs", BodyKey::Prompt),
    ("cache_salt", BodyKey::CacheSalt),
    ("user", BodyKey::User),
    ("session", BodyKey::Session),
    ("service_tier", BodyKey::ServiceTier),
    ("prompt_cache_key", BodyKey::PromptCacheKey),
    ("lora_path", BodyKey::Adapter),
];
const _: () = assert!(BODY.len() <= u64::BITS as usize);

/// The keys of Ollama's `options`.
const OPTIONS: [(&str, BodyKey); 1] = [("num_predict", BodyKey::OutputLimit)];

/// The keys of a line of a batch.
const LINE: [(&str, LineKey); 4] = [
    ("custom_id", LineKey::CustomId),
    ("method", LineKey::Method),
    ("url", LineKey::Url),
    ("body", LineKey::Body),
];

/// No spelling of a key is longer: a letter that Unicode folds takes up to three bytes.
const SPELLING_MAX: usize = 3 * "max_completion_tokens".len();

/// Reads a key of a body: which one it is, with its name. `None` if the gateway ignores it.
pub(super) fn of_body(
    key: &str,
    seen: &mut SeenKeys,
) -> Result<Option<(BodyKey, &'static str)>, KeyProblem> {
    one_of(&BODY, key, seen)
}

/// The same for a key of `options`.
pub(super) fn of_options(
    key: &str,
    seen: &mut SeenKeys,
) -> Result<Option<(BodyKey, &'static str)>, KeyProblem> {
    one_of(&OPTIONS, key, seen)
}

/// The same for a key of a line of a batch.
pub(super) fn of_line(
    key: &str,
    seen: &mut SeenKeys,
) -> Result<Option<(LineKey, &'static str)>, KeyProblem> {
    one_of(&LINE, key, seen)
}

fn one_of<K: Copy>(
    known: &[(&'static str, K)],
    key: &str,
    seen: &mut SeenKeys,
) -> Result<Option<(K, &'static str)>, KeyProblem> {
    let at = |key: &str| known.iter().position(|(name, _)| *name == key);
    let Some(found) = at(key) else {
        let spelled = folded(key).and_then(|folded| at(&folded));
        return match spelled {
            Some(found) => Err(KeyProblem::Spelling(known[found].0)),
            None => Ok(None),
        };
    };
    let (name, key) = known[found];
    let bit = 1 << found;
    if seen.0 & bit != 0 {
        return Err(KeyProblem::Twice(name));
    }
    seen.0 |= bit;
    Ok(Some((key, name)))
}

/// Whether a name may be read as `model`. Some programs strip what stands around a name.
pub(super) fn is_like_model(name: &str) -> bool {
    let stripped =
        name.trim_matches(|letter: char| letter.is_ascii() && !letter.is_ascii_alphanumeric());
    letters_before_zero(stripped).eq("model".chars())
}

/// A key as a server reads it that ignores case or ends names at a zero byte; `None` if all servers
/// read it as it stands.
fn folded(key: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase() && byte != 0;
    if key.len() > SPELLING_MAX || key.bytes().all(plain) {
        return None;
    }
    Some(letters_before_zero(key).collect())
}

/// The letters that a server compares which ignores case, up to a zero byte.
fn letters_before_zero(key: &str) -> impl Iterator<Item = char> {
    key.chars().take_while(|&letter| letter != '\0').map(folded_letter)
}

/// A letter in lower case, with the four that Unicode or a language folds to an ASCII letter.
pub(super) fn folded_letter(letter: char) -> char {
    match letter {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        '\u{130}' | '\u{131}' => 'i',
        _ => letter.to_ascii_lowercase(),
    }
}

// === impl KeyProblem ===

impl KeyProblem {
    /// The key that it is about.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Twice(key) | Self::Spelling(key) | Self::NoNumber(key) | Self::NoBool(key) => key,
        }
    }
}

impl std::fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key();
        match self {
            Self::Twice("model") => f.write_str("The body names 'model' twice: name it once."),
            Self::Twice(_) => write!(f, "The body has '{key}' twice: write it once."),
            Self::Spelling(_) => write!(
                f,
                "The body has '{key}' in another spelling, which servers read differently: write \
                 it as '{key}', once."
            ),
            Self::NoNumber(_) => write!(f, "'{key}' must be a number."),
            Self::NoBool(_) => write!(f, "'{key}' must be true or false."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_a_key_that_go_would_read_as_another_is_a_spelling_of_it() {
        let read = |key: &str| of_body(key, &mut SeenKeys::default());
        for (key, meant) in [
            ("Model", "model"),
            ("MODEL", "model"),
            ("\u{17F}tream", "stream"),
            ("max_to\u{212A}ens", "max_tokens"),
            ("N", "n"),
            ("opt\u{131}ons", "options"),
            ("model\0x", "model"),
            ("Service_Tier", "service_tier"),
        ] {
            assert_eq!(read(key), Err(KeyProblem::Spelling(meant)), "{key}");
        }
        for key in ["models", "temperature", "Modell", "modèle", "", "\0", "top_K"] {
            assert_eq!(read(key), Ok(None), "{key}");
        }
        assert_eq!(read("n"), Ok(Some((BodyKey::Choices, "n"))));
        assert!(is_like_model("Model") && !is_like_model("models"));
    }

    #[test]
    fn x05_each_key_stands_once() {
        for (at, (name, _)) in BODY.iter().enumerate() {
            let mut seen = SeenKeys::default();
            assert!(of_body(name, &mut seen).unwrap().is_some());
            assert_eq!(seen.0, 1 << at, "{name} stands once in the table");
            assert_eq!(of_body(name, &mut seen), Err(KeyProblem::Twice(name)));
        }
    }
}
