// The JavaScript example of the documents: a critical request whose answer streams.
const url = process.argv[2];

async function criticalRequest(prompt) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-Priority": "critical",
      "X-Max-Latency-Ms": "100",
    },
    body: JSON.stringify({
      model: "qwen2.5:0.5b",
      messages: [{ role: "user", content: prompt }],
      stream: true,
    }),
  });
  console.error(response.status, response.headers.get("x-priority-boost"));
  const reader = response.body.getReader();
  while (true) {
    const { done, value } = await reader.read();
    if (done) break;
    process.stdout.write(new TextDecoder().decode(value));
  }
}

await criticalRequest("Voice input");
