/* Numbers in the environment. */
#ifndef GS_SERVE_NUMBER_H
#define GS_SERVE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Take a decimal number of up to max, digits only, that this byte follows; *text is then behind it,
 * or at the end of the text if that is the byte. Returns false if there is none; *text stays. NULL
 * is no text. */
bool serve_take_number(const char **text, char end, uint64_t max, uint64_t *ret_number);

/* The whole text is such a number. */
static inline bool serve_is_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    return serve_take_number(&text, '\0', max, ret_number);
}

#endif
