# The libraries of codings, each of which is left out if it is missing. gs_http_codings(TARGET) tells a target of those that decode
# bodies for the HTTP client, and compress messages of WebSocket; gs_http_encoders(TARGET) of those that compress what
# `gossamer serve` sends. GS_HTTP_CODING_LIBS are the former.

set(GS_HTTP_CODING_LIBS)
set(GS_ENCODE_CODING_LIBS)

# gs_coding(USE NAME HEADER PACKAGE LIBRARY...): USE is HTTP or ENCODE, and the definition GS_USE_NAME.
function(gs_coding use name header package)
    gs_find_optional(libraries ${header} ${ARGN})
    if(NOT libraries)
        message(STATUS "codings: no ${name} (${use}): install ${package}")
        return()
    endif()
    set(GS_${use}_CODING_LIBS ${GS_${use}_CODING_LIBS} ${libraries} PARENT_SCOPE)
    set(GS_${use}_CODINGS ${GS_${use}_CODINGS} GS_${use}_${name} PARENT_SCOPE)
endfunction()

if(GOSSAMER_BUILD_CODINGS)
    gs_coding(HTTP GZIP zlib.h zlib1g-dev z)
    gs_coding(HTTP BROTLI brotli/decode.h libbrotli-dev brotlidec brotlicommon) # which the first needs where it is static
    gs_coding(HTTP ZSTD zstd.h libzstd-dev zstd)
    gs_coding(ENCODE GZIP libdeflate.h libdeflate-dev deflate)
    gs_coding(ENCODE BROTLI brotli/encode.h libbrotli-dev brotlienc brotlicommon)
    gs_coding(ENCODE ZSTD zstd.h libzstd-dev zstd)
endif()

function(gs_use_codings use target)
    target_compile_definitions(${target} PRIVATE ${GS_${use}_CODINGS})
    target_link_libraries(${target} PUBLIC ${GS_${use}_CODING_LIBS})
endfunction()

function(gs_http_codings target)
    gs_use_codings(HTTP ${target})
endfunction()

function(gs_http_encoders target)
    gs_use_codings(ENCODE ${target})
endfunction()
