"""Writes tests/corpus/readers.json: bodies that programs read in different ways, and what each reads.

Run it with Go and a Python that has the packages below; `make test` needs only its result:

    python3 -m venv /tmp/readers && /tmp/readers/bin/pip install \\
        pydantic==2.14.3 pysimdjson==7.0.2 starlette==1.10.0 python-multipart==0.0.33
    /tmp/readers/bin/python tests/clients/readers/readers.py

A reader that refuses a body reads null. Bodies are written as Latin-1.
"""

import asyncio
import base64
import email
import json
import math
import pathlib
import platform
import subprocess
from importlib.metadata import version

import pydantic
import simdjson
from starlette.requests import Request

HERE = pathlib.Path(__file__).parent
OUT = HERE.parents[1] / "corpus" / "readers.json"
JSON = "application/json"
FORM = "multipart/form-data; boundary=B"
FIELDS = ("model", "stream", "max_tokens", "n")


class Chat(pydantic.BaseModel):
    """A request as vLLM and other servers in Python read it."""

    model: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    n: int | None = None
    options: dict | None = None


def fields(read):
    if not isinstance(read, dict):
        return None
    options = read.get("options")
    found = {field: read.get(field) for field in FIELDS}
    found["num_predict"] = options.get("num_predict") if isinstance(options, dict) else None
    return found


def attempt(read):
    try:
        return read()
    except Exception:
        return None


def shown(read):
    """What was read, with what JSON cannot say as text: half letters and NaN."""

    def text(value):
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

    return read and {field: text(value) for field, value in read.items()}


async def form(body, kind):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode("latin-1"))]}
    model = (await Request(scope, receive).form()).get("model")
    return {"model": model} if isinstance(model, str) else None


def mail(body, kind):
    """A form by the parser of mails, which older servers in Python use."""
    head = b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n"
    message = email.message_from_bytes(head + body)
    if message.get_content_type() != "multipart/form-data" or not message.is_multipart():
        return None
    named = lambda part: part.get_param("name", header="content-disposition")
    parts = [part.get_payload() for part in message.get_payload() if named(part) == "model"]
    return {"model": parts[-1]} if parts else None


def in_python(body, kind):
    chat = lambda: fields(Chat.model_validate(json.loads(body)).model_dump())
    return {
        f"Python {platform.python_version()} json": attempt(lambda: fields(json.loads(body))),
        f"Python {platform.python_version()} email": attempt(lambda: mail(body, kind)),
        f"pydantic {version('pydantic')}": attempt(chat),
        f"pysimdjson {version('pysimdjson')}": attempt(lambda: fields(simdjson.loads(body))),
        f"starlette {version('starlette')}": attempt(lambda: asyncio.run(form(body, kind))),
    }


