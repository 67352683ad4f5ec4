#!/usr/bin/env bash
# Builds the release program twice, in two folders and from two copies of the sources, and compares
# the bytes. Takes the time of two release builds. Paths of the machine are replaced in both.
# PROFILE=dev compares two debug builds instead, which takes less time.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-release}
folder=${profile/#dev/debug}
work=target/reproducible
rm -rf "$work"
# The compiler of C writes this date in place of the present one, for example into mimalloc.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
for number in 1 2; do
	copy="$PWD/$work/$number/sources"
	mkdir -p "$copy"
	git archive HEAD | tar -x -C "$copy"
	remap="--remap-path-prefix=$copy=/tidegate"
	# Build scripts write sources into the target folder.
	remap="$remap --remap-path-prefix=$PWD/$work/$number/target=/target"
	remap="$remap --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
	(cd "$copy" && CARGO_INCREMENTAL=0 RUSTFLAGS="$remap" \
		"${CARGO:-cargo}" build --quiet --profile "$profile" --locked --bin tidegate \
		--target-dir "../target")
done
sha256sum "$work"/[12]/target/"$folder"/tidegate
cmp "$work"/[12]/target/"$folder"/tidegate
echo "both builds are the same"
