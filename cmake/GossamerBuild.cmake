# How every folder of the project declares what it holds; one function for each kind of target.

set(GS_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
option(GS_FUZZ "Build the fuzzers (needs clang)" OFF)
option(GS_CHAOS "Delay kernel threads where a schedule can matter (src/base/chaos.h)" OFF)

# By compiler: a large frame touches each of its pages, so that it cannot jump over the guard of a stack. The programs that
# use the library are compiled with these options, too. GCC for aarch64 takes guards to have 64 KiB unless it is told.
set(GS_STACK_OPTIONS_Clang -fstack-clash-protection)
set(GS_STACK_OPTIONS_GNU -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
    list(APPEND GS_STACK_OPTIONS_GNU --param=stack-clash-protection-guard-size=12)
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(GS_HAS_CXX FALSE)
if(GOSSAMER_BUILD_TESTS OR GOSSAMER_BUILD_EXAMPLES OR GOSSAMER_BUILD_CC)
    include(GossamerCxx)
endif()

# All of this holds in our folders only, not in those of a project that includes us.
set(only_c $<NOT:$<COMPILE_LANGUAGE:CXX>>)
add_compile_options(
    -Wall -Wextra -Wshadow -Wconversion -Wvla -Wno-missing-field-initializers
    $<${only_c}:-Wstrict-prototypes> $<${only_c}:-Wmissing-prototypes>
    -fvisibility=hidden -fno-omit-frame-pointer -fno-strict-aliasing ${GS_STACK_OPTIONS_${CMAKE_C_COMPILER_ID}})
# Symbols are bound when the program starts: binding one at its first call takes 3 KiB of the caller's stack.
add_link_options(-Wl,-z,relro,-z,now)
# By which debug data is found.
add_link_options(-Wl,--build-id)
# Neither messages nor debug information hold a path of this machine; link-time optimisation needs to be told again.
set(GS_PATH_OPTIONS -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
add_compile_options(${GS_PATH_OPTIONS})
add_link_options(${GS_PATH_OPTIONS})
add_compile_definitions(_GNU_SOURCE)
# Intel's processors from Skylake to Cascade Lake decode a jump anew each time if it touches the end of 32 bytes of code
# (erratum SKX102): where the linker puts a function changed the time of a condition from 14.5 to 15.4 ns.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    set(GS_BRANCH_OPTIONS_GNU -Wa,-mbranches-within-32B-boundaries)
    set(GS_BRANCH_OPTIONS_Clang -mbranches-within-32B-boundaries)
    add_compile_options(${GS_BRANCH_OPTIONS_${CMAKE_C_COMPILER_ID}})
    add_link_options(${GS_BRANCH_OPTIONS_${CMAKE_C_COMPILER_ID}})
endif()
# Under a sanitizer the library is optimised, as its users run it. What only tests run, a test program or the checked library,
# takes a third of the time to compile if it is not.
set(GS_TEST_OPTIONS)
if(GS_SANITIZE)
    set(GS_TEST_OPTIONS -O0)
    add_compile_options(-fsanitize=${GS_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${GS_SANITIZE})
endif()
if(GS_CHAOS)
    add_compile_definitions(GS_CHAOS)
endif()
include(CheckIncludeFile)
if(GOSSAMER_VALGRIND)
    check_include_file(valgrind/valgrind.h GS_HAS_VALGRIND_H)
    if(GS_HAS_VALGRIND_H)
        add_compile_definitions(GS_VALGRIND)
    endif()
endif()
find_package(Threads REQUIRED)
include(GossamerTls)
include(GossamerOptional)
include(GossamerHttp2)
include(GossamerDns)
include(GossamerCodings)
include(GossamerYaml)

# gs_library(NAME [SOURCES FILE...] [USES LIBRARY...]): the library gossamer_NAME, of the files given, or else of this
# folder's C files and its assembler file for the processor.
function(gs_library name)
    cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
    if(NOT arg_SOURCES)
        file(GLOB arg_SOURCES CONFIGURE_DEPENDS *.c ${CMAKE_SYSTEM_PROCESSOR}.S)
    endif()
    add_library(gossamer_${name} STATIC ${arg_SOURCES})
    # One compilation serves both libraries; calls within them can be inlined as in a program.
    set_target_properties(gossamer_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(gossamer_${name} PRIVATE -fno-semantic-interposition -ffunction-sections -fdata-sections)
    target_include_directories(gossamer_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
    list(TRANSFORM arg_USES PREPEND gossamer_)
    target_link_libraries(gossamer_${name} PUBLIC ${arg_USES} Threads::Threads)
endfunction()

# gs_chaos(NAME): functions of the C library which the target calls are delayed, too (src/base/chaos.c).
function(gs_chaos name)
    if(GS_CHAOS)
        set(wrapped pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_signal pthread_cond_broadcast sem_post)
        list(TRANSFORM wrapped PREPEND "-Wl,--wrap=")
        target_link_options(${name} PRIVATE ${wrapped})
        target_link_libraries(${name} PRIVATE gossamer_base)
    endif()
endfunction()

# gs_program(NAME SOURCE... [USES LIBRARY...]): a program of its own.
function(gs_program name)
    cmake_parse_arguments(arg "" "" "USES" ${ARGN})
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    list(TRANSFORM arg_USES PREPEND gossamer_)
    target_link_libraries(${name} PRIVATE ${arg_USES} Threads::Threads)
    gs_chaos(${name})
endfunction()

# A test that takes longer hangs. Sanitizers and emulators make each test several times as long, and chaos delays it, too.
set(GS_TEST_SECONDS 60)
if(GS_CHAOS)
    set(GS_TEST_SECONDS 360)
elseif(GS_SANITIZE OR CMAKE_CROSSCOMPILING)
    set(GS_TEST_SECONDS 120)
endif()

# gs_tests(ROOM [USES LIBRARY...] [POLLERS NAME...]): each test_*.c and test_*.cpp of this folder is a program and a test
# named ROOM.NAME, labelled ROOM, and one named ROOM.NAME.POLLER for each poller; it finds the program gossamer through the
# environment.
function(gs_tests module)
    cmake_parse_arguments(arg "" "" "USES;POLLERS;FOLDERS" ${ARGN})
    list(TRANSFORM arg_FOLDERS APPEND /test_*.c)
    file(GLOB sources CONFIGURE_DEPENDS test_*.c test_*.cpp ${arg_FOLDERS})
    foreach(source ${sources})
        get_filename_component(stem ${source} NAME_WE)
        string(REPLACE "test_" "" stem ${stem})
        gs_program(test_${module}_${stem} ${source} USES ${arg_USES})
        target_compile_options(test_${module}_${stem} PRIVATE ${GS_TEST_OPTIONS})
        add_test(NAME ${module}.${stem} COMMAND test_${module}_${stem})
        set_tests_properties(${module}.${stem} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${GS_TEST_SECONDS} LABELS ${module}
            ${GS_EMULATOR_FAULT} ENVIRONMENT GOSSAMER_PROGRAM=${PROJECT_BINARY_DIR}/gossamer)
        foreach(poller ${arg_POLLERS})
            add_test(NAME ${module}.${stem}.${poller} COMMAND test_${module}_${stem})
            set_tests_properties(${module}.${stem}.${poller} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${GS_TEST_SECONDS} LABELS ${module}
                ${GS_EMULATOR_FAULT} ENVIRONMENT GS_POLLER=${poller})
        endforeach()
    endforeach()
endfunction()
