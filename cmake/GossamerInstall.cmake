# What `cmake --install build/release` puts under its prefix: the program, the library with its headers and its pkg-config
# file, and the manual pages. The lab is not installed: it runs from a checkout, with Python packages of its own.

include(GNUInstallDirs)

# The rooms of the library, in one archive.
set(objects base loop thread stage http)
list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:gossamer_\\1>")
add_library(library STATIC ${objects})
set_target_properties(library PROPERTIES OUTPUT_NAME gossamer LINKER_LANGUAGE C)

# Relative, so that what is installed may be moved.
file(RELATIVE_PATH GS_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/gossamer.pc.in ${PROJECT_BINARY_DIR}/gossamer.pc @ONLY)
install(TARGETS library gossamer_check)
install(DIRECTORY include/gossamer TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/gossamer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(section 1 7)
    file(GLOB pages CONFIGURE_DEPENDS docs/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
if(TARGET gossamer)
    install(TARGETS gossamer)
endif()
