# What `cmake --install build/release` puts under its prefix: the library with its headers, for pkg-config, CMake and gdb, the
# examples, the program, and the manual pages. Every path in it is relative, so that what is installed may be moved. The lab
# is not installed: it runs from a checkout, with Python packages of its own.

include(CMakePackageConfigHelpers)
include(GossamerDebugData)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gossamer)

# Each library has an export set of its own, so that a distribution can leave one out.
foreach(kind static shared checked tls_static tls_shared)
    if(TARGET gossamer_${kind})
        install(TARGETS gossamer_${kind} EXPORT gossamer-${kind})
        install(EXPORT gossamer-${kind} NAMESPACE gossamer:: DESTINATION ${package_dir})
    endif()
endforeach()
if(NOT GS_TLS_MODULES)
    set(no_tls PATTERN "tls*" EXCLUDE)
endif()
install(DIRECTORY include/gossamer TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" ${no_tls})

# Before 1.0 a minor version may be incompatible.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gossamer-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/gossamer-config.cmake ${PROJECT_BINARY_DIR}/gossamer-config-version.cmake DESTINATION ${package_dir})

# With the static library alone, a program needs what that needs.
set(GS_LIBS_PRIVATE "-pthread -lm")
list(TRANSFORM CMAKE_DL_LIBS PREPEND " -l" OUTPUT_VARIABLE dl)
set(private ${GS_HTTP2_LIBS} ${GS_HTTP_CODING_LIBS} ${GS_DNS_LIBS})
list(TRANSFORM private REPLACE ".*::" " -l")
string(APPEND GS_LIBS_PRIVATE ${dl} ${private})
if(NOT GOSSAMER_BUILD_SHARED)
    set(GS_LIBS " ${GS_LIBS_PRIVATE}")
    set(GS_TLS_LIBS " -lssl -lcrypto")
endif()
list(JOIN GS_STACK_OPTIONS_GNU " " GS_CFLAGS)
foreach(dir LIBDIR INCLUDEDIR)
    file(RELATIVE_PATH GS_${dir} ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_${dir}})
endforeach()
set(packages gossamer)
if(TARGET gossamer_checked)
    list(APPEND packages gossamer-checked)
endif()
if(GS_TLS_MODULES)
    list(APPEND packages gossamer-tls)
endif()
foreach(package ${packages})
    configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The script that adds source lines to dumps, and the one for gdb; where gdb looks for scripts of a library, it is loaded with that.
install(PROGRAMS tools/source-lines DESTINATION ${CMAKE_INSTALL_DATADIR}/gossamer)
set(script tools/gdb/gossamer.py)
install(FILES ${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/gossamer/gdb)
if(TARGET gossamer_shared)
    set(auto_load ${PROJECT_BINARY_DIR}/gdb/libgossamer.so.${PROJECT_VERSION}-gdb.py)
    configure_file(${script} ${auto_load} COPYONLY)
    install(CODE "
        set(libdir \"${CMAKE_INSTALL_LIBDIR}\")
        set(datadir \"${CMAKE_INSTALL_DATADIR}\")
        cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
        cmake_path(ABSOLUTE_PATH datadir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
        file(INSTALL \"${auto_load}\" DESTINATION \"\${datadir}/gdb/auto-load\${libdir}\")")
endif()

file(GLOB examples CONFIGURE_DEPENDS examples/*.c examples/*.cpp)
install(FILES ${examples} examples/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
foreach(section 1 7)
    if(section EQUAL 7 OR TARGET gossamer)
        file(GLOB pages CONFIGURE_DEPENDS docs/man/*.${section})
        install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
endforeach()
if(TARGET gossamer_run)
    install(TARGETS gossamer_run LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/gossamer)
    gs_install_debug_data(gossamer_run ${CMAKE_INSTALL_LIBDIR}/gossamer)
endif()
foreach(library gossamer_shared gossamer_tls_shared)
    if(TARGET ${library})
        gs_install_debug_data(${library} ${CMAKE_INSTALL_LIBDIR})
    endif()
endforeach()
if(TARGET gossamer)
    install(FILES serve/config/schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/gossamer RENAME serve.schema.json)
    install(TARGETS gossamer)
    gs_install_debug_data(gossamer ${CMAKE_INSTALL_BINDIR})
endif()

# The reference of the library, which is made from its headers; nothing else needs Python to be built.
find_package(Python3 3.10 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT CMAKE_CROSSCOMPILING)
    file(GLOB sources CONFIGURE_DEPENDS include/gossamer/*.h include/gossamer/*.hpp examples/*.c docs/*.md docs/man/*.7
        tools/reference/*.py tools/reference/*.css)
    add_custom_command(OUTPUT docs.stamp
        COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/docs docs
        COMMAND ${CMAKE_COMMAND} -E touch docs.stamp
        DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/tools/docs VERBATIM)
    add_custom_target(gossamer_docs ALL DEPENDS docs.stamp)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/html DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
endif()
