#!/bin/bash
# Compares random programs: each compiled by clang, and by `gossamer cc` with each of the OPTIONS; by default in five ways, with waits
# forced into 30 % of the blocks in the last three. The programs are of generate.py, which have threads, or of csmith. Prints what
# differs, and the counts.
#
#     random.sh GOSSAMER generate|csmith FIRST LAST [OPTIONS...]
set -euo pipefail

gossamer=$1 kind=$2 first=$3 last=$4
shift 4
[ $# -gt 0 ] || set -- -O0 -O2 "-O2 -fgossamer-stress=30" "-O1 -fgossamer-stress=30" \
    "-O2 -fgossamer-frames=slots -fgossamer-stress=30"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Prints what the program wrote, and its status.
run() {
    local status=0
    timeout "$limit" "$@" >out 2>&1 || status=$?
    cat out
    echo "status $status"
}

write() {
    if [ "$kind" = csmith ]; then
        timeout 20 csmith --seed "$1" --no-packed-struct >program.c 2>/dev/null
    else
        python3 "$here/generate.py" "$1" >program.c
    fi
}

# Sets `reason` unless the program ends, and does the same without optimisation: otherwise it says nothing.
is_usable() {
    limit=10 reason=
    clang-19 -w -O1 -pthread -I/usr/include/csmith program.c -o native || reason="not compiled by clang"
    [ -n "$reason" ] || run ./native >expected 2>/dev/null
    if grep -q 'status 124$' expected; then
        reason="not over in $limit s as compiled by clang"
    elif ! grep -q 'status [0-9]\{1,2\}$' expected; then
        reason="ended by a signal as compiled by clang"
    elif ! clang-19 -w -O0 -pthread -I/usr/include/csmith program.c -o native ||
        ! run ./native 2>/dev/null | cmp -s - expected; then
        reason="different as compiled by clang without optimisation"
    fi
    [ -z "$reason" ]
}

differs() {
    local workers
    # shellcheck disable=SC2086 # several options
    "$gossamer" cc -w -g -pthread -I/usr/include/csmith $1 program.c -o converted || return 0
    for workers in 1 3; do
        limit=100 GOSSAMER_WORKERS=$workers run ./converted | diff -q - expected >/dev/null || return 0
    done
    return 1
}

used=0 skipped=0 different=0
for ((seed = first; seed <= last; seed++)); do
    reason="not generated in time"
    if ! write "$seed" || ! is_usable; then
        echo "random: program $seed of $kind is $reason"
        skipped=$((skipped + 1))
        continue
    fi
    used=$((used + 1))
    for options in "$@"; do
        if differs "$options"; then
            echo "random: program $seed of $kind with $options differs"
            different=$((different + 1))
        fi
    done
done
echo "random: $used programs of $kind, $skipped not usable, $different different"
[ "$used" -gt 0 ] && [ "$different" = 0 ]
