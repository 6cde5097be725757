#!/bin/sh
# Compile, link and run the C++ program, with the C++ mode of the C compiler of this build.
# usage: run_program.sh COMPILER SOURCE INCLUDE_FOLDER SANITIZERS LIBRARY...
set -u

compiler=$1
source=$2
include=$3
sanitizers=$4
shift 4

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

if ! echo '#include <vector>' | "$compiler" -x c++ -fsyntax-only - 2>/dev/null; then
    echo "skipped: $compiler compiles no C++" >&2
    exit 77
fi
"$compiler" -x c++ -std=c++17 -g -Wall -Wextra -Wpedantic -Werror \
    ${sanitizers:+-fsanitize=$sanitizers} -I"$include" "$source" -x none "$@" -lstdc++ -lm -pthread -o "$folder/program" || exit 1
"$folder/program"
