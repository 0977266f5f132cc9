# Everything a day's work needs, each a short recipe. `make up` and `make test` work on a fresh Debian 12 with Rust and gcc.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
BIN := $(CARGO_TARGET_DIR)/debug
TOOLS := $(CARGO_TARGET_DIR)/tools
# Debian keeps runc, iptables and ldconfig in sbin, which not every shell has. The machine's own clients go before PyPI's.
export PATH := $(BIN):$(PATH):/usr/sbin:/sbin:$(TOOLS)/bin
export PYTHONPATH := $(TOOLS)

.PHONY: up down build images test test-real-etcd simulate soak bench bench-api bench-store verify fix clean packages tools

up: build ## Start a cluster and wait until its nodes are Ready: in containers, or without Docker as processes. FORM=processes asks for those.
	@deploy/cluster up $(FORM)

down: ## Stop it; its data stay.
	@deploy/cluster down

images: build ## Make the images that docker-compose.yml names, where there is Docker.
	@deploy/cluster images

build: packages
	cargo build --workspace

test: images tools ## Prove everything.
	tests/prove
	@$(MAKE) --no-print-directory verify

test-real-etcd: build tools ## What is not about the store, once more over a real etcd.
	TESTS_STORE=etcd cargo test -p tests $(foreach suite,golden kubectl client_library custom_resources garbage eviction protobuf,--test $(suite))

simulate: ## Thousands of simulated clusters, each with faults of its own: SEEDS=5000, FIRST=1. See crates/store/tests/README.md.
	SIMULATION_SEEDS=$(or $(SEEDS),3000) SIMULATION_FIRST=$(or $(FIRST),1000) cargo test -p store --lib simulation::runs -- --nocapture

soak: ## The same with seeds nobody has seen yet, until stopped.
	SIMULATION_SEEDS=forever SIMULATION_FIRST=$$(date +%s%N) cargo test -p store --lib simulation::runs::three -- --nocapture

bench: build tools ## Time to ready and memory; see tests/bench/README.md.
	tests/bench/start

bench-api: build ## The API server under load: ours, or any by ARGS="--kubeconfig F"; ARGS="--help" names the choices.
	bench-api $(ARGS)

bench-store: build tools ## The store against a real etcd under the same load; ARGS="--help" names the choices.
	bench-store $(ARGS)

verify: ## Check without writing: format, lints, architecture.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --test architecture

fix: ## Repair what can be repaired.
	cargo fmt --all
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

clean: ## Remove all that was built and made: cluster, data, images, target.
	-@deploy/cluster clean
	cargo clean

packages: # What the build and the containerd runtime need from Debian.
	@deploy/packages

tools: # The real clients that tests use, from PyPI.
	@tests/tools $(TOOLS)