def in_go(cases):
    lines = "".join(
        json.dumps({"body": base64.b64encode(body).decode(), "type": kind}) + "\n"
        for _, kind, body in cases
    )
    run = ["go", "run", str(HERE / "readers.go")]
    out = subprocess.run(run, input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def twins():
    """A key that stands twice, in each order and spelling, beside the model that is allowed."""
    spellings = {
        "model": ["model", "Model", "MODEL", "mODEL", "mod\\u0065l", "\\u004dodel", "model\\u0000"],
        "max_tokens": ["max_tokens", "Max_Tokens", "max_to\u212aens", "ma\\u0078_tokens"],
        "stream": ["stream", "Stream", "\u017ftream", "\\u017ftream"],
        "n": ["n", "N", "\\u006e"],
        "options": ["options", "Options", "option\u017f"],
    }
    values = {
        "model": ('"m"', '"secret"'),
        "max_tokens": ("5", "90000"),
        "stream": ("false", "true"),
        "n": ("1", "64"),
        "options": ('{"num_predict":5}', '{"num_predict":90000}'),
    }
    for key, names in spellings.items():
        first, second = values[key]
        rest = "" if key == "model" else '"model":"m",'
        for name in names:
            yield f"{key} and {name}", f'{{{rest}"{key}":{first},"{name}":{second}}}'
            yield f"{name} and {key}", f'{{{rest}"{name}":{second},"{key}":{first}}}'
        for name in names[1:]:
            yield f"{name} alone", f'{{{rest}"{name}":{second}}}'
    for name in ("num_predict", "Num_Predict", "num_pred\\u0069ct"):
        inner = f'{{"num_predict":5,"{name}":90000}}'
        yield f"options.num_predict and {name}", f'{{"model":"m","options":{inner}}}'


def encodings():
    plain, secret = '{"model":"m"}', '{"model":"secret"}'
    for name in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"):
        yield f"allowed in {name}", plain.encode(name)
        yield f"other in {name}", secret.encode(name)
    yield "two marks", b"\xef\xbb\xbf\xef\xbb\xbf" + plain.encode()
    yield "invalid UTF-8 in a key", b'{"model":"m","\xffmodel":"secret"}'
    yield "invalid UTF-8 in the model", b'{"model":"m\xff"}'
    yield "overlong letter", b'{"model":"m","\xc1\xadodel":"secret"}'
    yield "half a letter", b'{"model":"m\\ud800"}'
    yield "half a letter in a key", b'{"model":"m","model\\ud800":"secret"}'


def around():
    plain, secret = '{"model":"m"}', '{"model":"secret"}'
    for name, text in {
        "two objects": plain + secret,
        "two lines": plain + "\n" + secret,
        "trailing text": plain + " x",
        "trailing brace": plain + "}",
        "trailing zero": plain + "\0",
        "leading zero": "\0" + plain,
        "trailing space": plain + " \r\n\t",
        "leading space": " \r\n\t" + plain,
        "form feed": "\f" + plain,
        "comment": '{"model":"m"/*,"model":"secret"*/}',
        "line comment": '{"model":"m"}//' + secret,
        "trailing comma": '{"model":"m",}',
        "single quotes": "{'model':'m'}",
        "bare key": '{model:"m"}',
        "list": '[{"model":"m"}]',
        "NaN": '{"model":"m","max_tokens":NaN}',
        "text": '"m"',
        "cut": '{"model":"m"',
    }.items():
        yield name, text


def types():
    for value in ('"8"', '" 8 "', '"8_0"', "true", "8.0", "8e0", "8.5", "-1", "null", "[8]", "1e400",
                  "18446744073709551616"):
        yield f"n is {value}", f'{{"model":"m","n":{value}}}'
        yield f"max_tokens is {value}", f'{{"model":"m","max_tokens":{value}}}'
    for value in ('"true"', '"yes"', '"off"', "1", "0", "1.0", "null", "[true]", '""'):
        yield f"stream is {value}", f'{{"model":"m","stream":{value}}}'
    for value in ("null", "7", '["m"]', '{"a":"m"}', '""', '"m\\u0000"', '"m\\u0000secret"'):
        yield f"model is {value}", f'{{"model":{value}}}'


def part(name, value, more=""):
    return f'--B\r\nContent-Disposition: form-data; {name}{more}\r\n\r\n{value}\r\n'


def forms():
    named, secret = part('name="model"', "m"), part('name="model"', "secret")
    audio = part('name="file"; filename="a.wav"', "RIFF")
    end = "--B--\r\n"
    bodies = {
        "JSON before a form": '{"model":"secret"}\r\n' + named + end,
        "JSON behind a form": named + end + '{"model":"secret"}',
        "text before a form": "hello\r\n" + named + end,
        "line break before a form": "\r\n" + named + end,
        "form behind a form": named + end + secret + end,
        "two models": named + secret + end,
        "two models, other first": secret + named + end,
        "Model beside model": named + part('name="Model"', "secret") + end,
        "MODEL beside model": part('name="MODEL"', "secret") + named + end,
        "long s": named + part('name="\u017ftream"', "true") + end,
        "unquoted name": named + part("name=model", "secret") + end,
        "escaped name": named + part('name="m\\odel"', "secret") + end,
        "extended name": named + part("name*=utf-8''model", "secret") + end,
        "continued name": named + part('name*0="mod"; name*1="el"', "secret") + end,
        "name in brackets": named + part("name=<model>", "secret") + end,
        "name behind an escape": named + part(r'name="x"; z="\\"; y="; name="model"', "secret") + end,
        "name behind an open quote": named + part(r'name="x"; z=\"; name="model"; y="', "secret") + end,
        "name before a vertical tab": named + part('name="x"; name\x0b=model', "secret") + end,
        "name with a space": named + part('name="model "', "secret") + end,
        "name in apostrophes": named + part("name='model'", "secret") + end,
        "file named model": part('name="model"; filename="x"', "secret") + named + end,
        "model as a file": part('name="model"; filename="x"', "m") + end,
        "quoted-printable": part(
            'name="model"', "=6D", "\r\nContent-Transfer-Encoding: quoted-printable"
        ) + end,
        "quoted-printable beside model": named + part(
            'name="x"', "=6D", "\r\nContent-Transfer-Encoding: quoted-printable"
        ) + end,
        "base64": part('name="model"', "c2VjcmV0", "\r\nContent-Transfer-Encoding: base64") + end,
        "line feeds alone": (named + end).replace("\r\n", "\n"),
        "no end": named,
        "no parts": end,
        "boundary in a file": part('name="file"; filename="a"', "\r\n" + secret) + named + end,
    }
    for name, body in bodies.items():
        yield name, FORM, body
    for kind in (
        "multipart/form-data",
        "multipart/form-data; boundary=C",
        "multipart/form-data; boundary=C; boundary=B",
        "multipart/form-data; boundary=B; boundary=C",
        'multipart/form-data; boundary="B',
        'multipart/form-data; boundary="B\\""',
        "multipart/form-data; boundary=B; charset=utf-16",
        "multipart/mixed; boundary=B",
        JSON,
        "text/plain",
    ):
        yield f"form as {kind}", kind, named + end
    yield "plain: form", FORM, audio + named + end
    yield "plain: quoted boundary", 'Multipart/Form-Data; charset=utf-8; boundary="B"', named + audio + end
    plain = part('name="model"', "m", "\r\nContent-Type: text/plain; charset=UTF-8")
    yield "plain: typed field", FORM, plain + audio + end
    paths = part('name="file"; filename="a (1), b;c=ü.wav"', "RIFF")
    words = part("name=file; filename=a.wav; filename*=UTF-8''%C3%BC.wav", "RIFF")
    yield "plain: names of files", FORM, paths + words + named + end
    for kind in (FORM, "text/plain", "application/x-www-form-urlencoded", "application/octet-stream", ""):
        yield f"other model as {kind or 'no type'}", kind, '{"model":"secret"}'
    both = '{"x":"&model=secret&y=","model":"m"}'
    yield "JSON and a form of text", "application/x-www-form-urlencoded", both


def plain():
    yield "chat", '{"model":"m","messages":[{"role":"user","content":"Model N"}],"n":2,"stream":false}'
    yield "Ollama", '{"model":"m","stream":true,"options":{"num_predict":-1,"temperature":0.5}}'
    yield "escaped", '{"mod\\u0065l":"\\u006d","max_tokens":100,"Temperature":1}'
    yield "nested", '{"model":"m","metadata":{"Model":"x","model":"y"},"tools":[{"model":1,"model":2}]}'
    yield "nulls", '{"model":"m","n":null,"stream":null,"max_tokens":null,"options":null}'


def cases():
    for name, body in [*twins(), *around(), *types()]:
        yield name, JSON, body.encode()
    for name, body in encodings():
        yield name, JSON, body
    for name, body in plain():
        yield f"plain: {name}", JSON, body.encode()
    for name, kind, body in forms():
        yield name, kind, body.encode()


def main():
    every = list(cases())
    table = []
    for (name, kind, body), go in zip(every, in_go(every), strict=True):
        readers = {name: shown(read) for name, read in {**go, **in_python(body, kind)}.items()}
        table.append({"name": name, "type": kind, "body": body.decode("latin-1"), "readers": readers})
    lines = ",\n".join(json.dumps(case, allow_nan=False) for case in table)
    OUT.write_text(f"[\n{lines}\n]\n")
    print(f"{len(table)} bodies in {OUT}")


main()
