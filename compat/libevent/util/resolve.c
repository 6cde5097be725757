/* Host names. */
#include <event2/util.h>
#include <stddef.h>

int evutil_getaddrinfo(const char *nodename, const char *servname,
                       const struct evutil_addrinfo *hints_in, struct evutil_addrinfo **res)
{
    return getaddrinfo(nodename, servname, hints_in, res);
}

void evutil_freeaddrinfo(struct evutil_addrinfo *ai)
{
    if (ai)
        freeaddrinfo(ai);
}

const char *evutil_gai_strerror(int err)
{
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {0, "No error"},
        {EVUTIL_EAI_ADDRFAMILY, "address family for nodename not supported"},
        {EVUTIL_EAI_AGAIN, "temporary failure in name resolution"},
        {EVUTIL_EAI_BADFLAGS, "invalid value for ai_flags"},
        {EVUTIL_EAI_FAIL, "non-recoverable failure in name resolution"},
        {EVUTIL_EAI_FAMILY, "ai_family not supported"},
        {EVUTIL_EAI_MEMORY, "memory allocation failure"},
        {EVUTIL_EAI_NODATA, "no address associated with nodename"},
        {EVUTIL_EAI_NONAME, "nodename nor servname provided, or not known"},
        {EVUTIL_EAI_SERVICE, "servname not supported for ai_socktype"},
        {EVUTIL_EAI_SOCKTYPE, "ai_socktype not supported"},
        {EVUTIL_EAI_SYSTEM, "system error"},
        {EVUTIL_EAI_CANCEL, "Request canceled"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].error == err)
            return texts[i].text;
    return gai_strerror(err);
}
