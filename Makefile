# make run    builds and starts the server with the demo agent
# make test   does all of its own set-up and runs the checks and tests
# make check  is what the build machine runs: the same as test
# make quick  checks the Go packages that differ from the last commit, in seconds
# make web    builds the packages in web/; make web-test checks and tests them, make web-e2e in a browser
# make dialect-test drives the server with the unmodified npm clients of the dialects, and the example page of CopilotKit in a browser
# make cluster-client-test drives a node that owns no session with the npm clients and the Python SDK; it is not part of make test
# make s3-test runs three nodes with a real S3 service, which it installs
# make wheel  builds the Python SDK; make python-test checks and tests it against the server
# make bench  measures against the systems named in docs/benchmarks.md; make bench-test checks the cost beside a bare server
# make fuzz   fuzzes every decoder for a moment each
# make chaos  kills the server under load and damages its files for a minute; CHAOS="-for 3h" for longer
# make chaos-cluster kills, stops, pauses, cuts off, damages and replaces the nodes of a cluster under load, with clients of all dialects, for a minute; CHAOS="-for 1h" for longer
# make chaos-log kills, pauses and cuts off the nodes of a cluster's log for a minute; CHAOS="-for 3h" for longer
# make release builds binaries for Linux and macOS, their checksums and the list of their modules, in bin/release
# make vuln   looks for known vulnerabilities in what is linked, where the database can be reached

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X main.version=$(VERSION)
FUZZTIME ?= 10s

# Packages are fetched again after a short failure of the network.
export npm_config_fetch_retries = 5
export PIP_RETRIES = 10
APT_GET = apt-get -o Acquire::Retries=5

.PHONY: all build release run run-cluster test check quick fmt vet lint tidy vuln race web web-test web-e2e dialect-test cluster-client-test s3-test python-test wheel bench bench-test chaos chaos-cluster chaos-log fuzz clean

all: build

# One file that needs nothing else: without C it also takes less memory.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/parley ./cmd/parley

# VERSION=v0.1.0 make release, on a clean checkout of that tag.
RELEASE   = bin/release
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

release:
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	@set -e; for p in $(PLATFORMS); do \
	  out=$(RELEASE)/parley-$(VERSION)-$${p%/*}-$${p#*/}; echo $$out; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $$out ./cmd/parley; \
	done
	$(GO) run ./internal/sbom $(RELEASE)/parley-$(VERSION)-linux-amd64 > $(RELEASE)/sbom.spdx.json
	cd $(RELEASE) && sha256sum parley-* sbom.spdx.json > SHA256SUMS

run: build
	./bin/parley serve

# Three nodes of a cluster on this machine, at ports 8001 to 8003; Ctrl-C ends all of them.
CLUSTER = ./bin/parley serve --cluster-peers 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003

run-cluster: build
	@trap 'kill 0' INT TERM; for i in 1 2 3; do \
	  $(CLUSTER) --data parley-cluster/n$$i --addr 127.0.0.1:800$$i --cluster-listen 127.0.0.1:700$$i --nats 127.0.0.1:422$$i & \
	done; wait

test: fmt vet lint tidy vuln race bench-test chaos-cluster web-test web-e2e dialect-test s3-test python-test wheel

check: test

# The packages with changes that are not committed, or those of the last commit when there are none.
quick: fmt
	@files=$$(git diff --name-only HEAD -- '*.go'; git ls-files --others --exclude-standard -- '*.go'); \
	if [ -z "$$files" ]; then files=$$(git diff --name-only HEAD~1 -- '*.go'); fi; \
	packages=$$(for f in $$files; do d=$$(dirname $$f); [ ! -d $$d ] || echo ./$$d; done | sort -u | grep -v -e '^./bench' -e '^./e2e'); \
	if [ -z "$$packages" ]; then echo "quick: no Go package was changed"; exit 0; fi; \
	echo $$packages; $(GO) vet $$packages && $(GO) test $$packages .

fmt:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet ./...

lint:
	$(GO) tool staticcheck ./...

