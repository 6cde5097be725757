# Builds the checkout that this port is in: vcpkg install gossamer --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        codings GOSSAMER_BUILD_CODINGS
        dns GOSSAMER_BUILD_DNS
        http2 GOSSAMER_BUILD_HTTP2
        tls GOSSAMER_BUILD_TLS
)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${FEATURE_OPTIONS}
        -DGOSSAMER_BUILD_PROGRAM=OFF
        -DGOSSAMER_BUILD_COMPAT=OFF
        -DGOSSAMER_BUILD_CC=OFF
        -DGOSSAMER_BUILD_EXAMPLES=OFF
        -DGOSSAMER_BUILD_BENCH=OFF
        -DGOSSAMER_BUILD_TESTS=OFF
        -DGOSSAMER_SPLIT_DEBUG=OFF
        -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON # which would make the reference
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gossamer)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
