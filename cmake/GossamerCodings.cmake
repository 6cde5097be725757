# The libraries that decode bodies for the HTTP client: GS_HTTP_CODING_LIBS for the linker, and gs_http_codings(TARGET), which lets
# the target see them. A coding whose library is missing is left out.

set(GS_HTTP_CODING_LIBS)
set(GS_HTTP_CODINGS)
set(GS_HTTP_CODING_DIRS)
if(GOSSAMER_BUILD_CODINGS)
    foreach(coding "GZIP;z;zlib.h;zlib1g-dev" "BROTLI;brotlidec;brotli/decode.h;libbrotli-dev;brotlicommon"
            "ZSTD;zstd;zstd.h;libzstd-dev")
        list(POP_FRONT coding name library header package)
        find_path(GS_${name}_INCLUDE_DIR ${header})
        find_library(GS_${name}_LIBRARY ${library})
        mark_as_advanced(GS_${name}_INCLUDE_DIR GS_${name}_LIBRARY)
        if(GS_${name}_INCLUDE_DIR AND GS_${name}_LIBRARY)
            list(APPEND GS_HTTP_CODING_LIBS ${library} ${coding}) # and what that needs
            list(APPEND GS_HTTP_CODINGS GS_HTTP_${name})
            list(APPEND GS_HTTP_CODING_DIRS ${GS_${name}_INCLUDE_DIR})
        else()
            message(STATUS "the HTTP client decodes no ${name}: install ${package}")
        endif()
    endforeach()
endif()

function(gs_http_codings target)
    target_compile_definitions(${target} PRIVATE ${GS_HTTP_CODINGS})
    target_include_directories(${target} SYSTEM PRIVATE ${GS_HTTP_CODING_DIRS})
endfunction()
