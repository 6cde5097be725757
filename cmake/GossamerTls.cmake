# The modules that need OpenSSL: gossamer_tls and those above it. Without OpenSSL they are left out, and everything else is built
# without TLS.

set(GS_TLS_MODULES)
if(GOSSAMER_BUILD_TLS)
    find_package(OpenSSL 3.0 QUIET)
    if(OpenSSL_FOUND)
        set(GS_TLS_MODULES tls tls_stream)
    else()
        message(STATUS "without TLS: install libssl-dev (OpenSSL 3.0 or newer)")
    endif()
endif()
