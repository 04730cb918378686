# CausalStore. `make` lists the targets. They need Go and make only.

GO     ?= go
DOCKER ?= docker
BIN    := bin/causalstore
IMAGE  ?= causalstore:dev

# Flags for the programs that targets run, such as make demo DEMOFLAGS=--speed=slow, make sim SIMFLAGS='--seeds 5000 --from 7'.
DEMOFLAGS  ?=
SIMFLAGS   ?= --seeds 2000
BENCHFLAGS ?= --quick
# The whole evaluation with its report: make bench PAPERFLAGS='--report docs/benchmarks --json docs/benchmarks/paper.json'
PAPERFLAGS ?= $(BENCHFLAGS)
TESTFLAGS  ?=
TESTLIMIT  ?= 20m
PACKAGES   ?= ./...

# Without cgo the tests use what was compiled for the binary. The race detector needs cgo and with it a C compiler; Go says whether it
# has found one.
export CGO_ENABLED = 0
RACE = $(if $(filter 1,$(shell CGO_ENABLED= $(GO) env CGO_ENABLED)),CGO_ENABLED=1 $(GO) test -race,$(GO) test)
# Packages tested without the race detector, which takes five times as long: they run one goroutine, or drive and measure what other
# packages test with it, or are about Kubernetes, whose libraries would have to be compiled once more.
PLAIN = ^github.com/causalstore/causalstore$$|/console/browser$$|/lab/(bench|chart|cost|demo|planner|sim|sim/groups)$$|causalstore/(history|api|charts|controllers|docs|e2e|edge|sidecar/causal)(/|$$)
# Packages tested in both ways: with the race detector, their tests play few of the seeds.
BOTH = /sidecar/wal$$|/sidecar/storage/embedded$$
# Packages that take longest, mostly waiting. They are tested first, so that no other processor waits for them in the end: go test takes
# packages in the order in which they are named.
LONGEST = /e2e/processes$$|/controllers/causalstore$$|/lab/local$$|/charts$$|/console/browser$$|/lab/bench$$|/sidecar/node$$
# $(call packages,FILTER) lists the packages that a filter keeps, those first.
packages = $$($(GO) list $(BUILDVCS) $(PACKAGES) | $(1) | awk '/$(subst /,\/,$(LONGEST))/ { print; next } { rest = rest "\n" $$0 } END { print rest }')
# Each run links every test binary; without the tables for debuggers that takes two thirds of the time.
LINK = -ldflags=-w
# Linters and their versions are in a module of their own.
GOLANGCI = $(GO) tool -modfile=e2e/tools/go.mod golangci-lint

# The gofmt of the same Go
GOFMT    = $(shell $(GO) env GOROOT)/bin/gofmt
# Without a git checkout that git can read, Go must not look for a revision.
BUILDVCS = $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false)
# The version has one place; the revision is that of the checkout.
VERSION  = $(shell cat version/VERSION)
REVISION = $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || echo unknown)
.DEFAULT_GOAL := help
.PHONY: help build test test-plain test-race lint fmt generate verify-generated kubernetes cert-manager chaos-mesh cluster-up cluster-down e2e e2e-bed e2e-regions e2e-drills e2e-drains e2e-one-redis demo sim bench image clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## Build bin/causalstore, a static binary
	$(GO) build $(BUILDVCS) -trimpath -ldflags='-X github.com/causalstore/causalstore/version.revision=$(REVISION)' -o $(BIN) .

test: lint test-plain test-race ## Run linters and all tests, with the race detector where there is a C compiler

test-plain: # Tests without the race detector. lint has vetted them.
	$(GO) test $(BUILDVCS) $(LINK) -vet=off -timeout $(TESTLIMIT) $(TESTFLAGS) $(call packages,grep -E '$(PLAIN)|$(BOTH)')

test-race: # Tests with the race detector
	$(RACE) $(BUILDVCS) $(LINK) -vet=off -timeout $(TESTLIMIT) $(TESTFLAGS) $(call packages,grep -Ev '$(PLAIN)')

