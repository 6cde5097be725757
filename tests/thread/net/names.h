/* A getaddrinfo without a name server: the names are those of a table, and "stuck" takes until the
 * test says that it may end. It replaces the C library's in the program. */
#ifndef GS_TESTS_THREAD_NAMES_H
#define GS_TESTS_THREAD_NAMES_H

#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct name {
    const char *name;
    const struct sockaddr_storage *addresses;
    unsigned count;
};

static struct name names[8]; /* the unused ones are all zero */
static atomic_int lookups_started, lookups_ended;
static sem_t lookup_may_end;

static inline int find_name(const char *node, struct addrinfo **ret_addresses)
{
    struct name *found = names;
    while (found->name && strcmp(found->name, node) != 0)
        found++;
    if (!found->name)
        return EAI_NONAME;
    for (unsigned i = found->count; i-- > 0;) {
        struct addrinfo *address = calloc(1, sizeof *address + sizeof *found->addresses);
        address->ai_addr = memcpy(address + 1, &found->addresses[i], sizeof *found->addresses);
        address->ai_family = address->ai_addr->sa_family;
        address->ai_addrlen = sizeof *found->addresses;
        address->ai_next = *ret_addresses;
        *ret_addresses = address;
    }
    return 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_addresses)
{
    (void)service, (void)hints;
    if (!strcmp(node, "unanswered"))
        return EAI_AGAIN;
    if (strcmp(node, "stuck") != 0)
        return find_name(node, ret_addresses);
    atomic_fetch_add(&lookups_started, 1);
    while (sem_wait(&lookup_may_end))
        ;
    int result = find_name(node, ret_addresses);
    atomic_fetch_add(&lookups_ended, 1);
    return result;
}

void freeaddrinfo(struct addrinfo *addresses)
{
    while (addresses) {
        struct addrinfo *next = addresses->ai_next;
        free(addresses);
        addresses = next;
    }
}

#endif
