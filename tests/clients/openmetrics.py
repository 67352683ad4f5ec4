"""Reads a page of metrics as OpenMetrics, strictly, and prints each exemplar as one line of JSON."""

import json
import sys
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

request = urllib.request.Request(
    sys.argv[1], headers={"Accept": "application/openmetrics-text;version=1.0.0;q=0.9,*/*;q=0.1"}
)
with urllib.request.urlopen(request) as response:
    media_type = response.headers["content-type"]
    assert media_type.startswith("application/openmetrics-text"), media_type
    text = response.read().decode()
for family in text_string_to_metric_families(text):
    for sample in family.samples:
        if sample.exemplar:
            trace = sample.exemplar.labels["trace_id"]
            print(json.dumps({"name": sample.name, "trace": trace, "le": sample.labels["le"]}))
