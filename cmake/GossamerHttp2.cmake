# libnghttp2, for HTTP/2 in the library and the program: GS_HTTP2_LIBS with its target. Without it everything else is built
# without HTTP/2.

set(GS_HTTP2_MODULES)
set(GS_HTTP2_LIBS)
if(GOSSAMER_BUILD_HTTP2)
    gs_find_optional(GS_HTTP2_LIBS nghttp2/nghttp2.h nghttp2)
    if(GS_HTTP2_LIBS)
        set(GS_HTTP2_MODULES http2)
    else()
        message(STATUS "without HTTP/2: install libnghttp2-dev")
    endif()
endif()
