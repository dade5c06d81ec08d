# make run    builds and starts the server with the demo agent
# make test   does all of its own set-up and runs everything
# make check  is what the build machine runs: the same as test
# make bench  measures against the peers named in docs/benchmarks.md
# make fuzz   fuzzes every decoder for a moment each

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -X main.version=$(VERSION)
FUZZTIME ?= 10s

.PHONY: all build run test check fmt vet lint race bench fuzz clean

all: build

build:
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/parley ./cmd/parley

run: build
	./bin/parley serve

test: fmt vet lint race

check: test

fmt:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet ./...

lint:
	$(GO) tool staticcheck ./...

race:
	$(GO) test -race -timeout 20m ./...

fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

clean:
	rm -rf bin
