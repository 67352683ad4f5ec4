//! Tokens from a key and from a metadata server. Google itself was not asked.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::Value;

use super::*;

/// A key of this test alone.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQCVeIw46BT8JjbM
XcU+dJsty6RsfkknRx4YvkukGVKglTQiKwjxYvx3qslapACnlPDYAIG12xjXRVOp
+wpP7gWkX3nCrNxdvOdvoDw95f0cvmOnLyzCmlYGDJlEevYn+YGMdR9UCJPYZ3s2
byV4EfKSnom0Aer2ZD1yb5ZHNWUZABCzaXX3q+kXLTJzvhxyTQgxF9mtMRPIujrM
IV+rZC6uT8qkynZHFBqmdVQKM2IxM7b8weDAoUXQO1MKuXKlu9PCc9H4eCNa7rT4
0mXjDpSg4JQG3ffo3agCdy/B57P7i5mYXrvuM3vY85O9k1C+ouiHcOYRDBo87bAz
eB+cAO/7AgMBAAECggEAFEWnuvYbFoG2T+xt2oUlIMZsU/yivk2CcveoOabnknj5
+6JbkaWLuU00BvOUVSY5rgoPjZMcIOI5sSWnpeSR5lO+p10bfCkpOHYChaCiPhpC
WMPorbIR9bsStHt61DweSmb+Kz8IkkKiruTPL6Q7gpA2+++Apw88WD9zIdBHmGa5
L8PW8A/z1NREklXgEJ/+3eE2Jvm4RgSosADogGpvFsw6srKWDPz1Q/EILe9BvCZC
odkz2+zoUdWk52p3i8oKPcQ+rQwifAROQDws4BCAb+NZDgLXNwmP3r8Xn9kbYUe9
gtV8v7Dtf5XQmUTEsilvwiK4GFRPV3nHzu2y9qdqcQKBgQDQ/L81SjvVDvgfaVB5
nr6P78WrRttC/uuFm0zEPXNoAHAsd+eAcIZcQddzwVMrFiLKm+H8Nki7RVNBgE13
76TnAkuLureJtORZH/LajQxIOy9elSXCDmxBwVnt444dR7cLIL4DjQHogyn0GuMG
SG3Qjre+aKgAcsu9KmIgYehZsQKBgQC3GFgBOywGIJlgq+sgQYDrQx5sqaW/DeVE
g/obMmkBvnCAswjeuRNJsXbcf46PDZZWSrst9y2bGKrYNcdS2aRo/YwwBuuSHNoJ
dcF8q1JlCjYSFJCd1FCRk7P2r0DT0m2cx4XGNqnbyMgxT1PEkRM9dE9j2dwjtBE8
h8DvgXRjawKBgD8taRBPFK9gCxpT2AQsPSd+MJ+KmBY0wjZtsFNS0GSMXVzUEqP9
YGDbdqqDswS/eF0Pqs14C5yxZG3Uv5aWV5+OThA7rehvSui2g9AV+7SKT9Oj+voj
Kg7myKzlsbygRXGTwF2Kbx0/KZul1SO9GZWGz308Xi1khrr06R0o+/jBAoGAGklb
cSnOoz6Q5qkoA6SD3sLvHkio7CoRjWmpQbhWDRMLUd7iWh+WHlFlMDj7/ZvExrTJ
9Mp0+Lxs4setyz5F9XDZbJfBwGN2Bj+qvLxYAvuZUbU0IgS2YIAlKTh2BTND22tl
0FROxKgp3bJ241S0v3DwaPSBP3r9soQG9hvO2usCgYAnIUEBkEVp2a+VprEcbMVo
9A67CUofO6+VapZsC8rGVohvOlEkPYLS3+pIQZy4r8Qi1vGkgqhPj6xFD0bXViLF
pSgLi/BBzl7QCI4DtDPg+u69wZ4vtJOARXZdHS/CY250I2XrHxSrDiEhb78K/1Gz
0vsCnm49aALR0VRGLBsg9Q==
-----END PRIVATE KEY-----";

fn no_variable(_name: &str) -> Option<String> {
    None
}

fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tidegate-google-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

fn key_file() -> PathBuf {
    let text = json!({
        "type": "service_account", "client_email": "batch@tests.iam.gserviceaccount.com",
        "private_key": KEY, "private_key_id": "7",
    });
    file("key.json", &text.to_string())
}

/// Decodes base64 with `-` and `_`.
fn decoded(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let value = |letter: u8| letters.iter().position(|known| *known == letter).unwrap() as u32;
    let bits = |letter| (0..6).rev().map(move |at| value(letter) >> at & 1);
    let bits: Vec<u32> = text.bytes().flat_map(bits).collect();
    let byte = |bits: &[u32]| bits.iter().fold(0, |byte, bit| byte << 1 | *bit as u8);
    bits.chunks_exact(8).map(byte).collect()
}

