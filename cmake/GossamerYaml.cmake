# libyaml, for the configuration files of gossamer serve: GS_YAML_LIBS with its target. Without it everything else is built, and
# --config says what is missing.

set(GS_YAML_LIBS)
if(GOSSAMER_BUILD_PROGRAM AND GOSSAMER_BUILD_YAML)
    gs_find_optional(GS_YAML_LIBS yaml.h yaml)
    if(NOT GS_YAML_LIBS)
        message(STATUS "without serve --config: install libyaml-dev")
    endif()
endif()