# Fails and shows the difference when go.mod or go.sum is not what the code needs.
tidy:
	$(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff

# Only a vulnerability that the code can reach fails; without the tool or its database it says
# that nothing was checked. It is no tool of go.mod, so that a build needs none of its modules.
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.8.0

vuln:
	@if ! GOBIN=$(CURDIR)/bin $(GO) install $(GOVULNCHECK) 2>/dev/null; then \
	  echo "vuln: not checked, $(GOVULNCHECK) could not be installed"; \
	elif ! bin/govulncheck -version 2>/dev/null | grep -q '^DB updated:'; then \
	  echo "vuln: not checked, the vulnerability database could not be reached"; \
	else bin/govulncheck ./...; fi

# The tests of clusters come last and one package at a time: they wait for elections, which take longer beside a compiler.
race:
	$(GO) test -race -timeout 20m $$($(GO) list ./... | grep -v -e /e2e$$ -e /internal/bus$$ -e /internal/cluster)
	$(GO) test -race -timeout 20m -p 1 ./e2e ./internal/bus ./internal/cluster/...

# npm writes this file when it is done; node_modules is as old as it.
WEB = web/node_modules/.package-lock.json

$(WEB): web/package-lock.json web/package.json
	cd web && npm ci
	@touch $@

web: $(WEB)
	cd web && npm run build

web-test: $(WEB)
	cd web && npm run check && npm test && npm run size

# A Chromium that is there is used; on Debian it is installed when it is missing.
web-e2e: web build
	@command -v chromium >/dev/null || test -n "$$CHROMIUM" || ! command -v apt-get >/dev/null || ($(APT_GET) update && $(APT_GET) install -y --no-install-recommends chromium)
	cd web/console && PARLEY_BIN=$(CURDIR)/bin/parley npm run e2e

# The unmodified npm clients of the dialects against the server.
dialect-test: build
	@for p in web/dialects/*/package.json examples/copilotkit-page/package.json; do d=$$(dirname $$p); echo "$$d"; \
	  (cd $$d && npm ci --no-audit --no-fund && PARLEY_BIN=$(CURDIR)/bin/parley npm test) || exit 1; done

# A real S3 service. It is no tool of go.mod, so that a build needs none of its modules.
S3_SERVER = github.com/versity/versitygw/cmd/versitygw@v1.8.0

bin/versitygw: Makefile
	GOBIN=$(CURDIR)/bin CGO_ENABLED=0 $(GO) install $(S3_SERVER)
	@touch $@

s3-test: bin/versitygw
	$(GO) vet -tags s3 ./e2e
	PARLEY_S3_SERVER=$(CURDIR)/bin/versitygw $(GO) test -count=1 -tags s3 -run RealBucket ./e2e

# The Python SDK is tested and built in an environment of its own.
PYTHON ?= python3
VENV    = sdk/python/.venv

# A Python that is there is used; on Debian it is installed when it is missing.
$(VENV)/ready: sdk/python/pyproject.toml
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || ! command -v apt-get >/dev/null || ($(APT_GET) update && $(APT_GET) install -y --no-install-recommends python3 python3-venv)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e 'sdk/python[test]'
	@touch $@

python-test: $(VENV)/ready build
	cd sdk/python && .venv/bin/mypy && PARLEY_BIN=$(CURDIR)/bin/parley .venv/bin/python -m unittest discover -s tests

# The npm clients and the Python SDK, at a node of a cluster that does not own the sessions. Each server of a test is three nodes, which takes some seconds to start.
cluster-client-test: build $(VENV)/ready
	CGO_ENABLED=0 $(GO) build -o bin/othernode ./e2e/othernode
	@for p in web/dialects/*/package.json; do d=$$(dirname $$p); echo "$$d"; \
	  (cd $$d && npm ci --no-audit --no-fund && PARLEY_SERVER=$(CURDIR)/bin/parley PARLEY_BIN=$(CURDIR)/bin/othernode npm test) || exit 1; done
	cd sdk/python && PARLEY_SERVER=$(CURDIR)/bin/parley PARLEY_BIN=$(CURDIR)/bin/othernode .venv/bin/python -m unittest discover -s tests

wheel: $(VENV)/ready
	rm -rf sdk/python/dist sdk/python/build
	cd sdk/python && .venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# BENCH takes options: make bench BENCH="-row 4,5" or BENCH=-short
bench: build
	cd bench && CGO_ENABLED=0 $(GO) run . -parley $(CURDIR)/bin/parley $(BENCH)

# Without the race detector, which would measure itself.
bench-test:
	cd bench && $(GO) vet ./... && $(GO) test -count=1 ./...

# CHAOS takes options: make chaos CHAOS="-for 3h -seed 7"
chaos: build
	CGO_ENABLED=0 $(GO) run ./chaos -parley $(CURDIR)/bin/parley $(CHAOS)

chaos-cluster: build
	CGO_ENABLED=0 $(GO) run ./chaos -parley $(CURDIR)/bin/parley -cluster $(CHAOS)

chaos-log:
	CGO_ENABLED=0 $(GO) run ./chaos/natslog $(CHAOS)

fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

clean:
	rm -rf bin
