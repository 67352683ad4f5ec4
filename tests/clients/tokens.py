"""Makes the keys of an issuer in a folder, and prints tokens that PyJWT signs with them, as JSON."""

import json
import pathlib
import sys
import time

import jwt
from cryptography.hazmat.primitives import serialization
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
        }
    )
)
