# What is built. In a project of its own, everything; inside of another project (add_subdirectory, FetchContent), only the
# library. A project that wants more sets these variables before.

set(default ${PROJECT_IS_TOP_LEVEL})
option(GOSSAMER_INSTALL "Install what is built, with headers and manual pages" ${default})
option(GOSSAMER_BUILD_TESTS "Build the tests, unless BUILD_TESTING is off" ${default})
option(GOSSAMER_VALGRIND "Tell valgrind where the stacks of threads are, if its header is found" ON)
# For another processor than this one, just the library: the programs need more than a compiler.
if(CMAKE_CROSSCOMPILING)
    set(default OFF)
endif()
option(GOSSAMER_BUILD_TLS "Build the library gossamer-tls, if OpenSSL 3.0 or newer is found" ${default})
option(GOSSAMER_BUILD_COMPAT "Build the interfaces of other libraries (compat/)" ${default})
option(GOSSAMER_BUILD_HTTP2 "Build the library and the program with HTTP/2, if libnghttp2 is found" ${default})
option(GOSSAMER_BUILD_DNS "Build the library with a resolver on the event loop, if c-ares is found" ${default})
option(GOSSAMER_BUILD_CODINGS "Build the HTTP client with gzip, br and zstd, and WebSocket with compression, as far as zlib, libbrotlidec and libzstd are found" ${default})
option(GOSSAMER_BUILD_PROGRAM "Build the program gossamer (needs zlib)" ${default})
option(GOSSAMER_BUILD_YAML "Build the program with serve --config, if libyaml is found" ${default})
option(GOSSAMER_BUILD_CC "Build the plugin of gossamer cc, if headers of LLVM 19 are found" ${default})
option(GOSSAMER_BUILD_EXAMPLES "Have targets for the examples" ${default})
option(GOSSAMER_BUILD_BENCH "Have targets for the benchmarks" ${default})

# Tests use all that there is. Without them, what is not installed by default is built only by name: the examples, the
# benchmarks, the plugin and the runtime of gossamer cc, the interface of libevent. libgossamer_checked.a, which stops at misuse,
# is installed if it is built.
set(GS_BY_NAME EXCLUDE_FROM_ALL)
if(GOSSAMER_BUILD_TESTS)
    set(GS_BY_NAME)
endif()
if(NOT DEFINED GOSSAMER_BUILD_CHECKED)
    set(GOSSAMER_BUILD_CHECKED ${GOSSAMER_BUILD_TESTS})
endif()

# BUILD_SHARED_LIBS has its usual meaning: only the shared library, or only the static one. Without it both are built, and
# inside of another project the static one. The two variables that override this are not cached, so that they follow it.
set(static ON)
set(shared ${PROJECT_IS_TOP_LEVEL})
if(DEFINED BUILD_SHARED_LIBS)
    set(shared ${BUILD_SHARED_LIBS})
    if(BUILD_SHARED_LIBS)
        set(static OFF)
    endif()
endif()
if(NOT DEFINED GOSSAMER_BUILD_STATIC)
    set(GOSSAMER_BUILD_STATIC ${static})
endif()
if(NOT DEFINED GOSSAMER_BUILD_SHARED)
    set(GOSSAMER_BUILD_SHARED ${shared})
endif()
if(NOT GOSSAMER_BUILD_STATIC AND NOT GOSSAMER_BUILD_SHARED)
    message(FATAL_ERROR "GOSSAMER_BUILD_STATIC and GOSSAMER_BUILD_SHARED are both off: there is no library to build")
endif()

if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
    include(CTest)
endif()
