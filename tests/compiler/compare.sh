#!/bin/bash
# Compiles a program with clang and POSIX threads, and with `gossamer cc` in several ways: all must write the same and end with
# the same status.
#
#     compare.sh GOSSAMER SOURCE
set -euo pipefail

gossamer=$1 source=$2
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

clang-19 -O1 -pthread -w "$source" -o expected
run expected ./expected
for options in "-O0 -fgossamer-main=converted" -O3; do
    level=${options%% *}
    # shellcheck disable=SC2086 # several options
    "$gossamer" cc $options -g -pthread -w "$source" -o "converted$level"
    compare "converted$level" "./converted$level"
done
compare workers env GOSSAMER_WORKERS=3 ./converted-O3
"$gossamer" cc -O2 -pthread -w -fgossamer-frames=environment -fgossamer-main=converted "$source" -o environment
compare environment ./environment
"$gossamer" cc -O1 -pthread -w -fgossamer-frames=slots -fgossamer-main=converted "$source" -o slots
compare slots ./slots