lint: ## Check formatting and run the linters of .golangci.yml
	@unformatted=$$($(GOFMT) -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted; run make fmt:"; echo "$$unformatted"; exit 1; fi
	nice -n 19 $(GOLANGCI) run ./... # tests beside it, which wait for processes, come first

fmt: ## Format the code
	$(GOFMT) -w .

generate: ## Generate code, manifests and reference documentation
	$(GO) generate ./...

verify-generated: ## Check that generated files are current, in a copy of this checkout
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && tar --exclude=./.git --exclude=./bin -cf - . | tar -xf - -C "$$copy" && \
	(cd "$$copy" && $(GO) generate ./...) && diff -r --exclude=.git --exclude=bin . "$$copy" || \
		{ echo "generated files are not current: run make generate and commit what it changes"; exit 1; }

kubernetes: ## Find a real Kubernetes for tests and the test bed, or build it from its Go modules (about 30 CPU-minutes, once)
	@$(GO) run $(BUILDVCS) ./e2e/cluster build

cert-manager: ## Build cert-manager from its Go module, for the tests of the operator with it (about 10 CPU-minutes, once)
	@$(GO) run $(BUILDVCS) ./e2e/cluster build-cert-manager

chaos-mesh: ## Build Chaos Mesh from its Go module, for drills on the test bed (about 15 CPU-minutes, once)
	@$(GO) run $(BUILDVCS) ./e2e/cluster build-chaos-mesh

cluster-up: ## Start a real Kubernetes of six nodes on this machine (Linux, root)
	@$(GO) run $(BUILDVCS) ./e2e/cluster up

cluster-down: ## Stop that Kubernetes and remove all of it
	@$(GO) run $(BUILDVCS) ./e2e/cluster down

e2e: ## Follow a store through its life on the cluster of KUBECONFIG, or on one made for it (Linux, root)
	$(GO) test $(BUILDVCS) -tags e2e -vet=off -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/store

e2e-bed: ## Test the cluster of cluster-up itself: cuts, NetworkPolicies, clusters joined by a WAN (Linux, root)
	$(GO) test $(BUILDVCS) -tags e2e -vet=off -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/cluster

e2e-regions: ## Follow a store of two regions (three: CAUSALSTORE_E2E_CLUSTERS=3), on clusters that a WAN joins (Linux, root)
	$(GO) test $(BUILDVCS) -tags e2e -vet=off -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/regions

e2e-drills: ## Take zones of a store away with Chaos Mesh, on the cluster of KUBECONFIG, or on one made for it (Linux, root)
	$(GO) test $(BUILDVCS) -tags e2e -vet=off -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/drills

e2e-one-redis: ## Kill and pause parts of processes with mutual TLS for some minutes, whose data centers must each be as one Redis
	CAUSALSTORE_ROUNDS=40 $(GO) test $(BUILDVCS) -vet=off -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/processes \
		-run TestTheSidecarsOfADataCenterAreOneRedisWhileItsProcessesAreKilled

e2e-drains: ## Drain node after node below a store in use, on the cluster of KUBECONFIG, or on one made for it (Linux, root)
	$(GO) test $(BUILDVCS) -tags e2e -vet=off -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/drains

demo: build ## Take a guided tour: eight regions in three rings on this machine
	@$(BIN) demo $(DEMOFLAGS)

sim: build ## Simulate 2,000 deployments full of faults and check every history
	@$(BIN) sim $(SIMFLAGS)

bench: build ## Benchmark on this machine: overhead, memory, and the comparison with Karma and others
	@if command -v redis-server >/dev/null; then $(BIN) bench overhead $(BENCHFLAGS); \
		else echo "redis-server is not installed: skipping the comparison with it; apt-get install redis-server"; fi
	@$(BIN) bench memory $(BENCHFLAGS)
	@$(BIN) bench paper $(PAPERFLAGS)

image: ## Build the container image IMAGE; without DOCKER or its daemon, as an archive in bin
	@if $(DOCKER) info >/dev/null 2>&1; then \
		$(DOCKER) build -t $(IMAGE) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) .; \
	else \
		mkdir -p bin && $(GO) run $(BUILDVCS) ./e2e/cluster image-causalstore bin/causalstore.tar $(IMAGE) && \
		echo "$(DOCKER) is not installed or reaches no daemon: wrote $(IMAGE) to bin/causalstore.tar, for docker load, kind load image-archive, minikube image load or ctr images import"; \
	fi

clean: ## Remove build output
	rm -rf bin
