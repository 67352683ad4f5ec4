#!/usr/bin/env bash
# Builds the documents as a site with a search field, into target/site.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.tools/site
if ! cmp -s tools/site-requirements.txt "$python/requirements.txt"; then
	rm -rf "$python"
	python3 -m venv "$python"
	"$python/bin/pip" install --quiet --disable-pip-version-check --no-deps -r tools/site-requirements.txt
	cp tools/site-requirements.txt "$python/requirements.txt"
fi

# README is the first page. Links to files outside docs have no page, so only their text stays.
source=target/site-source
rm -rf "$source"
mkdir -p target
cp -r docs "$source"
sed -E 's#\]\(docs/#](#g' README.md >"$source/index.md"
find "$source" -name '*.md' -exec sed -i -E \
	-e 's#\]\((\.\./)+README\.md#](index.md#g' \
	-e 's#\[([^]]*)\]\(((\.\./)+(examples|deploy|scenarios|crates|tests|tools|src)|scenarios|deploy|CONTRIBUTING|\.\./CONTRIBUTING)[^)]*\)#\1#g' {} +
"$python/bin/mkdocs" build --quiet --strict
echo "open target/site/index.html"
