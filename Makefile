# The front door: `make` lists what there is. CMake's presets do the building, tools/ the rest.
.DEFAULT_GOAL := help
.PHONY: help setup build run test check peers bench soak fuzz asan tsan aarch64 clean
MAKEFLAGS += --no-print-directory

# Each preset is configured once; ninja configures it again when a CMake file changes.
cmake_build = test -f build/$(1)/build.ninja || cmake --preset $(1) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; \
	cmake --build --preset $(1)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-8s%s\n", $$1, $$2 }' Makefile

setup: .venv/setup.stamp ## install what is needed (tools/bootstrap)

.venv/setup.stamp: tools/bootstrap lab/requirements.txt
	@tools/bootstrap
	@touch $@

build: setup ## build the program: build/release/gossamer
	@mkdir -p build; $(call cmake_build,release)

run: build ## measure five architectures, and the peers if they are there, in three minutes
	@build/release/gossamer lab run quick

test: setup ## build with every assertion, and pass every test
	@tools/test dev

asan: setup ## the tests under the address and undefined behaviour sanitizers
	@tools/test asan-ubsan

tsan: setup ## the tests under the thread sanitizer
	@tools/test tsan

aarch64: setup ## the library for aarch64, its tests under QEMU
	@tools/test aarch64

check: setup ## format, lint, layers, sizes, words, stack
	@tools/check

peers: ## get the servers to compare with into ./peers, installing nothing
	@tools/peers
	@rm -f build/release/build.ninja # so that the next build looks for libraries there

bench: build ## measure against floors and peers
	@tools/bench

soak: build ## an hour of full load with constant memory (SOAK_SECONDS)
	@mkdir -p runs/bench
	@build/release/bench/long/soak --seconds $${SOAK_SECONDS:-3600} --json runs/bench/soak.json

fuzz: setup ## run each fuzzer for a minute (FUZZ_SECONDS)
	@mkdir -p build; $(call cmake_build,fuzz)
	@tools/fuzz

clean: ## remove what was built
	rm -rf build
