#include <gossamer/error.h>
#include <string.h>

const char *gs_strerror(int result)
{
    switch (result) {
    case GS_ENONAME:
    case -GS_ENONAME:
        return "unknown name or service";
    case GS_ENAMESERVER:
    case -GS_ENAMESERVER:
        return "the name server does not answer";
    default:
        return strerror((int)(result < 0 ? 0u - (unsigned)result : (unsigned)result));
    }
}
