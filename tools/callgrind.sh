#!/usr/bin/env bash
# Instructions per cycle of the core and of the floor, and of the core as the default configuration
# has it, counted by valgrind: the same on a busy machine as on an idle one, so fit for comparing two
# versions of the code.
#
# usage: tools/callgrind.sh [CYCLES]
# Each cell runs twice, with CYCLES and with twice as many cycles of the same preparation; the
# difference is the cycles alone. Prints a Markdown table. BENCH names another binary.
set -euo pipefail
cd "$(dirname "$0")/.."

cycles=${1:-20000}
cells=("1000 10" "100000 10" "100000 10000")

if ! command -v valgrind >/dev/null; then
    echo "tools/callgrind.sh needs valgrind; on Debian: apt-get install valgrind" >&2
    exit 1
fi
if [[ ! $cycles =~ ^[1-9][0-9]*$ ]]; then
    echo "tools/callgrind.sh: '$cycles' is no number of cycles; try: tools/callgrind.sh 20000" >&2
    exit 2
fi
binary=${BENCH:-}
if [[ -z $binary ]]; then
    cargo build --release --quiet -p bench
    binary=${CARGO_TARGET_DIR:-target}/release/tidegate-bench
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Instructions of one whole run: SUBJECT QUEUED FLOWS CYCLES PROMPTS.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file="$scratch/out" "$binary" cycles \
        --subject "$1" --queued "$2" --flows "$3" --cycles "$4" --prepared $((2 * cycles)) \
        --prompts "$5" \
        2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
    awk '/^totals:/ { print $2 }' "$scratch/out"
}

per_cycle() {
    local once twice
    once=$(instructions "$1" "$2" "$3" "$cycles" "${4:-none}")
    twice=$(instructions "$1" "$2" "$3" $((2 * cycles)) "${4:-none}")
    echo $(((twice - once) / cycles))
}

echo "| instructions per cycle | core | floor | ratio |"
echo "|---|---:|---:|---:|"
for cell in "${cells[@]}"; do
    read -r queued flows <<<"$cell"
    core=$(per_cycle core "$queued" "$flows")
    floor=$(per_cycle floor "$queued" "$flows")
    ratio=$(awk "BEGIN { printf \"%.2f\", $core / $floor }")
    echo "| fifo, $queued waiting in $flows flows | $core | $floor | $ratio |"
done

echo
echo "| instructions per cycle, default configuration | no prompts | shared | different |"
echo "|---|---:|---:|---:|"
for queued in 60 1000; do
    row=()
    for prompts in none shared different; do
        row+=("$(per_cycle served "$queued" 10 "$prompts")")
    done
    echo "| $queued waiting in 10 flows | ${row[0]} | ${row[1]} | ${row[2]} |"
done
