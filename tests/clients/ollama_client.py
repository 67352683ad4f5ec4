"""Ollama's own client against the gateway."""

import sys

import ollama

client = ollama.Client(host=sys.argv[1])
hello = [{"role": "user", "content": "hello"}]


def chat():
    assert client.chat(model="m", messages=hello).message.content == "hello"


def streaming():
    pieces = [piece.message.content for piece in client.chat("m", messages=hello, stream=True)]
    assert pieces == ["the ", "tide", ""], pieces


def generate():
    assert client.generate(model="m", prompt="hello").response == "hello"


def embed():
    assert list(client.embed(model="m", input="hello").embeddings[0]) == [0.5, 1.0]


def tags():
    assert [model.model for model in client.list().models] == ["m"]


def errors():
    try:
        client.chat(model="nobody-has-it", messages=hello)
    except ollama.ResponseError as error:
        assert error.status_code == 404, error
        return
    raise AssertionError("an unknown model was found")


for step in (chat, streaming, generate, embed, tags, errors):
    step()
    print(step.__name__)
