# `make test` is all that CI runs. Every target works on a machine with Rust and Debian's packages.

CARGO ?= cargo

.PHONY: help demo setup test check loop bench soak simulate study overload docs

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: ## two minutes of traffic onto three engines, without Tidegate and with it
	$(CARGO) run --release -- demo

setup: ## what the tests need besides Rust: Debian's packages, Python clients
	@tools/setup.sh

# Most tests wait for sockets and timers, so twice as many run at once as CI has cores.
test: export RUST_TEST_THREADS ?= 4
test: setup check ## format, lints, documents and every test
	$(CARGO) test --workspace --locked

# `--examples` selects no example. It gives the dependencies the features that clippy and the tests
# give them, so that `cargo doc` does not compile eleven of them again.
check: ## format, lints and documents alone
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --no-default-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --lib --bins --examples --no-deps \
		--document-private-items --locked --quiet

loop: ## the core's own tests, for working on it
	$(CARGO) test -p flow --lib

study: ## the watermark that tunes itself against the best fixed one, on recorded traffic
	$(CARGO) run --release -- simulate scenarios/auto --document docs/benchmarks.md

overload: ## the start of a flood, a standing queue, bursts, and goodput on recorded traffic
	$(CARGO) run --release -- simulate scenarios/overload --document docs/benchmarks.md

bench: ## the core against a bare structure, the gateway against a bare proxy, the picker against Envoy alone, batch work
	$(CARGO) run --release -p bench -- without-priorities
	$(CARGO) run --release -p bench -- gateway
	$(CARGO) run --release -p bench -- epp
	$(CARGO) run --release -p bench -- batch
	$(CARGO) run --release -p bench --features memory -- core
	@if command -v valgrind >/dev/null; then tools/callgrind.sh; else echo "no instruction counts: install Debian's valgrind"; fi

soak: ## an hour of mixed traffic: does the gateway's memory grow?
	$(CARGO) run --release -p bench -- soak --picture docs/pictures/soak.svg

# The pictures that the documents show, as scenario/picture.
PICTURES = policies/loads first-look/policies mixed-pool/auto flood/policies

simulate: ## every scenario; brings the tables and pictures of the documents up to date
	$(CARGO) run --release -- simulate scenarios --document docs/benchmarks.md
	$(CARGO) run --release -- simulate scenarios/batch --document docs/benchmarks.md
	@mkdir -p docs/pictures
	@for picture in $(PICTURES); do \
		cp target/simulate/$$picture.svg docs/pictures/$$(echo $$picture | tr / -).svg; done
