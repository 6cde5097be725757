#include "http/status.h"

#include <stddef.h>

const char *gs_http_status_text(unsigned status)
{
    static const char *const texts[600] = {
        [200] = "200 OK",
        [201] = "201 Created",
        [202] = "202 Accepted",
        [204] = "204 No Content",
        [206] = "206 Partial Content",
        [301] = "301 Moved Permanently",
        [302] = "302 Found",
        [303] = "303 See Other",
        [304] = "304 Not Modified",
        [307] = "307 Temporary Redirect",
        [308] = "308 Permanent Redirect",
        [400] = "400 Bad Request",
        [401] = "401 Unauthorized",
        [403] = "403 Forbidden",
        [404] = "404 Not Found",
        [405] = "405 Method Not Allowed",
        [406] = "406 Not Acceptable",
        [408] = "408 Request Timeout",
        [409] = "409 Conflict",
        [410] = "410 Gone",
        [411] = "411 Length Required",
        [412] = "412 Precondition Failed",
        [413] = "413 Content Too Large",
        [414] = "414 URI Too Long",
        [415] = "415 Unsupported Media Type",
        [416] = "416 Range Not Satisfiable",
        [417] = "417 Expectation Failed",
        [421] = "421 Misdirected Request",
        [422] = "422 Unprocessable Content",
        [428] = "428 Precondition Required",
        [429] = "429 Too Many Requests",
        [431] = "431 Request Header Fields Too Large",
        [500] = "500 Internal Server Error",
        [501] = "501 Not Implemented",
        [502] = "502 Bad Gateway",
        [503] = "503 Service Unavailable",
        [504] = "504 Gateway Timeout",
        [505] = "505 HTTP Version Not Supported",
    };
    return status < sizeof texts / sizeof *texts ? texts[status] : NULL;
}
