# gsrun: see README.md. Every target does all the set-up that it needs.
GO ?= go
# Tests of services get this long in all: on a fresh machine they install OpenStack first.
TIMEOUT ?= 60m

.PHONY: build quick test lint generate check demo bench torture clean

build: ## the program, as bin/gsrun
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/gsrun ./cmd/gsrun

quick: ## the edit loop: no services, no race detector
	$(GO) vet ./...
	$(GO) test -short ./...

test: build ## everything, with the race detector; at the end, what this machine couldn't test
	bin/gsrun lab build
	$(GO) vet ./...
	@rm -f bin/skipped
	GSRUN_SKIPPED=$(CURDIR)/bin/skipped $(GO) test -race -timeout $(TIMEOUT) ./...; s=$$?; cat bin/skipped 2>/dev/null; exit $$s

lint: ## format and static checks
	@test -z "$$(gofmt -l cmd internal runtime stdlib recipes examples)" || { gofmt -l cmd internal runtime stdlib recipes examples; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

generate: ## reference pages and editor stubs, from the declarations
	$(GO) test ./stdlib ./runtime -run TestGenerated -update

check: generate ## fails if what is generated isn't committed
	$(GO) mod verify
	git diff --exit-code
	@test -z "$$(git status --porcelain)" || { git status --short; exit 1; }

demo: build ## the main job in a lab of its own, twice: the second time changes nothing
	@export GSRUN_LAB_DIR=$$(mktemp -d)/lab; trap 'bin/gsrun lab down; rmdir $$(dirname $$GSRUN_LAB_DIR)' EXIT; \
	bin/gsrun lab up && for n in 1 2; do \
		printf '\n$$ gsrun recipes/bootstrap.star --lab\n'; bin/gsrun recipes/bootstrap.star --lab || exit; \
	done

torture: build ## kills the main job at each of its crash points, and looks at what comes of it
	bin/gsrun lab build
	$(GO) test -timeout 3h ./cmd/gsrun -run '^TestCrashes$$' -torture -v

bench: build ## figures, one a line; ONLY=name for one group
	$(GO) run ./internal/bench -only "$(ONLY)" -gsrun bin/gsrun

clean:
	rm -rf bin
