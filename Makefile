# The front door: `make` lists what there is. CMake's presets do the building, tools/ the rest.
.DEFAULT_GOAL := help
.PHONY: help setup build library install docs run test check bare peers bench soak fuzz asan tsan clang gcc-asan gcc-tsan \
	chaos models mutants aarch64 nightly install-cc install-libevent clean
MAKEFLAGS += --no-print-directory
.NOTPARALLEL: # installations wait for each other; ninja compiles in parallel

# Each preset is configured once; ninja configures it again when a CMake file changes.
cmake_build = test -f build/$(1)/build.ninja || cmake --preset $(1) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; \
	cmake --build --preset $(1)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s%s\n", $$1, $$2 }' Makefile

setup: build/test.stamp build/check.stamp ## install all dependencies (tools/bootstrap)

# What a group of tools/bootstrap installs.
build/%.stamp: tools/bootstrap $(wildcard lab/requirements*.txt)
	@tools/bootstrap $*
	@mkdir -p build; touch $@

build: build/build.stamp ## build the program: build/release/gossamer
	@mkdir -p build; $(call cmake_build,release)

library: ## build only the library; needs a C compiler and CMake
	@command -v cmake >/dev/null || { echo "make library needs cmake 3.25 and a C compiler (Debian: apt-get install gcc libc6-dev cmake)" >&2; exit 2; }
	@test -f build/library/Makefile || cmake --preset library >/dev/null
	@cmake --build --preset library -j "$$(nproc)"

install: library ## install the library with its headers and manual pages below PREFIX (/usr/local)
	@cmake --install build/library --prefix "$${PREFIX:-/usr/local}"

install-cc: build ## install gossamer cc below PREFIX (/usr/local); needs clang-19 and llvm-19-dev
	@$(call cmake_build,release) --target gossamer_cc_plugin gossamer_cc gossamer_cc_asan
	@cmake --install build/release --component cc --prefix "$${PREFIX:-/usr/local}"

docs: ## generate the reference from the headers: build/docs/html/index.html, build/docs/man
	@tools/docs build/docs

install-libevent: build/build.stamp ## install the libevent interface below PREFIX
	@test -n "$(PREFIX)" || { echo "usage: make install-libevent PREFIX=DIRECTORY" >&2; exit 2; }
	@mkdir -p build; $(call cmake_build,release) --target libevent
	@cmake --install build/release --component libevent --prefix "$(PREFIX)"

run: ## install dependencies, build, and measure five architectures and the installed peers
	@tools/run $${SCALE:+--scale $$SCALE}

test: build/test.stamp ## build with assertions and run every test
	@tools/test dev

asan: build/test.stamp ## run the tests under the address and undefined behaviour sanitizers
	@tools/test asan-ubsan

tsan: build/test.stamp ## run the tests under the thread sanitizer
	@tools/test tsan

clang: build/test.stamp ## build and run the test programs with clang
	@tools/test dev-clang

gcc-asan: build/test.stamp ## run the test programs under gcc's address and undefined behaviour sanitizers
	@tools/test gcc-asan-ubsan

gcc-tsan: build/test.stamp ## run the test programs under gcc's thread sanitizer
	@tools/test gcc-tsan

chaos: build/test.stamp ## run the tests with delays where a schedule can matter (CHAOS_SECONDS, CHAOS_SEED)
	@tools/chaos --seconds $${CHAOS_SECONDS:-240} $${CHAOS_SEED:+--seed $$CHAOS_SEED}

models: build/test.stamp ## model-check the synchronization primitives
	@.venv/bin/python tests/model/check.py

mutants: build/test.stamp ## break the synchronization in a hundred places, one at a time, and count what the tests find
	@mkdir -p runs
	@tools/mutate --json runs/mutants.json

aarch64: build/test.stamp ## build the library for aarch64, and run its tests under QEMU
	@tools/test aarch64

bare: build/bare.stamp ## run the commands of the README in a root in which nothing is installed
	@tools/bare

check: build/check.stamp ## check format, lint, layers, sizes, words, prose, reference, stack; CHANGED=1: only changes against main
	@tools/check $${CHANGED:+--changed}

nightly: build/test.stamp build/check.stamp build/nightly.stamp ## run all tests that take hours, before a release: runs/nightly/REPORT.md (SCALE, STEPS)
	@tools/nightly $${SCALE:+--scale $$SCALE} $$STEPS

peers: ## download the servers to compare with into ./peers, installing nothing
	@tools/peers
	@rm -f build/release/build.ninja # so that the next build looks for libraries there

bench: build build/lab.stamp ## run the benchmarks against floors and peers
	@$(call cmake_build,release) --target bench/all
	@tools/bench

soak: build build/lab.stamp ## watch the memory during an hour of full load (SOAK_SECONDS; SOAK_OVER: plain, tls or h2)
	@$(call cmake_build,release) --target bench/all
	@mkdir -p runs/bench
	@build/release/bench/long/soak --seconds $${SOAK_SECONDS:-3600} --over $${SOAK_OVER:-plain} \
	    --json runs/bench/soak-$${SOAK_OVER:-plain}.json

fuzz: build/test.stamp ## run each fuzzer for a minute (FUZZ_SECONDS)
	@mkdir -p build; $(call cmake_build,fuzz) --target tests/fuzz/all
	@tools/fuzz

clean: ## remove what was built
	rm -rf build
