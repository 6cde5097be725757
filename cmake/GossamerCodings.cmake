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

# gs_http_encoders(TARGET) tells it of the libraries that compress what `gossamer serve` sends, as far as they are there.
set(GS_ENCODER_LIBS)
set(GS_ENCODERS)

# gs_encoder(NAME HEADER PACKAGE LIBRARY...)
function(gs_encoder name header package)
    gs_find_optional(libraries ${header} ${ARGN})
    if(NOT libraries)
        message(STATUS "gossamer serve compresses no ${name}: install ${package}")
        return()
    endif()
    set(GS_ENCODER_LIBS ${GS_ENCODER_LIBS} ${libraries} PARENT_SCOPE)
    set(GS_ENCODERS ${GS_ENCODERS} GS_ENCODE_${name} PARENT_SCOPE)
endfunction()

if(GOSSAMER_BUILD_CODINGS)
    gs_encoder(GZIP libdeflate.h libdeflate-dev deflate)
    gs_encoder(BROTLI brotli/encode.h libbrotli-dev brotlienc)
    if("GS_HTTP_ZSTD" IN_LIST GS_HTTP_CODINGS)
        list(APPEND GS_ENCODER_LIBS zstd::zstd)
        list(APPEND GS_ENCODERS GS_ENCODE_ZSTD)
    endif()
    # Which the encoder needs where it is static.
    if("GS_HTTP_BROTLI" IN_LIST GS_HTTP_CODINGS)
        list(APPEND GS_ENCODER_LIBS brotlicommon::brotlicommon)
    endif()
endif()

function(gs_http_encoders target)
    target_compile_definitions(${target} PRIVATE ${GS_ENCODERS})
    target_link_libraries(${target} PUBLIC ${GS_ENCODER_LIBS})
endfunction()
