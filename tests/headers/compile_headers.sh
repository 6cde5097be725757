#!/bin/sh
# Compile each public header alone, with each C and C++ compiler that exists.
# usage: compile_headers.sh INCLUDE_FOLDER
set -u

include=$1
failed=0
compiled_as_cxx=0

# compile COMPILER LANGUAGE STANDARD HEADER...
compile() {
    compiler=$1
    language=$2
    standard=$3
    shift 3
    for header; do
        printf '#include <gossamer/%s>\nextern int gs_unused;\n' "${header##*/}" |
            "$compiler" -x "$language" -std="$standard" -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
                -Werror -I"$include" -fsyntax-only - ||
            failed=1
    done
}

for compiler in gcc clang-19 clang; do
    command -v "$compiler" >/dev/null && compile "$compiler" c c11 "$include"/gossamer/*.h
done
for compiler in g++ clang++-19 clang++; do
    command -v "$compiler" >/dev/null || continue
    for standard in c++17 c++20 c++23; do
        compile "$compiler" c++ "$standard" "$include"/gossamer/*.h "$include"/gossamer/*.hpp
    done
    compiled_as_cxx=1
done
if [ $compiled_as_cxx = 0 ]; then
    echo "skipped: no C++ compiler" >&2
    [ $failed = 0 ] && exit 77
fi
exit $failed
