# CausalStore. `make` alone says what there is; Go and make are all that is needed.

GO     ?= go
DOCKER ?= docker
BIN    := bin/causalstore
IMAGE  ?= causalstore:dev

# Flags for what the targets run, e.g. make demo DEMOFLAGS=--speed=slow, make sim SIMFLAGS='--seeds 5000 --from 7'.
DEMOFLAGS  ?=
SIMFLAGS   ?= --seeds 2000
BENCHFLAGS ?= --quick
# e.g. make bench PAPERFLAGS='--report docs/benchmarks --json docs/benchmarks/paper.json' for the whole evaluation with its report
PAPERFLAGS ?= $(BENCHFLAGS)
TESTFLAGS  ?=
TESTLIMIT  ?= 15m

# The gofmt that belongs to that Go.
GOFMT    = $(shell $(GO) env GOROOT)/bin/gofmt
# Outside of a git checkout that git will read, Go is not to look for a revision.
BUILDVCS = $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false)
# The race detector needs a C compiler; Go says whether it has found one.
RACE     = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
# A simulated deployment is one goroutine: there the detector finds nothing and takes five times as long. What is about
# Kubernetes would have to compile all of its libraries once more.
RACELESS = /sidecar/sim$$|/(api|charts|controllers|e2e)/|/charts$$

.DEFAULT_GOAL := help
.PHONY: help build test lint fmt generate kubernetes cluster-up cluster-down e2e demo sim bench image clean

help: ## Show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## Build bin/causalstore, a static binary
	CGO_ENABLED=0 $(GO) build $(BUILDVCS) -trimpath -o $(BIN) .

test: lint ## Vet, check formatting and run all tests, with the race detector where there is a C compiler
	@status=0; \
	$(GO) test $(BUILDVCS) $(RACE) -timeout $(TESTLIMIT) $(TESTFLAGS) $$($(GO) list $(BUILDVCS) ./... | grep -Ev '$(RACELESS)') || status=1; \
	$(GO) test $(BUILDVCS) -timeout $(TESTLIMIT) $(TESTFLAGS) $$($(GO) list $(BUILDVCS) ./... | grep -E '$(RACELESS)') || status=1; \
	exit $$status

lint: ## Vet and check formatting
	$(GO) vet $(BUILDVCS) -tags e2e ./...
	@unformatted=$$($(GOFMT) -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted; run make fmt:"; echo "$$unformatted"; exit 1; fi

fmt: ## Format the code
	$(GOFMT) -w .

generate: ## Generate code
	$(GO) generate ./...

kubernetes: ## Find a real Kubernetes for tests and the test bed, or build it from its Go modules (about 30 CPU-minutes, once)
	@$(GO) run $(BUILDVCS) ./e2e/cluster build

cluster-up: ## Make a real Kubernetes of six nodes on this machine (Linux, root)
	@$(GO) run $(BUILDVCS) ./e2e/cluster up

cluster-down: ## End that Kubernetes, and remove all of it
	@$(GO) run $(BUILDVCS) ./e2e/cluster down

e2e: ## Use CausalStore on the cluster of KUBECONFIG; without one, on a cluster made for it (Linux, root)
	$(GO) test $(BUILDVCS) -tags e2e -count=1 -v -timeout 45m $(TESTFLAGS) ./e2e/store

demo: build ## Take a guided tour: eight regions in three rings on this machine
	@$(BIN) demo $(DEMOFLAGS)

sim: build ## Play 2,000 simulated deployments full of faults and check every history
	@$(BIN) sim $(SIMFLAGS)

bench: build ## Measure this machine: what CausalStore costs, keeps in memory, and gains over Karma and others
	@if command -v redis-server >/dev/null; then $(BIN) bench overhead $(BENCHFLAGS); \
		else echo "redis-server is not installed: the comparison with it is left out; apt-get install redis-server"; fi
	@$(BIN) bench memory $(BENCHFLAGS)
	@$(BIN) bench paper $(PAPERFLAGS)

image: ## Build the container image IMAGE; without DOCKER, as an OCI archive in bin
	@if command -v $(DOCKER) >/dev/null; then \
		$(DOCKER) build -t $(IMAGE) --build-arg VERSION=$$(git describe --always --dirty 2>/dev/null || echo dev) \
			--build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) .; \
	else \
		mkdir -p bin && $(GO) run $(BUILDVCS) ./e2e/cluster image-causalstore bin/causalstore.tar $(IMAGE) && \
		echo "$(DOCKER) is not installed: $(IMAGE) is in bin/causalstore.tar, an OCI archive"; \
	fi

clean: ## Remove what was built
	rm -rf bin
