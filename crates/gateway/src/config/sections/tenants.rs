//! The section `auth` and the list `tenants`.

use flow::Band;

use super::queue::CAPACITY;
use super::{count, number};
use crate::api_keys::{KeyLine, is_name};
use crate::config::settings::tenants::OnQuota;
use crate::schema::ValueType::{Keyword, Path, Table, Text, Texts};
use crate::schema::{Form, Misfit, NOT_EMPTY, SectionSchema, key, words};

/// The largest limit of a minute.
const LIMIT_MAX: u64 = 1_000_000_000_000;

/// The largest quota.
const QUOTA_MAX: u64 = 1_000_000_000_000_000;

/// The name of a tenant, which stands in key files, metrics and the names of flows.
const TENANT_NAME: Form = Form {
    allowed: "1 to 64 letters, digits, `-`, `_` and `.`",
    check: |name| match is_name(name) {
        true => Ok(()),
        false => {
            let allowed = "1 to 64 letters, digits, '-', '_' and '.'";
            Err(Misfit::of(&format_args!("{name:?}"), allowed))
        }
    },
    example: "team-b",
};

/// A stored key. The text is not repeated in a problem: it may be a key itself.
const KEY_LINE: Form = Form {
    allowed: "lines as `tidegate key new` prints them",
    check: |line| match line.parse::<KeyLine>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Misfit(format!("{error}; `tidegate key new` makes one"))),
    },
    example: "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad team-a ci",
};

pub(in crate::config) const AUTH: SectionSchema = SectionSchema::new(
    "auth",
    &[
        key(
            "key_file",
            Path,
            "A file with one stored key on each line, which is watched for changes. \
             `tidegate key new` adds a line.",
        ),
        key(
            "keys",
            Texts(&KEY_LINE),
            "Further stored keys, each written as a line of the key file. The variable \
             `TIDEGATE_AUTH__KEYS` gives keys without a file. An empty list lets nobody in, like \
             an empty file.",
        ),
        key("jwt", Table(&JWT), "Tokens of an issuer, in place of keys."),
    ],
)
.doc(
    "The keys of tenants and operators, as SHA-256 digests. docs/SECURITY.md shows how to set them \
     up.",
);

const JWT: SectionSchema = SectionSchema::new(
    "auth.jwt",
    &[
        key(
            "secret_file",
            Path,
            "A file with the secret of tokens that are signed with HS256, in one line of at least \
             32 bytes. It is watched for changes.",
        )
        .unset("no token with HS256 is accepted"),
        key(
            "public_key_file",
            Path,
            "A file with the public key of tokens that are signed with RS256 or ES256: one key in \
             PEM, or a JWKS whose keys tokens choose by `kid`. It is watched for changes.",
        )
        .unset("no token with RS256 or ES256 is accepted"),
        key("tenant_claim", Text(&NOT_EMPTY), "The claim with the name of the tenant.")
            .default("tenant"),
        key("issuer", Text(&NOT_EMPTY), "The issuer that tokens must name (`iss`).").unset("any"),
        key("audience", Text(&NOT_EMPTY), "The audience that tokens must name (`aud`).")
            .unset("tokens with an audience are refused"),
    ],
)
.doc(
    "JSON Web Tokens in place of keys. One of the two files switches them on. A credential with \
     three parts between dots is a token, any other is a key.",
);

pub(in crate::config) const USAGE: SectionSchema = SectionSchema::new(
    "usage",
    &[key(
        "file",
        Path,
        "The SQLite file with what each tenant, key and model used, in sums of an hour that are \
         kept for a year. `GET /usage` and `tidegate usage` show them, and quotas survive a \
         restart by them.",
    )
    .unset("none: there is no accounting")
    .restart()],
);

pub(in crate::config) const TENANTS: SectionSchema = SectionSchema::new(
    "tenants",
    &[
        key("name", Text(&TENANT_NAME), "The name of the tenant, which keys and metrics use.")
            .required(),
        key(
            "band",
            Keyword(words::<Band>),
            "The band of requests that state none. If `queue.bands` has weights, the band of all \
             requests of the tenant.",
        )
        .unset("that of the first matching band rule or of the model, else normal"),
        key(
            "band_max",
            Keyword(words::<Band>),
            "The highest band of its requests. A request that claims more gets this band.",
        )
        .default("normal"),
        key("weight", number(0.01, 1000.0), "The share of service.").default("1"),
        key(
            "max_in_flight",
            CAPACITY,
            "Requests at all backends at once; further requests wait. It holds for each flow of \
             the tenant, if `queue.flow_by` has other parts too.",
        )
        .unset("no limit"),
        key(
            "requests_per_minute",
            count(1, LIMIT_MAX),
            "Requests in a minute. Further requests get 429. A minute's number may come at once.",
        )
        .unset("no limit"),
        key(
            "tokens_per_minute",
            count(1, LIMIT_MAX),
            "Tokens of prompts and responses in a minute. A request counts with its estimate, \
             and with its real tokens when it ends, without those that its backend had in its \
             cache (see `queue.charge_cached`). While the tokens are used up, requests get 429.",
        )
        .unset("no limit"),
        key(
            "tokens_per_day",
            count(1, QUOTA_MAX),
            "Tokens of prompts and responses in a day (UTC). `on_quota` says what happens then.",
        )
        .unset("no limit"),
        key("tokens_per_month", count(1, QUOTA_MAX), "The same in a calendar month.")
            .unset("no limit"),
        key(
            "on_quota",
            Keyword(words::<OnQuota>),
            "What happens to requests while a quota of tokens is used up: they `wait` in the \
             lowest band, so that they get what other tenants leave, or they are refused with 429.",
        )
        .default("wait"),
        key(
            "models",
            Texts(&NOT_EMPTY),
            "The models that it may use; `*` stands for any characters.",
        )
        .unset("all models"),
    ],
)
.doc(
    "Groups of clients. With an entry here, every request to the API needs a key of a tenant, and \
     the queue is fair between tenants unless `queue.flow_by` says otherwise. An entry of \
     `[[flows]]` that matches a request takes the place of `weight` and `max_in_flight`.",
);
