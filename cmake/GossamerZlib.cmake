# zlib, for compressed messages of WebSocket: the target ZLIB::ZLIB, and GS_ZLIB_LIBS for the linker. Without it everything else is
# built, and messages are not compressed.

set(GS_ZLIB_LIBS)
if(NOT GOSSAMER_BUILD_ZLIB)
    return()
endif()
find_package(ZLIB QUIET)
if(ZLIB_FOUND)
    set(GS_ZLIB_LIBS z)
else()
    message(STATUS "without compression of WebSocket: install zlib1g-dev")
endif()
