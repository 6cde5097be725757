#!/bin/sh
# Compile each public header alone, as C11 and as C++17, and all together as C++17, C++20 and C++23 with GCC and clang. Alone,
# headers of C++ are compiled by one of the compilers, since both have the same standard library. Those of coroutines need C++20.
# usage: compile_headers.sh INCLUDE_FOLDER
set -u

include=$1
failed=0

# compile COMPILER LANGUAGE STANDARD HEADER...: in one file
compile() {
    compiler=$1
    language=$2
    standard=$3
    shift 3
    {
        for header; do
            [ "$standard" = c++17 ] && is_of_coroutines "$header" && continue
            echo "#include <gossamer/${header##*/}>"
        done
        echo 'extern int gs_unused;'
    } | "$compiler" -x "$language" -std="$standard" -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
        -Werror -I"$include" -fsyntax-only - ||
        failed=1
}

is_of_coroutines() {
    case $1 in */coroutine*.hpp) ;; *) return 1 ;; esac
}

# The first of the compilers that is there.
first_of() {
    for compiler; do
        command -v "$compiler" && return
    done
}

for compiler in $(first_of gcc) $(first_of clang-19 clang); do
    for header in "$include"/gossamer/*.h; do
        compile "$compiler" c c11 "$header"
    done
done
compilers="$(first_of g++) $(first_of clang++-19 clang++)"
for compiler in $(first_of g++ clang++-19 clang++); do
    for header in "$include"/gossamer/*.h "$include"/gossamer/*.hpp; do
        standard=c++17
        is_of_coroutines "$header" && standard=c++20
        compile "$compiler" c++ $standard "$header"
    done
done
for compiler in $compilers; do
    for standard in c++17 c++20 c++23; do
        compile "$compiler" c++ $standard "$include"/gossamer/*.h "$include"/gossamer/*.hpp
    done
done
if [ "$compilers" = " " ]; then
    echo "skipped: no C++ compiler" >&2
    [ $failed = 0 ] && exit 77
fi
exit $failed
