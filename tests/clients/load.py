"""A load test with LLMeter, as its users write one: many clients, streamed chats."""

import asyncio
import json
import sys

from llmeter.endpoints import OpenAICompletionStreamEndpoint
from llmeter.runner import Runner

url, model, clients, requests = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
endpoint = OpenAICompletionStreamEndpoint(
    model_id=model, base_url=url + "/v1", api_key="none", max_retries=0
)
payload = {
    "messages": [{"role": "user", "content": "how high is the water"}],
    "max_tokens": 16,
    "stream": True,
    "stream_options": {"include_usage": True},
}
runner = Runner(endpoint, clients=clients, n_requests=requests, payload=payload)
result = asyncio.run(runner.run())
failed = [answer.error for answer in result.responses if answer.error]
first = [answer.time_to_first_token for answer in result.responses]
print(json.dumps({"answers": len(result.responses), "failed": failed, "first": first}))
