# The library: libgossamer.a (gossamer::static) and libgossamer.so (gossamer::shared), of the modules in src/, and
# libgossamer_checked.a (gossamer::checked). The target gossamer::gossamer is the shared one, or, if that is not built or BUILD_SHARED_LIBS is off, the static one.

set(modules base loop ${GS_DNS_MODULES} thread stage http ${GS_HTTP2_MODULES} http_server http_client
    websocket websocket_stream)
list(TRANSFORM modules PREPEND gossamer_)
list(TRANSFORM GS_TLS_MODULES PREPEND gossamer_ OUTPUT_VARIABLE tls_modules)

# gs_public(NAME FILE): what the libraries have in common; gossamer_NAME has the alias gossamer::NAME, and is libFILE. Its
# users see the public headers and the options for stacks.
function(gs_public name file)
    set(target gossamer_${name})
    add_library(gossamer::${name} ALIAS ${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file} LINKER_LANGUAGE C EXPORT_NAME ${name})
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    foreach(compiler GNU Clang)
        target_compile_options(${target} INTERFACE
            "$<$<COMPILE_LANG_AND_ID:C,${compiler}>:${GS_STACK_OPTIONS_${compiler}}>"
            "$<$<COMPILE_LANG_AND_ID:CXX,${compiler}>:${GS_STACK_OPTIONS_${compiler}}>")
    endforeach()
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m ${GS_HTTP2_LIBS} ${GS_HTTP_CODING_LIBS}
        ${GS_DNS_LIBS})
endfunction()

# gs_add_static(NAME FILE MODULE...): all modules as one object, in which only the public symbols are global: the names of the
# others are free for programs. GCC does the link-time optimisation here, so that the archive suits every compiler.
function(gs_add_static name file)
    set(folder ${PROJECT_BINARY_DIR}/static/$<CONFIG>)
    set(object ${folder}/${file}.o)
    separate_arguments(flags NATIVE_COMMAND "${CMAKE_C_FLAGS}")
    if(CMAKE_C_COMPILER_TARGET)
        list(PREPEND flags --target=${CMAKE_C_COMPILER_TARGET})
    endif()
    if(CMAKE_C_COMPILER_ID STREQUAL GNU)
        list(APPEND flags -flto=auto -flinker-output=nolto-rel ${GS_PATH_OPTIONS})
    endif()
    list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
    add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        COMMAND ${CMAKE_C_COMPILER} ${flags} -r -nostdlib -Wl,--build-id=none -o ${object} -Wl,--whole-archive ${archives}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
        DEPENDS ${ARGN} COMMENT "Linking the object of lib${file}.a" VERBATIM)
    add_library(gossamer_${name} STATIC ${object})
    gs_public(${name} ${file})
endfunction()

# gs_add_shared(NAME FILE MODULE...): calls within the library are bound to it. It stays loaded when a program closes it: it has
# handlers for signals and forks. Its symbols have a version.
function(gs_add_shared name file)
    set(map ${PROJECT_BINARY_DIR}/${file}.map)
    string(MAKE_C_IDENTIFIER ${file}_${GOSSAMER_ABI} GS_SYMBOL_VERSION)
    string(TOUPPER ${GS_SYMBOL_VERSION} GS_SYMBOL_VERSION)
    configure_file(${PROJECT_SOURCE_DIR}/src/gossamer.map.in ${map} @ONLY)
    list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
    add_library(gossamer_${name} SHARED ${objects})
    gs_public(${name} ${file})
    set_target_properties(gossamer_${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${GOSSAMER_ABI} LINK_DEPENDS ${map})
    target_link_options(gossamer_${name} PRIVATE -Wl,--version-script=${map} -Wl,-Bsymbolic-functions -Wl,-z,nodelete)
    # What a sanitizer adds is defined by the program.
    if(NOT GS_SANITIZE)
        target_link_options(gossamer_${name} PRIVATE -Wl,-z,defs)
    endif()
endfunction()

include(GNUInstallDirs)
if(GOSSAMER_BUILD_STATIC)
    gs_add_static(static gossamer ${modules})
    if(tls_modules)
        gs_add_static(tls_static gossamer-tls ${tls_modules})
        target_link_libraries(gossamer_tls_static PUBLIC gossamer_static OpenSSL::SSL OpenSSL::Crypto)
    endif()
endif()
if(GOSSAMER_BUILD_CHECKED)
    include(GossamerChecked)
endif()
if(GOSSAMER_BUILD_SHARED)
    gs_add_shared(shared gossamer ${modules})
    if(tls_modules)
        gs_add_shared(tls_shared gossamer-tls ${tls_modules})
        target_link_libraries(gossamer_tls_shared PUBLIC gossamer_shared PRIVATE OpenSSL::SSL OpenSSL::Crypto)
    endif()
endif()
set(kind static)
if(GOSSAMER_BUILD_SHARED AND NOT (GOSSAMER_BUILD_STATIC AND DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS))
    set(kind shared)
endif()
add_library(gossamer::gossamer ALIAS gossamer_${kind})
if(tls_modules)
    add_library(gossamer::tls ALIAS gossamer_tls_${kind})
endif()
