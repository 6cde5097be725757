# The compiler that did not build the tests compiles them, too. It warns of other things.
set(other g++)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(other clang++-19)
endif()
find_program(GS_OTHER_CXX ${other})
if(NOT GS_OTHER_CXX OR GS_CHAOS OR NOT GS_SANITIZE STREQUAL "")
    return()
endif()
add_test(NAME cpp.compiled.${other}
    COMMAND ${GS_OTHER_CXX} -std=c++23 -Wall -Wextra -Wpedantic -Werror -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}
        -fsyntax-only ${program} ${coroutine})
set_tests_properties(cpp.compiled.${other} PROPERTIES TIMEOUT 300 LABELS cpp PROCESSORS 2 COST 20)