#[tokio::test]
async fn d09_a_service_account_signs_its_own_tokens() {
    let credentials = GoogleCredentials::new(Some(&key_file()), no_variable).unwrap();
    let value = credentials.authorization().await.unwrap();
    assert!(value.is_sensitive());
    let token = value.to_str().unwrap().strip_prefix("Bearer ").unwrap();
    let (text, signature) = token.rsplit_once('.').unwrap();
    let TokenSource::Key(account) = &credentials.source else { panic!("{credentials:?}") };
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, account.key.public_key());
    public.verify(text.as_bytes(), &decoded(signature)).unwrap();
    let (header, claims) = text.split_once('.').unwrap();
    let read = |part: &str| serde_json::from_slice::<Value>(&decoded(part)).unwrap();
    assert_eq!(read(header), json!({"alg": "RS256", "typ": "JWT", "kid": "7"}));
    let claims = read(claims);
    assert_eq!(claims["iss"], "batch@tests.iam.gserviceaccount.com");
    assert_eq!((&claims["sub"], &claims["aud"]), (&claims["iss"], &json!(AUDIENCE)));
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
    assert_eq!(credentials.authorization().await.unwrap(), value, "it is kept");
}

#[tokio::test]
async fn d09_the_metadata_server_is_asked_once_for_a_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        let body = json!({"access_token": "abc", "expires_in": 3599, "token_type": "Bearer"});
        let body = body.to_string();
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        String::from_utf8_lossy(&buffer[..count]).to_ascii_lowercase()
    });
    let variable = |name: &str| (name == "GCE_METADATA_HOST").then(|| place.clone());
    let credentials = GoogleCredentials::new(None, variable).unwrap();
    for _ in 0..2 {
        assert_eq!(credentials.authorization().await.unwrap(), "Bearer abc");
    }
    let request = server.join().unwrap();
    let path = TOKEN_PATH.to_ascii_lowercase();
    assert!(request.starts_with(&format!("get {path} ")), "{request}");
    assert!(request.contains("metadata-flavor: google"), "{request}");
}

/// A metadata server that gives these answers, one for each connection.
fn metadata_server(answers: Vec<(u16, Value)>) -> (GoogleCredentials, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let body = body.to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
            write!(stream, "{head}content-length: {length}\r\n\r\n{body}").unwrap();
        }
    });
    let variable = |name: &str| (name == "GCE_METADATA_HOST").then(|| place.clone());
    (GoogleCredentials::new(None, variable).unwrap(), server)
}

/// The token is near its end, and there is no new one.
#[tokio::test]
async fn d09_a_token_serves_until_its_end_while_the_metadata_server_fails() {
    let token = json!({"access_token": "old", "expires_in": MARGIN.as_secs()});
    let (credentials, server) = metadata_server(vec![(200, token), (500, json!({}))]);
    for _ in 0..3 {
        assert_eq!(credentials.authorization().await.unwrap(), "Bearer old");
    }
    server.join().unwrap();
    let failure = credentials.kept().failure.clone();
    assert!(matches!(&*failure.unwrap().1, CredentialsError::NoToken(500)));
    let ends_at = credentials.kept().token.as_ref().unwrap().ends_at;
    assert_eq!(credentials.kept().valid(ends_at), None);
}

/// While one caller asks for a token, the others use the old one.
#[tokio::test]
async fn d09_no_call_waits_for_a_new_token_while_the_old_one_is_valid() {
    let token = json!({"access_token": "old", "expires_in": MARGIN.as_secs()});
    let (credentials, server) = metadata_server(vec![(200, token)]);
    assert_eq!(credentials.authorization().await.unwrap(), "Bearer old");
    server.join().unwrap();
    let _asking = credentials.asking.lock().await;
    assert_eq!(credentials.authorization().await.unwrap(), "Bearer old");
}

/// The server is asked once: the callers that wait have the failure of the first.
#[tokio::test]
async fn d09_callers_that_wait_for_a_token_share_one_failure() {
    let (credentials, server) = metadata_server(vec![(503, json!({}))]);
    let (one, two, three) = tokio::join!(
        credentials.authorization(),
        credentials.authorization(),
        credentials.authorization()
    );
    server.join().unwrap();
    for error in [one, two, three].map(Result::unwrap_err) {
        assert!(matches!(&*error, CredentialsError::NoToken(503)), "{error}");
    }
}

#[test]
fn d09_a_file_that_is_no_key_is_named_with_the_reason() {
    let rows = [
        ("none.json", "not JSON", "is not JSON"),
        ("user.json", r#"{"type": "authorized_user"}"#, "supported is \"service_account\""),
        ("empty.json", r#"{"type": "service_account"}"#, "has no private RSA key"),
    ];
    for (name, text, expected) in rows {
        let file = file(name, text);
        let error = GoogleCredentials::new(Some(&file), no_variable).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    let named = |name: &str| (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| "/nowhere".into());
    let error = GoogleCredentials::new(None, named).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere cannot be read"), "{error}");
}
