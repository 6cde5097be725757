#include "http/status.h"

const char *gs_http_status_line(unsigned status)
{
    switch (status) {
    case 200:
        return "200 OK";
    case 206:
        return "206 Partial Content";
    case 301:
        return "301 Moved Permanently";
    case 304:
        return "304 Not Modified";
    case 400:
        return "400 Bad Request";
    case 403:
        return "403 Forbidden";
    case 404:
        return "404 Not Found";
    case 405:
        return "405 Method Not Allowed";
    case 408:
        return "408 Request Timeout";
    case 412:
        return "412 Precondition Failed";
    case 413:
        return "413 Content Too Large";
    case 414:
        return "414 URI Too Long";
    case 416:
        return "416 Range Not Satisfiable";
    case 417:
        return "417 Expectation Failed";
    case 421:
        return "421 Misdirected Request";
    case 431:
        return "431 Request Header Fields Too Large";
    case 501:
        return "501 Not Implemented";
    case 503:
        return "503 Service Unavailable";
    case 505:
        return "505 HTTP Version Not Supported";
    default:
        return "500 Internal Server Error";
    }
}
