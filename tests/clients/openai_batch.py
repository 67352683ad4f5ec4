"""OpenAI's own client against the Batch API: files and batches, as its users write it.

Arguments: the gateway, and the steps to take. The client checks every answer against its types.
"""

import json
import sys
import time

import openai

client = openai.OpenAI(
    base_url=sys.argv[1] + "/v1",
    api_key="none",
    max_retries=0,
    _strict_response_validation=True,
)
ENDPOINT = "/v1/chat/completions"
DEADLINE = time.monotonic() + 60


def line(name, **body):
    asked = {"model": "m", "messages": [{"role": "user", "content": name}], **body}
    return json.dumps({"custom_id": name, "method": "POST", "url": ENDPOINT, "body": asked}) + "\n"


def upload(*lines, name="requests.jsonl"):
    return client.files.create(file=(name, "".join(lines).encode()), purpose="batch")


def create(file, **more):
    wanted = {"endpoint": ENDPOINT, "completion_window": "24h", **more}
    return client.batches.create(input_file_id=file.id, **wanted)


def until(batch, *statuses):
    while batch.status not in statuses:
        assert time.monotonic() < DEADLINE, batch
        batch = client.batches.retrieve(batch.id)
    return batch


def refused(kind, code, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"{code} was expected")


def files():
    content = line("one") + line("two")
    file = client.files.create(
        file=("../näme.jsonl", content.encode()),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert file.object == "file" and file.bytes == len(content), file
    assert file.filename == "../näme.jsonl" and file.purpose == "batch", file
    assert file.expires_at == file.created_at + 3600, file
    assert client.files.retrieve(file.id) == file
    assert client.files.content(file.id).text == content
    assert client.files.delete(file.id).deleted
    refused(openai.NotFoundError, "file_not_found", client.files.retrieve, file.id)
    refused(openai.NotFoundError, "file_not_found", client.files.content, file.id)
    refused(openai.NotFoundError, "file_not_found", client.files.delete, file.id)


def pages():
    made = [upload(line("x")).id for _ in range(5)]
    assert [file.id for file in client.files.list(limit=2)] == made[::-1]
    assert [file.id for file in client.files.list(limit=2, order="asc")] == made
    assert list(client.files.list(purpose="batch_output")) == []
    first = client.files.list(limit=4)
    assert first.has_more and not first.get_next_page().has_more
    for id in made:
        client.files.delete(id)


def batches():
    file = upload(line("one"), line("two"))
    batch = create(file, metadata={"project": "tides"})
    assert batch.object == "batch" and batch.status == "validating", batch
    assert batch.metadata == {"project": "tides"}, batch
    assert batch.expires_at == batch.created_at + 24 * 3600, batch
    batch = until(batch, "in_progress")
    assert batch.request_counts.total == 2 and batch.model == "m", batch
    refused(openai.ConflictError, "file_in_use", client.files.delete, file.id)
    other = create(file, completion_window="90m")
    assert [found.id for found in client.batches.list(limit=1)] == [other.id, batch.id]
    for id in (batch.id, other.id):
        assert client.batches.cancel(id).status in ("cancelling", "cancelled")
        cancelled = until(client.batches.retrieve(id), "cancelled")
        assert cancelled.cancelled_at and cancelled.output_file_id is None, cancelled
    errors = client.files.content(client.batches.retrieve(batch.id).error_file_id).text
    errors = [json.loads(row) for row in errors.splitlines()]
    assert [row["custom_id"] for row in errors] == ["one", "two"], errors
    assert {row["error"]["code"] for row in errors} == {"batch_cancelled"}, errors


def flaws():
    twice = line("one")
    batch = until(create(upload(twice, "nonsense\n", twice)), "failed")
    told = [(error.code, error.line, error.param) for error in batch.errors.data]
    wanted = [("invalid_json_line", 2, None), ("duplicate_custom_id", 3, "custom_id")]
    assert told == wanted and batch.failed_at, batch
    refused(openai.ConflictError, "batch_ended", client.batches.cancel, batch.id)


def errors():
    bad, wrong = openai.BadRequestError, "invalid_request"
    nothing = client.batches.retrieve
    refused(openai.NotFoundError, "batch_not_found", nothing, "batch_0")
    other = refused(bad, wrong, client.files.create, file=b"{}", purpose="fine-tune")
    assert other.param == "purpose", other
    file = upload(line("one"))
    window = refused(bad, wrong, create, file, completion_window="1ms")
    assert window.param == "completion_window", window
    place = refused(bad, wrong, create, file, endpoint="/v1/models/../files")
    assert place.param == "endpoint", place
    client.files.delete(file.id)
    gone = refused(bad, wrong, create, file)
    assert gone.param == "input_file_id", gone


def large():
    """The file is larger than the gateway allows: the client hears so, not that it broke off."""
    content = b"x" * (4 << 20)
    too_large = refused(
        openai.APIStatusError, "file_too_large", client.files.create, file=content, purpose="batch"
    )
    assert too_large.status_code == 413, too_large


def disabled():
    off = refused(openai.NotFoundError, "batch_disabled", client.files.list)
    assert "batch.folder" in off.message, off


def complete():
    """Needs a model server that answers."""
    batch = create(upload(line("one"), line("two"), line("three")))
    batch = until(batch, "completed")
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (3, 3, 0), batch
    rows = client.files.content(batch.output_file_id).text.splitlines()
    rows = [json.loads(row) for row in rows]
    assert [row["custom_id"] for row in rows] == ["one", "two", "three"], rows
    for row in rows:
        answer = row["response"]
        assert answer["status_code"] == 200 and row["error"] is None, row
        assert answer["body"]["choices"][0]["message"]["content"], row
    assert batch.error_file_id is None and batch.completed_at, batch


for name in sys.argv[2:]:
    globals()[name]()
    print(name)
