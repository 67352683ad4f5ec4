//! What it costs to know the client of a request: by an API key, or by a token (JWT).

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

use super::cost::{self, CLIENTS, SHORT};
use super::load::Request;
use super::measured::{Measured, play, table};
use super::origin::{Behaviour, Origin};
use super::proxies::Proxy;
use super::settings::flow_control;
use crate::report::Table;
use crate::runner::Bench;

const NOBODY: &str = "gateway";
const SECRET: &[u8] = b"the secret of a measurement, which is long enough";
/// It expires in the year 2100.
const CLAIMS: &str = r#"{"tenant":"team","exp":4102444800}"#;

const TENANT: &str = "[[tenants]]\nname = \"team\"\n";

/// A request without a key, with a key, and with tokens of two algorithms.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    let tenant = format!("{}{TENANT}", flow_control());
    let mut peers = vec![(NOBODY, flow_control(), String::new())];
    let (secret, public) = (bench.fixture.file("secret"), bench.fixture.file("pem"));
    let (keyed, key) = api_key(bench)?;
    peers.push(("gateway, API key", format!("{}{keyed}", flow_control()), key));
    fs::write(&secret, SECRET)?;
    let config = format!("{tenant}[auth.jwt]\nsecret_file = {secret:?}\n");
    peers.push(("gateway, token, HS256", config, token("HS256", |text| Ok(by_secret(text)))?));
    let signer = rcgen::KeyPair::generate()?;
    fs::write(&public, signer.public_key_pem())?;
    let config = format!("{tenant}[auth.jwt]\npublic_key_file = {public:?}\n");
    let signed = token("ES256", |text| by_key(&signer.serialize_der(), text))?;
    peers.push(("gateway, token, ES256", config, signed));
    let mut all = Vec::new();
    for (name, config, credential) in peers {
        let header = match credential.as_str() {
            "" => String::new(),
            key => format!("authorization: Bearer {key}\r\n"),
        };
        let load = cost::load(CLIENTS, Request::chat(false, &header), SHORT);
        let peer = Proxy::ours(name, config);
        all.push(Measured::start(bench, &origin, &peer, load).await?);
    }
    play(bench, &mut all, &origin).await?;
    let title = "A request whose client is known: POST of 1 KB, 64 connections";
    Ok(table(title.to_owned(), &all, NOBODY))
}

/// A configuration with a tenant, and its API key.
pub(crate) fn api_key(bench: &mut Bench) -> Result<(String, String)> {
    let keys = bench.fixture.file("keys");
    let mut made = Command::new(&bench.fixture.tidegate);
    made.args(["key", "new", "--tenant", "team", "--name", "bench", "--file"]).arg(&keys);
    let made = made.output()?;
    ensure!(made.status.success(), "no key: {}", String::from_utf8_lossy(&made.stderr));
    let key = String::from_utf8(made.stdout)?.trim().to_owned();
    Ok((format!("{TENANT}[auth]\nkey_file = {keys:?}\n"), key))
}

fn token(algorithm: &str, sign: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<String> {
    let header = format!(r#"{{"alg":"{algorithm}"}}"#);
    let text = format!("{}.{}", base64url(header.as_bytes()), base64url(CLAIMS.as_bytes()));
    let signature = sign(text.as_bytes())?;
    Ok(format!("{text}.{}", base64url(&signature)))
}

fn by_secret(text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text).as_ref().to_vec()
}

fn by_key(key: &[u8], text: &[u8]) -> Result<Vec<u8>> {
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random).ok();
    let signature = pair.context("the key is of another kind")?.sign(&random, text).ok();
    Ok(signature.context("no signature")?.as_ref().to_vec())
}

/// The base64 of tokens.
fn base64url(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            text.push(char::from(letters[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    text
}
