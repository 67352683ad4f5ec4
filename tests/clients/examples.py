"""The Python examples of the documents: a voice request that streams, and a batch request."""

import sys
import uuid

import requests

URL = sys.argv[1] + "/v1/chat/completions"


def send_voice_request(text):
    request_id = f"voice-{uuid.uuid4()}"
    response = requests.post(
        URL,
        headers={
            "X-Priority": "critical",
            "X-Max-Latency-Ms": "50",
            "X-Request-ID": request_id,
        },
        json={
            "model": "qwen2.5:0.5b",
            "messages": [{"role": "user", "content": text}],
            "stream": True,
        },
        stream=True,
    )
    assert response.status_code == 200, response.text
    assert response.headers["X-Request-ID"] == request_id
    assert response.headers["X-Priority-Boost"] == "500"
    for line in response.iter_lines():
        if line:
            print(f"Token: {line.decode('utf-8')}")


def send_batch_request(document):
    response = requests.post(
        URL,
        headers={"X-Priority": "best-effort"},
        json={
            "model": "qwen2.5:0.5b",
            "messages": [{"role": "user", "content": f"Summarize: {document}"}],
        },
    )
    assert response.status_code == 200, response.text
    return response.json()


send_voice_request("Voice input")
print(send_batch_request("a long story")["choices"][0]["message"]["content"])
