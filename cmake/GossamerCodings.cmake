# The libraries that decode bodies for the HTTP client, and compress messages of WebSocket: GS_HTTP_CODING_LIBS with the names of
# their targets, and gs_http_codings(TARGET), which tells the target of them. A coding whose library is missing is left out.

set(GS_HTTP_CODING_LIBS)
set(GS_HTTP_CODINGS)
if(GOSSAMER_BUILD_CODINGS)
    foreach(coding "GZIP;z;zlib.h;zlib1g-dev" "BROTLI;brotlidec;brotli/decode.h;libbrotli-dev" "ZSTD;zstd;zstd.h;libzstd-dev")
        list(POP_FRONT coding name library header package)
        find_path(GS_${name}_INCLUDE_DIR ${header})
        find_library(GS_${name}_LIBRARY ${library})
        mark_as_advanced(GS_${name}_INCLUDE_DIR GS_${name}_LIBRARY)
        if(GS_${name}_INCLUDE_DIR AND GS_${name}_LIBRARY)
            list(APPEND GS_HTTP_CODING_LIBS ${library}::${library})
            list(APPEND GS_HTTP_CODINGS GS_HTTP_${name})
            add_library(${library}::${library} UNKNOWN IMPORTED GLOBAL)
            set_target_properties(${library}::${library} PROPERTIES
                IMPORTED_LOCATION ${GS_${name}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GS_${name}_INCLUDE_DIR})
        else()
            message(STATUS "the HTTP client decodes no ${name}: install ${package}")
        endif()
    endforeach()
endif()

function(gs_http_codings target)
    target_compile_definitions(${target} PRIVATE ${GS_HTTP_CODINGS})
    target_link_libraries(${target} PUBLIC ${GS_HTTP_CODING_LIBS})
endfunction()
