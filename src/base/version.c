#include <gossamer/version.h>

const char *gs_version(void)
{
    return GOSSAMER_VERSION;
}

int gs_version_number(void)
{
    return GOSSAMER_VERSION_NUMBER;
}
