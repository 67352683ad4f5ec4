//! X05: what a token must be. The signed examples are those of RFC 7515, appendices A.2 and A.3.

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::*;
use crate::fuzz::fuzz;

const NOW: u64 = 1_800_000_000;
const SECRET: &str = "a secret of this test, long enough for HS256";
const RFC_CLAIMS: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv\
    bS9pc19yb290Ijp0cnVlfQ";
const RFC_EXPIRES: u64 = 1_300_819_380;
const RFC_RS256: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-\
    0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLI\
    ARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnv\
    Wh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RFC_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2\
    mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaS\
    HSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJ\
    H7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RFC_ES256: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const RFC_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const RFC_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

fn encode(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let letter = |at: usize| (at..at + 6).fold(0, |value, at| value << 1 | bit(at));
    let letters = (0..bytes.len() * 8).step_by(6).map(letter);
    letters.map(|value| char::from(LETTERS[value])).collect()
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

/// A token that is signed with a secret.
fn signed_by(secret: &[u8], header: &Value, claims: &Value) -> String {
    let text = unsigned(header, claims);
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    format!("{text}.{}", encode(signature.as_ref()))
}

fn signed(claims: &Value) -> String {
    signed_by(SECRET.as_bytes(), &json!({"alg": "HS256", "typ": "JWT"}), claims)
}

fn good_claims() -> Value {
    json!({"tenant": "alpha", "exp": NOW + 60})
}

/// The good claims with some of them changed; `null` leaves one out.
fn claims(changes: Value) -> Value {
    let mut claims = good_claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn rules(tenant_claim: &str, issuer: Option<&str>, audience: Option<&str>) -> ClaimRules {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    ClaimRules {
        tenant_claim: tenant_claim.into(),
        issuer: owned(issuer),
        audience: owned(audience),
    }
}

fn by_secret(rules: ClaimRules) -> TokenVerifier {
    TokenVerifier::new(vec![secret_key(SECRET).unwrap()], rules)
}

fn plain() -> TokenVerifier {
    by_secret(rules("tenant", None, None))
}

fn rsa(id: &str) -> Value {
    json!({"kty": "RSA", "kid": id, "n": RFC_N, "e": "AQAB", "use": "sig", "alg": "RS256"})
}

fn p256(id: &str) -> Value {
    json!({"kty": "EC", "crv": "P-256", "kid": id, "x": RFC_X, "y": RFC_Y})
}

fn by_set(keys: &Value, tenant_claim: &str) -> TokenVerifier {
    let set = public_keys(&json!({ "keys": keys }).to_string()).unwrap();
    TokenVerifier::new(set.keys, rules(tenant_claim, None, None))
}

#[test]
fn x05_a_good_token_names_its_tenant() {
    assert_eq!(plain().tenant(&signed(&good_claims()), NOW), Ok("alpha".into()));
    let other = by_secret(rules("https://a.example/team", None, None));
    let named = signed(&json!({"https://a.example/team": "beta", "exp": NOW as f64 + 0.5}));
    assert_eq!(other.tenant(&named, NOW), Ok("beta".into()));
    assert_eq!(plain().tenant(&named, NOW), Err(TokenProblem::NoTenant));
    for tenant in [json!(7), json!(["alpha"]), json!(null)] {
        let token = signed(&claims(json!({ "tenant": tenant })));
        assert_eq!(plain().tenant(&token, NOW), Err(TokenProblem::NoTenant), "{tenant}");
    }
}

#[test]
fn x05_the_signed_examples_of_rfc_7515_are_verified() {
    let both = by_set(&json!([rsa("r"), p256("e")]), "iss");
    let rs256 = format!("eyJhbGciOiJSUzI1NiJ9.{RFC_CLAIMS}.{RFC_RS256}");
    let es256 = format!("eyJhbGciOiJFUzI1NiJ9.{RFC_CLAIMS}.{RFC_ES256}");
    for token in [&rs256, &es256] {
        assert_eq!(both.tenant(token, RFC_EXPIRES - 1), Ok("joe".into()));
        assert_eq!(both.tenant(token, RFC_EXPIRES), Err(TokenProblem::Expired));
        let (text, signature) = token.rsplit_once('.').unwrap();
        let other = if signature.starts_with('c') { "d" } else { "c" };
        let wrong = format!("{text}.{other}{}", &signature[1..]);
        assert_eq!(both.tenant(&wrong, RFC_EXPIRES - 1), Err(TokenProblem::Signature));
    }
    let swapped = format!("eyJhbGciOiJFUzI1NiJ9.{RFC_CLAIMS}.{RFC_RS256}");
    assert_eq!(both.tenant(&swapped, RFC_EXPIRES - 1), Err(TokenProblem::Signature));
    let only = by_set(&json!([rsa("r")]), "iss");
    assert_eq!(only.tenant(&es256, RFC_EXPIRES - 1), Err(TokenProblem::Algorithm));
}

#[test]
fn x05_a_token_chooses_no_algorithm_but_that_of_a_key() {
    let verifier = plain();
    for alg in ["none", "None", "", "HS384", "HS512", "RS256", "ES256", "PS256", "hs256"] {
        let header = json!({ "alg": alg });
        let token = signed_by(SECRET.as_bytes(), &header, &good_claims());
        assert_eq!(verifier.tenant(&token, NOW), Err(TokenProblem::Algorithm), "{alg}");
        let bare = format!("{}.", unsigned(&header, &good_claims()));
        assert_eq!(verifier.tenant(&bare, NOW), Err(TokenProblem::Algorithm), "{alg}");
    }
    let bare = format!("{}.", unsigned(&json!({"alg": "HS256"}), &good_claims()));
    assert_eq!(verifier.tenant(&bare, NOW), Err(TokenProblem::Signature));
    // A public key is known to all clients. It is no secret, in whatever form it is used.
    let public = by_set(&json!([rsa("r")]), "tenant");
    let modulus = base64url::decode(RFC_N).unwrap();
    for secret in [modulus.as_slice(), RFC_N.as_bytes()] {
        for (alg, problem) in
            [("HS256", TokenProblem::Algorithm), ("RS256", TokenProblem::Signature)]
        {
            let token = signed_by(secret, &json!({ "alg": alg }), &good_claims());
            assert_eq!(public.tenant(&token, NOW), Err(problem));
        }
    }
    assert!(secret_key("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----").is_err());
}

#[test]
fn x05_a_token_chooses_its_key_by_kid() {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let own = json!({"kty": "EC", "crv": "P-256", "kid": "own", "x": encode(x), "y": encode(y)});
    let token = |header: Value| {
        let text = unsigned(&header, &good_claims());
        let signature = pair.sign(&random, text.as_bytes()).unwrap();
        format!("{text}.{}", encode(signature.as_ref()))
    };
    let two = by_set(&json!([p256("old"), own]), "tenant");
    let one = by_set(&json!([own]), "tenant");
    for (kid, of_two, of_one) in [
        (json!("own"), Ok("alpha".to_owned()), Ok("alpha".to_owned())),
        (json!("old"), Err(TokenProblem::Signature), Err(TokenProblem::Key)),
        (json!("new"), Err(TokenProblem::Key), Err(TokenProblem::Key)),
        (json!(null), Err(TokenProblem::Key), Ok("alpha".to_owned())),
        (json!(7), Err(TokenProblem::Malformed), Err(TokenProblem::Malformed)),
    ] {
        let token = token(json!({"alg": "ES256", "kid": kid}));
        assert_eq!((two.tenant(&token, NOW), one.tenant(&token, NOW)), (of_two, of_one), "{kid}");
    }
    let demanding = token(json!({"alg": "ES256", "crit": ["exp"]}));
    assert_eq!(one.tenant(&demanding, NOW), Err(TokenProblem::Extension));
}

#[test]
fn x05_a_token_is_valid_for_a_time_an_issuer_and_an_audience() {
    let strict = by_secret(rules("tenant", Some("https://i.example"), Some("tidegate")));
    let full = json!({"iss": "https://i.example", "aud": "tidegate"});
    let changed = |changes: Value| {
        let mut all = full.clone();
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        strict.tenant(&signed(&claims(all)), NOW)
    };
    for good in [
        json!({}),
        json!({"aud": ["other", "tidegate"]}),
        json!({"nbf": NOW + 30, "iat": NOW + 3600}),
        json!({"exp": 1e300}),
    ] {
        assert_eq!(changed(good.clone()), Ok("alpha".into()), "{good}");
    }
    for (changes, problem) in [
        (json!({"exp": null}), TokenProblem::NoExpiry),
        (json!({"exp": (NOW + 60).to_string()}), TokenProblem::NoExpiry),
        (json!({"exp": NOW}), TokenProblem::Expired),
        (json!({"exp": -1}), TokenProblem::Expired),
        (json!({"nbf": NOW + 31}), TokenProblem::NotYetValid),
        (json!({"nbf": "soon"}), TokenProblem::Malformed),
        (json!({"iss": null}), TokenProblem::Issuer),
        (json!({"iss": "https://i.example/"}), TokenProblem::Issuer),
        (json!({"aud": null}), TokenProblem::Audience),
        (json!({"aud": "other"}), TokenProblem::Audience),
        (json!({"aud": ["other", 7]}), TokenProblem::Audience),
    ] {
        assert_eq!(changed(changes.clone()), Err(problem), "{changes}");
    }
    // Whoever names an audience means no server without that name.
    let for_other = signed(&claims(json!({"aud": "other"})));
    assert_eq!(plain().tenant(&for_other, NOW), Err(TokenProblem::Audience));
}

#[test]
fn x05_a_malformed_or_oversized_token_is_refused() {
    let good = signed(&good_claims());
    let (text, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = text.split_once('.').unwrap();
    for wrong in [
        "..".to_owned(),
        format!("{header}..{signature}"),
        format!("{text}.{signature}="),
        format!("{text}.{signature}.{signature}"),
        format!("{header}=.{payload}.{signature}"),
        format!("{}.{payload}.{signature}", encode(b"[]")),
        format!("{}.{payload}.{signature}", encode(br#"{"alg":"none","alg":"HS256"}"#)),
        format!("{}.{payload}.{signature}", encode(br#"{"typ":"JWT"}"#)),
        signed(&json!(["alpha"])),
    ] {
        let refused = plain().tenant(&wrong, NOW).unwrap_err();
        let is_named = matches!(refused, TokenProblem::Malformed | TokenProblem::Signature);
        assert!(is_named, "{wrong}: {refused:?}");
    }
    assert!(is_token(&good) && !is_token(&format!("{good}.{signature}")) && !is_token(text));
    for (filling, expected) in
        [(5_900, Ok("alpha".to_owned())), (6_200, Err(TokenProblem::TooLong))]
    {
        let token = signed(&claims(json!({"filling": "x".repeat(filling)})));
        assert_eq!(plain().tenant(&token, NOW), expected, "{}", token.len());
    }
}

#[test]
fn x05_files_of_signing_keys_that_would_not_protect_are_refused() {
    for wrong in ["", "short", "{\"keys\":[]}", &format!("{SECRET}\n{SECRET}")] {
        assert!(secret_key(wrong).is_err(), "{wrong}");
    }
    assert_eq!(secret_key(&format!("{SECRET}\n")), secret_key(SECRET));
    let with = |key: Value, name: &str, value: Value| {
        let mut key = key;
        key[name] = value;
        json!({ "keys": [key] }).to_string()
    };
    let short_modulus = encode(&[0xff; 128]);
    for (wrong, part) in [
        (String::new(), "neither a public key"),
        ("{".into(), "is no JWKS: see line 1"),
        (json!({"keys": []}).to_string(), "has no key for"),
        (with(rsa("r"), "d", json!("AQAB")), "private key"),
        (with(rsa("r"), "n", json!(short_modulus)), "2048 to 8192 bits"),
        (with(rsa("r"), "e", json!("AQ")), "exponent"),
        (with(rsa("r"), "n", json!("=")), "incomplete"),
        (with(p256("e"), "x", json!("AQAB")), "32 bytes"),
        (with(p256("e"), "crv", json!("P-521")), "has no key for"),
        (with(rsa("r"), "use", json!("enc")), "has no key for"),
        (with(rsa("r"), "alg", json!("RS512")), "has no key for"),
        (with(json!({"k": "AQAB"}), "kty", json!("oct")), "has no key for"),
        (json!({"keys": [rsa("a"), p256("a")]}).to_string(), "same name"),
        (json!({"keys": [rsa("a"), with_no_name()]}).to_string(), "no name"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----".into(), "private key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".into(), "cannot be read"),
    ] {
        let problem = public_keys(&wrong).unwrap_err().to_string();
        assert!(problem.contains(part), "{wrong}: {problem}");
    }
    let set = json!({"keys": [rsa("a"), {"kty": "oct", "k": "AQAB"}]}).to_string();
    let read = public_keys(&set).unwrap();
    assert_eq!((read.keys.len(), read.unused.len()), (1, 1));
    assert!(!format!("{:?}", plain()).contains("secret of this test"));
}

fn with_no_name() -> Value {
    json!({"kty": "EC", "crv": "P-256", "x": RFC_X, "y": RFC_Y})
}

#[test]
fn x05_fuzz_tokens() {
    let good = signed(&good_claims());
    let rs256 = format!("eyJhbGciOiJSUzI1NiJ9.{RFC_CLAIMS}.{RFC_RS256}");
    let none = format!("{}.", unsigned(&json!({"alg": "none"}), &good_claims()));
    let words: [&[u8]; 4] = [b".", b"eyJhbGciOiJub25lIn0", b"eyJhbGciOiJIUzI1NiJ9", b"="];
    let mut verifier = by_set(&json!([rsa("r"), p256("e")]), "tenant");
    verifier.keys.push(secret_key(SECRET).unwrap());
    fuzz("tokens", &[good.as_bytes(), rs256.as_bytes(), none.as_bytes()], &words, |input, _| {
        let text = String::from_utf8_lossy(input);
        match verifier.tenant(&text, NOW) {
            Ok(tenant) => {
                assert_eq!((tenant.as_str(), &*text), ("alpha", good.as_str()), "forged");
                "accepted".to_owned()
            }
            Err(problem) => format!("{problem:?}"),
        }
    });
}

#[test]
fn x05_fuzz_signing_keys() {
    let set = json!({"keys": [rsa("a"), p256("b")]}).to_string();
    let mut der = vec![0x30, 0x59, 0x30, 0x13];
    der.extend_from_slice(rustls_pki_types::alg_id::ECDSA_P256.as_ref());
    der.extend_from_slice(&[0x03, 0x42, 0x00, 0x04]);
    der.extend([RFC_X, RFC_Y].into_iter().flat_map(|text| base64url::decode(text).unwrap()));
    assert!(VerificationKey::from_der(&der).is_ok());
    let words: [&[u8]; 5] = [b"\"kid\"", b"\"RSA\"", b"null", b"AQAB", b"\x03\x42\x00\x04"];
    fuzz("signing-keys", &[set.as_bytes(), &der], &words, |input, _| {
        let _ = VerificationKey::from_der(input);
        match public_keys(&String::from_utf8_lossy(input)) {
            Ok(set) => set.keys.len().to_string(),
            Err(problem) => problem.to_string(),
        }
    });
}
