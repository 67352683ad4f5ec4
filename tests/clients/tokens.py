"""Makes the keys of an issuer in a folder, and prints tokens that PyJWT signs with them, as JSON."""

import base64
import hashlib
import hmac
import json
import pathlib
import sys
import time

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

folder = pathlib.Path(sys.argv[1])
secret = "a secret of the tests, which is long enough"
rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ec_key = ec.generate_private_key(ec.SECP256R1())
now = int(time.time())
claims = {"tenant": "alpha", "iss": "issuer", "aud": "tidegate", "exp": now + 3600}


def pem(key):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def web_key(algorithm, key, kid):
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


def token(key, algorithm, kid=None, **changes):
    kept = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return jwt.encode(kept, key, algorithm, headers={"kid": kid} if kid else None)


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def raw(header, body, key=secret.encode(), sign=None):
    """A token of these bytes, whatever they are, with HMAC by a key or with a given signature."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    text = f"{encode(header)}.{encode(body)}"
    signature = hmac.digest(key, text.encode(), hashlib.sha256) if sign is None else sign
    return f"{text}.{encode(signature)}"


def with_claim(name, text):
    """The claims as bytes, with a claim whose value is any text."""
    kept = json.dumps({key: value for key, value in claims.items() if key != name})
    return f'{kept[:-1]}, "{name}": {text}}}'.encode()


HS256 = {"alg": "HS256"}
NESTED = b'{"alg":"HS256","x":' + b"[" * 900 + b"]" * 900 + b"}"
TWO_TENANTS = '"beta", "tenant": "alpha"'


def forged():
    """Tokens that must not be accepted. Most have a good signature, so that the rest is read."""
    own_key = ec.generate_private_key(ec.SECP256R1())
    own = web_key(ECAlgorithm, own_key, "own")
    yield "own key in the header", jwt.encode(claims, own_key, "ES256", headers={"jwk": own})
    yield "own key by kid", jwt.encode(claims, own_key, "ES256", headers={"kid": "e"})
    for name in ["jku", "x5u"]:
        headers = {name: "http://127.0.0.1:9/keys", "kid": "own"}
        yield f"own key by {name}", jwt.encode(claims, own_key, "ES256", headers=headers)
    for alg in ["none", "None", "NONE", "nOnE", "", "HS256 ", "hs256", "HS384", "RS512", "PS256"]:
        yield f"algorithm {alg!r}", raw({"alg": alg}, claims)
        yield f"algorithm {alg!r} without a signature", raw({"alg": alg}, claims, sign=b"")
    for public in [pem(rsa_key), pem(ec_key), (folder / "jwks.json").read_bytes(), b""]:
        for stripped in [public, public.strip()]:
            for kid in ["r", "e", None]:
                header = {**HS256, **({"kid": kid} if kid else {})}
                yield f"a public key as the secret, kid {kid}", raw(header, claims, stripped)
    for kid in ["../../../../dev/null", "/dev/null", "' OR '1'='1", "r\0", "\u00e9", "x" * 3000]:
        yield f"kid {kid[:12]!r}", raw({**HS256, "kid": kid}, claims, b"")
    for kid in [7, None, ["r"], {"a": 1}]:
        yield f"RS256 with kid {kid!r}", raw({"alg": "RS256", "kid": kid}, claims)
    yield "ES256 of zeros", raw({"alg": "ES256", "kid": "e"}, claims, sign=bytes(64))
    yield "ES256 of nothing", raw({"alg": "ES256", "kid": "e"}, claims, sign=b"")
    der = ec_key.sign(b"x", ec.ECDSA(hashes.SHA256()))
    yield "ES256 in DER", raw({"alg": "ES256", "kid": "e"}, claims, sign=der)
    yield "RS256 of zeros", raw({"alg": "RS256", "kid": "r"}, claims, sign=bytes(256))
    yield "RS256 of one byte", raw({"alg": "RS256", "kid": "r"}, claims, sign=b"\x01")
    yield "crit", raw({**HS256, "crit": ["exp"]}, claims)
    yield "crit of nothing", raw({**HS256, "crit": []}, claims)
    yield "two algorithms", raw(b'{"alg":"none","alg":"HS256"}', claims)
    good = b'{"alg":"HS256"}'
    for header in [b"", b"[]", b"null", b'"HS256"', good + b" x", b"\xef\xbb\xbf" + good]:
        yield f"header {header!r}", raw(header, claims)
    for deep in [b"[" * 3000, b'{"a":' * 1000, b"[" * 2000 + b"]" * 2000]:
        yield f"nested claims {deep[:4]!r}", raw(HS256, with_claim("more", deep.decode()))
        if deep[-1:] != b"]":
            yield f"nested header {deep[:4]!r}", raw(b'{"alg":"HS256","x":' + deep, claims)
    for body in [b"", b"{}", b"[]", b"null", b"\xff", b"x" * 3000]:
        yield f"claims {body[:8]!r}", raw(HS256, body)
    for text in ["-1", "0", "-1e300", "1e400", "-0.0", "NaN", "Infinity", "true", "[]", '"9e9"']:
        yield f"exp {text}", raw(HS256, with_claim("exp", text))
    yield "exp of 400 digits", raw(HS256, with_claim("exp", "9" * 400))
    yield "the later exp counts", raw(HS256, with_claim("exp", f'{now + 9}, "exp": 1'))
    for text in ["1e300", "1e400", "99999999999999999999", '"1"', "true", "[]"]:
        yield f"nbf {text}", raw(HS256, with_claim("nbf", text))
    names = ['""', '" alpha"', '"alpha\\u0000"', '"ALPHA"']
    for text in ["7", "null", '["alpha"]', '{"a": "alpha"}', *names]:
        yield f"tenant {text}", raw(HS256, with_claim("tenant", text))
    for text in ["[]", '["Tidegate"]', '{"tidegate": 1}', "null", '[["tidegate"]]']:
        yield f"aud {text}", raw(HS256, with_claim("aud", text))
    good = raw(HS256, claims)
    head, body, signature = good.split(".")
    yield "padding", f"{head}.{body}.{signature}="
    yield "no signature", f"{head}.{body}."
    yield "no claims", f"{head}..{signature}"
    yield "no header", f".{body}.{signature}"
    yield "a signature that was cut", good[:-1]
    yield "white space inside", f"{head}. {body}.{signature}"
    yield "five parts", f"{head}.{body}.{signature}.{body}.{signature}"
    other = token(secret, "HS256", tenant="beta").split(".")[1]
    yield "the claims of another", f"{head}.{other}.{signature}"
    yield "60 KiB", raw(HS256, {**claims, "more": "x" * 45_000})


(folder / "secret").write_text(secret + "\n")
(folder / "rsa.pem").write_bytes(pem(rsa_key))
(folder / "ec.pem").write_bytes(pem(ec_key))
keys = [web_key(RSAAlgorithm, rsa_key, "r"), web_key(ECAlgorithm, ec_key, "e")]
(folder / "jwks.json").write_text(json.dumps({"keys": keys}))
print(
    json.dumps(
        {
            "hs256": token(secret, "HS256"),
            "rs256": token(rsa_key, "RS256", "r"),
            "es256": token(ec_key, "ES256", "e"),
            "beta": token(secret, "HS256", tenant="beta"),
            "unknown_tenant": token(secret, "HS256", tenant="gamma"),
            "no_tenant": token(secret, "HS256", tenant=None),
            "expired": token(secret, "HS256", exp=now - 1),
            "no_expiry": token(secret, "HS256", exp=None),
            "early": token(secret, "HS256", nbf=now + 3600),
            "other_audience": token(secret, "HS256", aud="other"),
            "other_issuer": token(secret, "HS256", iss="other"),
            "other_secret": token(secret + "x", "HS256"),
            "other_algorithm": token(secret, "HS512"),
            "none": token(None, "none"),
            "forged": list(forged()),
            "odd": [
                ["exp with a fraction", raw(HS256, with_claim("exp", f"{now + 3600}.5"))],
                ["exp beyond 64 bits", raw(HS256, with_claim("exp", "18446744073709551616"))],
                ["nbf below zero", raw(HS256, with_claim("nbf", "-5"))],
                ["the later tenant counts", raw(HS256, with_claim("tenant", TWO_TENANTS))],
                ["nested header", raw(NESTED, claims)],
                ["kid of another key", raw({**HS256, "kid": "r"}, claims)],
            ],
        }
    )
)
