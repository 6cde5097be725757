# The libraries that decode bodies for the HTTP client, and compress messages of WebSocket: GS_HTTP_CODING_LIBS with their targets,
# and gs_http_codings(TARGET), which tells the target of them. A coding whose library is missing is left out.

set(GS_HTTP_CODING_LIBS)
set(GS_HTTP_CODINGS)

# gs_coding(NAME HEADER PACKAGE LIBRARY...)
function(gs_coding name header package)
    gs_find_optional(libraries ${header} ${ARGN})
    if(NOT libraries)
        message(STATUS "the HTTP client decodes no ${name}: install ${package}")
        return()
    endif()
    set(GS_HTTP_CODING_LIBS ${GS_HTTP_CODING_LIBS} ${libraries} PARENT_SCOPE)
    set(GS_HTTP_CODINGS ${GS_HTTP_CODINGS} GS_HTTP_${name} PARENT_SCOPE)
endfunction()

if(GOSSAMER_BUILD_CODINGS)
    gs_coding(GZIP zlib.h zlib1g-dev z)
    gs_coding(BROTLI brotli/decode.h libbrotli-dev brotlidec brotlicommon) # which the first needs where it is static
    gs_coding(ZSTD zstd.h libzstd-dev zstd)
endif()

function(gs_http_codings target)
    target_compile_definitions(${target} PRIVATE ${GS_HTTP_CODINGS})
    target_link_libraries(${target} PUBLIC ${GS_HTTP_CODING_LIBS})
endfunction()
