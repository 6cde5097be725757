# The front door: `make` lists what there is. CMake's presets do the building, tools/ the rest.
.DEFAULT_GOAL := help
.PHONY: help setup build docs run test check peers bench soak fuzz asan tsan clang gcc-asan gcc-tsan chaos models mutants \
	aarch64 install-cc install-libevent clean
MAKEFLAGS += --no-print-directory
.NOTPARALLEL: # installations wait for each other; ninja compiles in parallel

# Each preset is configured once; ninja configures it again when a CMake file changes.
cmake_build = test -f build/$(1)/build.ninja || cmake --preset $(1) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; \
	cmake --build --preset $(1)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s%s\n", $$1, $$2 }' Makefile

setup: .venv/build.stamp .venv/test.stamp .venv/check.stamp ## install all that is needed (tools/bootstrap)

.venv/%.stamp: tools/bootstrap lab/requirements.txt lab/requirements-dev.txt
	@tools/bootstrap $*
	@touch $@

build: .venv/build.stamp ## build the program: build/release/gossamer
	@mkdir -p build; $(call cmake_build,release)

install-cc: build ## install gossamer cc below PREFIX (/usr/local); needs clang-19 and llvm-19-dev
	@cmake --install build/release --component cc --prefix $${PREFIX:-/usr/local}

docs: ## the reference of the library, from its headers: build/docs/html/index.html, build/docs/man
	@tools/docs build/docs

install-libevent: .venv/build.stamp ## install libevent's interface over the loop into PREFIX
	@test -n "$(PREFIX)" || { echo "usage: make install-libevent PREFIX=DIRECTORY" >&2; exit 2; }
	@mkdir -p build; $(call cmake_build,release) --target libevent
	@cmake --install build/release --component libevent --prefix "$(PREFIX)"

run: build ## measure five architectures, and the peers if they are there, in three minutes
	@build/release/gossamer lab run quick

test: .venv/test.stamp ## build with every assertion, and pass every test
	@tools/test dev

asan: .venv/test.stamp ## the tests under the address and undefined behaviour sanitizers
	@tools/test asan-ubsan

tsan: .venv/test.stamp ## the tests under the thread sanitizer
	@tools/test tsan

clang: .venv/test.stamp ## the test programs, built by clang
	@tools/test dev-clang

gcc-asan: .venv/test.stamp ## the test programs under gcc's address and undefined behaviour sanitizers
	@tools/test gcc-asan-ubsan

gcc-tsan: .venv/test.stamp ## the test programs under gcc's thread sanitizer
	@tools/test gcc-tsan

chaos: .venv/test.stamp ## the tests with delays where a schedule can matter (CHAOS_SECONDS, CHAOS_SEED)
	@tools/chaos --seconds $${CHAOS_SECONDS:-240} $${CHAOS_SEED:+--seed $$CHAOS_SEED}

models: .venv/test.stamp ## every schedule of small models of what the threads rest on, by a model checker
	@.venv/bin/python tests/model/check.py

mutants: .venv/test.stamp ## break the synchronisation in a hundred places, one at a time: which do the tests find?
	@mkdir -p runs
	@tools/mutate --json runs/mutants.json

aarch64: .venv/test.stamp ## the library for aarch64, its tests under QEMU
	@tools/test aarch64

check: .venv/check.stamp ## format, lint, layers, sizes, words, prose, reference, stack
	@tools/check

peers: ## get the servers to compare with into ./peers, installing nothing
	@tools/peers
	@rm -f build/release/build.ninja # so that the next build looks for libraries there

bench: build ## measure against floors and peers
	@tools/bench

soak: build ## an hour of full load with constant memory (SOAK_SECONDS)
	@mkdir -p runs/bench
	@build/release/bench/long/soak --seconds $${SOAK_SECONDS:-3600} --json runs/bench/soak.json

fuzz: .venv/test.stamp ## run each fuzzer for a minute (FUZZ_SECONDS)
	@mkdir -p build; $(call cmake_build,fuzz)
	@tools/fuzz

clean: ## remove what was built
	rm -rf build
