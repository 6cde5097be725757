#include "serve/operations/number.h"

bool serve_take_number(const char **text, char end, uint64_t max, uint64_t *ret_number)
{
    const char *at = *text;
    uint64_t number = 0;
    if (!at || *at == end)
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (digit > max || number > (max - digit) / 10)
            return false;
        number = 10 * number + digit;
    }
    if (*at != end)
        return false;
    *ret_number = number;
    *text = end ? at + 1 : at;
    return true;
}
