# `make test` is all that CI runs. Every target works on a machine with Rust and Debian's packages.

CARGO ?= cargo

.PHONY: help demo setup test build-tests check budgets loop bench soak simulate study overload goals caches autoscaling site \
	chaos fuzz kills audit chart cluster packages sbom reproducible

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: ## two minutes of traffic onto three engines, without Tidegate and with it
	$(CARGO) run --release -- demo

setup: ## what the tests need besides Rust: Debian's packages, Python clients, a fake of Pub/Sub
	@tools/setup.sh

# Most tests wait for sockets and timers, so twice as many run at once as CI has cores, and the lints
# take what the tests leave of the cores. The setup waits for the network while the tests are built.
test: export RUST_TEST_THREADS ?= 4
test: ## format, lints, documents and every test
	$(CARGO) fmt --all --check
	@$(MAKE) --no-print-directory -j2 setup build-tests
	@log=target/check.log; nice -n 19 $(MAKE) --no-print-directory check budgets >$$log 2>&1 & check=$$!; \
		$(CARGO) test --workspace --locked; tests=$$?; \
		wait $$check || { cat target/check.log; echo "make check budgets failed: see above"; exit 1; }; \
		exit $$tests

build-tests:
	$(CARGO) test --workspace --locked --no-run --quiet

# `--examples` selects no example. It gives the dependencies the features that clippy and the tests
# give them, so that `cargo doc` does not compile eleven of them again.
check: ## format, lints and documents alone
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --no-default-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --lib --bins --examples --no-deps \
		--document-private-items --locked --quiet

# Counts are the same on a busy machine, so this runs beside the tests.
budgets: ## instructions of requests and of the core; an error if one exceeds its budget (WRITE=1)
	$(CARGO) build --profile counted --locked --no-default-features -p tidegate -p bench
	$${CARGO_TARGET_DIR:-target}/counted/tidegate-bench instructions --budgets crates/bench/budgets.toml \
		$(if $(WRITE),--write)

loop: ## the core's own tests, for working on it
	$(CARGO) test -p flow --lib

study: ## the watermark that tunes itself against the best fixed one, on recorded traffic
	$(CARGO) run --release -- simulate scenarios/auto --document docs/benchmarks.md

overload: ## the start of a flood, a standing queue, bursts, and goodput on recorded traffic; lists missed goals
	$(CARGO) run --release -- simulate scenarios/overload --document docs/benchmarks.md

caches: ## prefix caches: the routers of the field and ours, on prompts that begin alike
	$(CARGO) run --release -- simulate scenarios/cache --document docs/benchmarks.md

autoscaling: ## engines that come and go by the queue and by utilisation, on drawn and recorded traffic
	$(CARGO) run --release -- simulate scenarios/autoscale --document docs/AUTOSCALING.md

goals: ## the same without the document, and a missed goal is an error
	$(CARGO) run --release -- simulate scenarios/overload --goals

bench: ## the core against a bare structure, the gateway against a bare proxy, the picker against Envoy alone, batch work
	$(CARGO) run --release -p bench -- without-priorities
	$(CARGO) run --release -p bench -- gateway
	$(CARGO) run --release -p bench -- epp
	$(CARGO) run --release -p bench -- batch
	$(CARGO) run --release -p bench --features memory -- core
	$(CARGO) run --release -p bench -- instructions

site: ## the documents as a site with a search field, in target/site
	@tools/site.sh

soak: ## an hour of mixed traffic: does the gateway's memory grow?
	$(CARGO) run --release -p bench -- soak --picture docs/pictures/soak.svg

# The tests of each are part of `make test`, where they run for seconds. A debug build is enough.
CHAOS_SECONDS ?= 600
FUZZ_SECONDS ?= 60
KILLS ?= 5000

chaos: ## ten minutes of killed, paused and slow engines and faulty clients, then the ledger (CHAOS_SECONDS)
	CHAOS_SECONDS=$(CHAOS_SECONDS) $(CARGO) test --workspace --test main -- --nocapture chaos::

fuzz: ## a minute of mutated inputs for each parser, and for the gateway as a process (FUZZ_SECONDS)
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --workspace -- --nocapture _fuzz_

kills: ## kill -9 of the dispatcher and of the gateway in a loop, 5000 times each (KILLS)
	KILLS=$(KILLS) $(CARGO) test --workspace --test main -- --nocapture kills::

audit: ## licences, sources and duplicates of the dependencies; advisories if cargo-deny is installed
	$(CARGO) test --workspace --test main -- house::supply_chain
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; \
		else echo "no check of advisories: cargo install --locked cargo-deny"; fi

sbom: ## the bill of materials of the program (CycloneDX) as target/tidegate.cdx.json
	@mkdir -p target
	@tools/sbom.py >target/tidegate.cdx.json && echo target/tidegate.cdx.json

chart: ## the manifests of deploy/kubernetes from the Helm chart
	@tools/chart.sh

cluster: ## the tests of Kubernetes with a real kube-apiserver and etcd, built at the first run
	@tools/cluster.sh

packages: ## a static program as tarball, Debian package and image, in target/packages (TARGET, PROFILE)
	@tools/packages.sh

reproducible: ## build the release program twice and compare the bytes
	@tools/reproducible.sh

# The pictures that the documents show, as scenario/picture.
PICTURES = policies/loads first-look/policies mixed-pool/auto flood/policies

simulate: ## every scenario; brings the tables and pictures of the documents up to date
	$(CARGO) run --release -- simulate scenarios --document docs/benchmarks.md
	$(CARGO) run --release -- simulate scenarios/batch --document docs/benchmarks.md
	@mkdir -p docs/pictures
	@for picture in $(PICTURES); do \
		cp target/simulate/$$picture.svg docs/pictures/$$(echo $$picture | tr / -).svg; done
