//! The section `scaler`.

use std::time::Duration;

use super::forms::BACKEND_URL;
use super::{DAY, HOUR, MILLI, SECOND, count, duration, number};
use crate::config::settings::EppTls;
use crate::schema::ValueType::{Address, Keyword, Path, Text};
use crate::schema::{SectionSchema, key, words};

pub(in crate::config) const SCALER: SectionSchema = SectionSchema::new(
    "scaler",
    &[
        key(
            "listen",
            Address,
            "The address on which KEDA asks (gRPC: externalscaler.ExternalScaler).",
        )
        .unset("no autoscaler is served")
        .restart(),
        key(
            "tls",
            Keyword(words::<EppTls>),
            "Whether callers speak TLS: each as it likes (`auto`), all (`required`), or none \
             (`off`).",
        )
        .default("auto")
        .restart(),
        key(
            "cert_path",
            Path,
            "A folder with the certificate `tls.crt` and its key `tls.key`, which are read at the \
             start.",
        )
        .unset("a self-signed certificate, made at the start")
        .restart(),
        key(
            "quiet",
            duration(Duration::ZERO, DAY),
            "How long after its last request a model counts as active.",
        )
        .default("1m"),
        key("streams_max", count(1, 10_000), "The most streams of autoscalers at once.")
            .default("100"),
        key(
            "utilization",
            number(0.05, 1.0),
            "The share of what a backend was measured to carry that arrivals should use. The rest \
             is room until another backend has started.",
        )
        .default("0.8"),
        key(
            "drain",
            duration(SECOND, HOUR),
            "The time in which the wanted backends complete the waiting requests.",
        )
        .default("1m"),
        key(
            "wake_url",
            Text(&BACKEND_URL),
            "Where Tidegate sends one POST when requests wait for a model without a backend. Its \
             body is JSON, with the models and how many requests wait for each.",
        )
        .unset("no call is made"),
        key(
            "wake_again",
            duration(SECOND, HOUR),
            "How long after a call for a model another one may follow, while its requests still \
             wait.",
        )
        .default("30s"),
        key("wake_attempts", count(1, 10), "How often a call is tried that fails.").default("3"),
        key("wake_timeout", duration(MILLI, HOUR), "How long one try may take.").default("5s"),
    ],
)
.doc(
    "What an autoscaler is told. `utilization` and `drain` also determine the metric \
     `tidegate_backends_wanted`. Where status pages need the key of an operator, calls need one \
     too: as `authorization`, or in the metadata of the trigger as `token`. See \
     [AUTOSCALING.md](AUTOSCALING.md).",
);
