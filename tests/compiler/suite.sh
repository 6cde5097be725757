#!/bin/bash
# Compares programs of one file each, such as the tests of a compiler: each compiled by clang, and by `gossamer cc` with each of
# the OPTIONS; by default with waits forced into 30 % of the blocks, without which a program without threads is clang's. A
# FILE.expect is not read: clang's program says what is right. Prints what differs, and the counts.
#
# The environment variable STANDARD is the standard of C, gnu11 by default.
#
#     suite.sh GOSSAMER FOLDER [OPTIONS...]
set -euo pipefail

gossamer=$1 folder=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- "-O1 -fgossamer-stress=30" "-O0 -fgossamer-stress=30"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints what the program wrote, and its status. It may write files.
run() {
    local status=0
    rm -rf "$work/run"
    mkdir "$work/run"
    (cd "$work/run" && timeout "$1" "$2" </dev/null 2>&1) || status=$?
    echo "status $status"
}

compile() {
    local compiler=$1
    shift
    # shellcheck disable=SC2086 # it may be two words
    (cd "$folder" && timeout 60 $compiler -w -std="${STANDARD:-gnu11}" -pthread "$@" -lm) >"$work/log" 2>&1
}

# Sets `reason` unless clang compiles it, and the program does the same with and without optimisation.
is_usable() {
    reason=
    compile clang-19 -O1 "$1" -o "$work/native" || reason="not compiled by clang"
    [ -n "$reason" ] || run 10 "$work/native" >"$work/expected" 2>/dev/null
    if [ -n "$reason" ]; then
        return 1
    elif grep -aq 'status 124$' "$work/expected"; then
        reason="not over in 10 s as compiled by clang"
    elif ! compile clang-19 -O0 "$1" -o "$work/native" || ! run 10 "$work/native" 2>/dev/null | cmp -s - "$work/expected"; then
        reason="different as compiled by clang without optimisation"
    fi
    [ -z "$reason" ]
}

used=0 skipped=0 different=0
for file in "$folder"/*.c; do
    name=$(basename "$file")
    if ! is_usable "$name"; then
        echo "suite: $name is $reason"
        skipped=$((skipped + 1))
        continue
    fi
    used=$((used + 1))
    for options in "$@"; do
        # shellcheck disable=SC2086 # several options
        if ! compile "$gossamer cc" $options "$name" -o "$work/converted"; then
            echo "suite: $name with $options is not compiled: $(head -n 1 "$work/log")"
            different=$((different + 1))
        elif ! run 60 "$work/converted" 2>/dev/null | cmp -s - "$work/expected"; then
            echo "suite: $name with $options differs"
            different=$((different + 1))
        fi
    done
done
echo "suite: $used programs, $skipped not usable, $different different"
[ "$used" -gt 0 ] && [ "$different" = 0 ]
