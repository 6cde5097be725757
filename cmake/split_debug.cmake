# Run by an installation for a file BUILT, which was installed in DIR: takes the debug data out of what was installed.

cmake_path(ABSOLUTE_PATH DIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
cmake_path(GET BUILT FILENAME name)
execute_process(COMMAND ${READELF} --wide --sections --notes ${BUILT} OUTPUT_VARIABLE read COMMAND_ERROR_IS_FATAL ANY)
if(read MATCHES " \\.debug_info " AND read MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
    set(first ${CMAKE_INSTALL_PREFIX}/lib/debug/.build-id)
    set(data ${first}/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug)
    set(link ${DIR}/.debug/${CMAKE_MATCH_2}.debug)
    cmake_path(RELATIVE_PATH data BASE_DIRECTORY ${DIR}/.debug OUTPUT_VARIABLE relative)
    message(STATUS "Installing: ${data}")
    file(MAKE_DIRECTORY $ENV{DESTDIR}${first}/${CMAKE_MATCH_1} $ENV{DESTDIR}${DIR}/.debug)
    execute_process(COMMAND ${OBJCOPY} --only-keep-debug ${BUILT} $ENV{DESTDIR}${data} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(
        COMMAND ${OBJCOPY} --strip-debug --remove-section=.gnu_debuglink --add-gnu-debuglink=$ENV{DESTDIR}${data}
            $ENV{DESTDIR}${DIR}/${name}
        COMMAND_ERROR_IS_FATAL ANY)
    file(CREATE_LINK ${relative} $ENV{DESTDIR}${link} SYMBOLIC)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${data} ${link})
endif()
