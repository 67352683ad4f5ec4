"""OpenAI's own client against the gateway: whatever it checks of an answer must pass."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
hello = [{"role": "user", "content": "hello"}]
weather = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def models():
    assert "m" in [model.id for model in client.models.list()]


def chat():
    raw = client.chat.completions.with_raw_response.create(
        model="m", messages=hello, extra_headers={"X-Priority": "high"}
    )
    assert raw.headers["x-backend-used"] == "one", raw.headers
    answer = raw.parse()
    assert answer.choices[0].message.content == "hello"
    assert answer.usage.total_tokens == 6


def streaming():
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model="m", messages=hello, stream=True, stream_options=options
    )
    pieces = list(stream)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == "the tide turns", text
    assert pieces[-1].usage.completion_tokens == 3


def tools():
    answer = client.chat.completions.create(model="m", messages=hello, tools=[weather])
    call = answer.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name) == ("call_1", "weather")
    history = hello + [
        answer.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "calm"},
    ]
    again = client.chat.completions.create(model="m", messages=history, stop="!")
    assert again.choices[0].message.content == "hello"


def embeddings():
    answer = client.embeddings.create(model="m", input=["low", "high"], encoding_format="float")
    assert answer.data[1].embedding == [0.5, 1.0]


def responses():
    assert client.responses.create(model="m", input="hello").output_text == "hello"


def completions():
    assert client.completions.create(model="m", prompt="hello").choices[0].text == "hello"


def errors():
    try:
        client.chat.completions.create(model="nobody-has-it", messages=hello)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
        return
    raise AssertionError("an unknown model was found")


for step in (models, chat, streaming, tools, embeddings, responses, completions, errors):
    step()
    print(step.__name__)
