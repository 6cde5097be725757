# The libraries that decode bodies for the HTTP client, and compress messages of WebSocket: GS_HTTP_CODING_LIBS with the names of
# their targets, and gs_http_codings(TARGET), which tells the target of them. A coding whose library is missing is left out.

set(GS_HTTP_CODING_LIBS)
set(GS_HTTP_CODINGS)

# gs_coding(NAME HEADER PACKAGE LIBRARY...): what it links with, in this order.
function(gs_coding name header package)
    find_path(GS_${name}_INCLUDE_DIR ${header})
    mark_as_advanced(GS_${name}_INCLUDE_DIR)
    foreach(library ${ARGN})
        find_library(GS_${library}_LIBRARY ${library})
        mark_as_advanced(GS_${library}_LIBRARY)
        if(NOT GS_${name}_INCLUDE_DIR OR NOT GS_${library}_LIBRARY)
            message(STATUS "the HTTP client decodes no ${name}: install ${package}")
            return()
        endif()
    endforeach()
    foreach(library ${ARGN})
        add_library(${library}::${library} UNKNOWN IMPORTED GLOBAL)
        set_target_properties(${library}::${library} PROPERTIES
            IMPORTED_LOCATION ${GS_${library}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GS_${name}_INCLUDE_DIR})
        list(APPEND GS_HTTP_CODING_LIBS ${library}::${library})
    endforeach()
    set(GS_HTTP_CODING_LIBS ${GS_HTTP_CODING_LIBS} PARENT_SCOPE)
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
