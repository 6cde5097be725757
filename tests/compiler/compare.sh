#!/bin/bash
# Compiles a program with clang and POSIX threads, and with `gossamer cc` in several ways: all must write the same and end with
# the same status. A file with the end .out beside the source is what clang's program would write.
#
#     compare.sh GOSSAMER SOURCE [LIBRARY [object|archive]]
#
# LIBRARY: the source of a shared library that the program uses, or of an object or archive that is linked with it.
set -euo pipefail

gossamer=$1 source=$2 library=${3:-} linked=(-lm)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

run() {
    local name=$1 status=0
    shift
    # A program may end before this has written.
    (trap '' PIPE && printf 'a line\nanother\n' 2>/dev/null || true) | timeout 60 "$@" >"$name.out" 2>&1 || status=$?
    echo "status $status" >>"$name.out"
}

compare() {
    run "$@"
    diff -u expected.out "$1.out" || {
        echo "compare: $1 of $source differs" >&2
        exit 1
    }
}

if [ -n "$library" ]; then
    clang-19 -O1 -shared -fPIC -pthread -w "$library" -o libused.so
    cp libused.so libcopy.so
    export COPY_OF_LIBRARY=$work/libcopy.so
    linked=(-L. -lused "-Wl,-rpath,$work")
    if [ -n "${4:-}" ]; then
        clang-19 -O1 -fPIC -pthread -w -c "$library" -o used.o
        linked=("$work/used.o")
        if [ "$4" = archive ]; then
            mkdir archive
            ar rcs archive/libused.a used.o
            linked=(-Larchive -lused)
        fi
    fi
fi
clang-19 -O1 -pthread -w "$source" "${linked[@]}" -o expected
# With the C library, what happens after some jumps out of its functions is undefined, and it may crash.
if [ -f "${source%.c}.out" ]; then
    cp "${source%.c}.out" expected.out
else
    run expected ./expected
fi
# The linker takes less time if it drops the runtime's debug data, which nobody looks at.
convert() {
    local name=$1
    shift
    "$gossamer" cc "$@" -pthread -w "$source" "${linked[@]}" -Wl,-S -o "$name"
    compare "$name" "./$name"
}

convert unoptimised -O0 -g -fgossamer-main=converted
convert optimised -O3 -g
compare workers env GOSSAMER_WORKERS=3 ./optimised
convert slots -O1 -fgossamer-frames=slots -fgossamer-main=converted
