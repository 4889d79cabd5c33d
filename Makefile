# Runnel's build. `make help` lists the targets.

GO    ?= go
BIN   := bin
TOOLS := hack/tools/go.mod

# Where hack/prereqs puts a Node.js when the machine's is missing or too old.
export PATH := $(CURDIR)/.local/node/node_modules/node/bin:$(PATH)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build bin/runnel
	$(GO) build -trimpath -o $(BIN)/runnel ./cmd/runnel

.PHONY: dev
dev: build ## Start one durable node on http://127.0.0.1:4437 (data in .local/dev)
	$(BIN)/runnel dev --data-dir .local/dev

.PHONY: cluster
cluster: build ## Start three nodes on loopback and print their URLs
	$(BIN)/runnel cluster --data-dir .local/cluster

.PHONY: test
test: prereqs vet ## Run every test, the race detector on, the official suite included
	hack/timed "unit and cluster tests (race)" $(GO) test -race -timeout 20m ./...

.PHONY: vet
vet: ## Run go vet and check formatting
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'run gofmt -w on the files above' >&2; exit 1; }
	$(GO) vet ./...

.PHONY: lint
lint: vet ## Run the linters of hack/tools
	$(GO) tool -modfile=$(TOOLS) staticcheck ./...
	$(GO) tool -modfile=$(TOOLS) errcheck -ignoretests -exclude hack/errcheck.txt ./cmd/... ./node/...

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (default 30s) each
	hack/fuzz $${FUZZTIME:-30s}

.PHONY: bench
bench: ## Run the Go benchmarks of the data path
	$(GO) test -run '^$$' -bench . -benchmem ./node/...

.PHONY: prereqs
prereqs: ## Check for what the tests need and bring what a package manager can
	@hack/prereqs

.PHONY: clean
clean: ## Remove what was built and all local data
	rm -rf $(BIN) .local
