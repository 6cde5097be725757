# The libraries that `make install-libevent` installs: libevent_core.so and .a, which contain the loop, libevent_pthreads, and
# libevent, which is the name of both together. Their shared libraries have names of their own at run time, so that no program
# that was built for another libevent loads them: the structures differ.

set(GS_LIBEVENT_VERSION 2.1.12-stable)
set(map ${CMAKE_CURRENT_SOURCE_DIR}/libevent.map)
set(folder ${PROJECT_BINARY_DIR}/libevent)
set(objects_event_core event_core loop base)
set(objects_event_pthreads event_pthreads)

# gs_libevent_static(NAME): one object of the modules, in which only libevent's names are global.
function(gs_libevent_static name)
    set(object ${folder}/lib${name}.o)
    separate_arguments(flags NATIVE_COMMAND "${CMAKE_C_FLAGS}")
    if(CMAKE_C_COMPILER_ID STREQUAL GNU)
        list(APPEND flags -flto=auto -flinker-output=nolto-rel ${GS_PATH_OPTIONS})
    endif()
    list(TRANSFORM objects_${name} REPLACE "(.+)" "gossamer_\\1")
    list(TRANSFORM objects_${name} REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
    add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        COMMAND ${CMAKE_C_COMPILER} ${flags} -r -nostdlib -Wl,--build-id=none -o ${object} -Wl,--whole-archive ${archives}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --localize-symbol=gs_* ${object}
        DEPENDS ${objects_${name}} COMMENT "Linking the object of lib${name}.a" VERBATIM)
    add_library(${name}_static STATIC EXCLUDE_FROM_ALL ${object})
    set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${folder})
endfunction()

function(gs_libevent_shared name)
    list(TRANSFORM objects_${name} REPLACE "(.+)" "$<TARGET_OBJECTS:gossamer_\\1>")
    add_library(${name}_shared SHARED EXCLUDE_FROM_ALL ${objects_${name}})
    set_target_properties(${name}_shared PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${folder}
        SOVERSION gossamer-${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${map} INSTALL_RPATH "$ORIGIN")
    target_link_options(${name}_shared PRIVATE -Wl,--version-script=${map} -Wl,-Bsymbolic-functions -Wl,-z,nodelete)
    target_link_libraries(${name}_shared PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()

foreach(name event_core event_pthreads)
    gs_libevent_static(${name})
    gs_libevent_shared(${name})
endforeach()
target_link_libraries(event_pthreads_shared PRIVATE event_core_shared)
add_custom_target(libevent DEPENDS event_core_static event_core_shared event_pthreads_static event_pthreads_shared)

# The name libevent, for the linker: both libraries.
file(WRITE ${folder}/libevent.so "INPUT(libevent_core.so libevent_pthreads.so)\n")
file(WRITE ${folder}/libevent.a "INPUT(libevent_pthreads.a libevent_core.a -lm)\n")

foreach(name libevent libevent_core libevent_pthreads)
    string(REPLACE "lib" "-l" libs ${name})
    if(name STREQUAL libevent_pthreads)
        string(APPEND libs " -levent_core")
    endif()
    configure_file(libevent.pc.in ${folder}/${name}.pc @ONLY)
    install(FILES ${folder}/${name}.pc DESTINATION lib/pkgconfig COMPONENT libevent EXCLUDE_FROM_ALL)
endforeach()
install(DIRECTORY include/ DESTINATION include COMPONENT libevent EXCLUDE_FROM_ALL)
install(FILES ${folder}/libevent.so ${folder}/libevent.a DESTINATION lib COMPONENT libevent EXCLUDE_FROM_ALL)
install(TARGETS event_core_static event_core_shared event_pthreads_static event_pthreads_shared
    LIBRARY DESTINATION lib COMPONENT libevent EXCLUDE_FROM_ALL ARCHIVE DESTINATION lib COMPONENT libevent EXCLUDE_FROM_ALL)
