# Stands in for vcpkg, which no package registry has: the functions that the port calls, as vcpkg documents them, for a static
# debug build. It tests the portfile and its features, and not vcpkg.
#     cmake -DPORT_DIR=DIRECTORY -DFEATURES=LIST -DBUILD=DIRECTORY -DINSTALLED=DIRECTORY -P vcpkg_stand_in.cmake
cmake_minimum_required(VERSION 3.25)
file(READ ${PORT_DIR}/vcpkg.json manifest)
string(JSON PORT GET "${manifest}" name)
set(CURRENT_PACKAGES_DIR ${INSTALLED})

# The arguments of a function are parsed into arg_...; there are no others.
macro(parse_arguments one several)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "${one}" "${several}")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "not known: ${arg_UNPARSED_ARGUMENTS}")
    endif()
endmacro()

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_check_features)
    parse_arguments(OUT_FEATURE_OPTIONS FEATURES)
    set(options)
    while(arg_FEATURES)
        list(POP_FRONT arg_FEATURES feature variable)
        string(JSON description GET "${manifest}" features ${feature} description)
        set(is_chosen OFF)
        if(feature IN_LIST FEATURES)
            set(is_chosen ON)
        endif()
        list(APPEND options -D${variable}=${is_chosen})
    endwhile()
    set(${arg_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    parse_arguments(SOURCE_PATH OPTIONS)
    run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${BUILD} -G Ninja -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=OFF
        -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib
        -DCMAKE_ERROR_ON_ABSOLUTE_INSTALL_DESTINATION=ON ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
    run(${CMAKE_COMMAND} --build ${BUILD} --target install)
endfunction()

# What find_package reads is moved to share/PORT, where the prefix is two directories up.
function(vcpkg_cmake_config_fixup)
    parse_arguments(CONFIG_PATH "")
    set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
    file(GLOB files ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*.cmake)
    file(COPY ${files} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT})
    get_filename_component(parent ${arg_CONFIG_PATH} DIRECTORY)
    file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${parent})
    file(GLOB files ${CURRENT_PACKAGES_DIR}/share/${PORT}/*.cmake)
    foreach(file ${files})
        file(READ ${file} text)
        string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
        file(WRITE ${file} "${text}")
    endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
    file(GLOB_RECURSE files ${CURRENT_PACKAGES_DIR}/*.pc)
    foreach(file ${files})
        file(READ ${file} text)
        if(text MATCHES "${CURRENT_PACKAGES_DIR}" OR NOT file MATCHES "/lib/pkgconfig/")
            message(FATAL_ERROR "cannot be moved: ${file}")
        endif()
    endforeach()
endfunction()

function(vcpkg_install_copyright)
    parse_arguments("" FILE_LIST)
    configure_file(${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright COPYONLY)
endfunction()

include(${PORT_DIR}/portfile.cmake)
