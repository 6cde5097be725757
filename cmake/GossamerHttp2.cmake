# libnghttp2, for HTTP/2 in the library and the program: the target nghttp2::nghttp2, and GS_HTTP2_LIBS with its name. Without it
# everything else is built without HTTP/2.

set(GS_HTTP2_MODULES)
set(GS_HTTP2_LIBS)
if(NOT GOSSAMER_BUILD_HTTP2)
    return()
endif()
find_path(GS_NGHTTP2_INCLUDE_DIR nghttp2/nghttp2.h)
find_library(GS_NGHTTP2_LIBRARY nghttp2)
mark_as_advanced(GS_NGHTTP2_INCLUDE_DIR GS_NGHTTP2_LIBRARY)
if(GS_NGHTTP2_INCLUDE_DIR AND GS_NGHTTP2_LIBRARY)
    set(GS_HTTP2_MODULES http2)
    set(GS_HTTP2_LIBS nghttp2::nghttp2)
    add_library(nghttp2::nghttp2 UNKNOWN IMPORTED GLOBAL)
    set_target_properties(nghttp2::nghttp2 PROPERTIES
        IMPORTED_LOCATION ${GS_NGHTTP2_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GS_NGHTTP2_INCLUDE_DIR})
else()
    message(STATUS "without HTTP/2: install libnghttp2-dev")
endif()
