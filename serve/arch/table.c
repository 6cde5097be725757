#include "serve/arch/arch.h"
#include "serve/operations/poller.h"

#include <stdio.h>
#include <string.h>

const struct serve_arch *const serve_archs[] = {
    &serve_arch_user,
    &serve_arch_event,
    &serve_arch_eager,
    &serve_arch_quad,
    &serve_arch_stage,
    &serve_arch_fork,
    &serve_arch_prefork,
    &serve_arch_thread,
    &serve_arch_pool,
    &serve_arch_queue,
    NULL,
};

const struct serve_arch *serve_arch_find(const char *name)
{
    for (const struct serve_arch *const *arch = serve_archs; *arch; arch++)
        if (!strcmp((*arch)->name, name))
            return *arch;
    return NULL;
}

void serve_arch_list(void)
{
    struct serve_poller_facts facts;
    serve_poller_find_facts(&facts);
    for (const struct serve_arch *const *arch = serve_archs; *arch; arch++) {
        struct serve_poller_choice choice;
        printf("%-8s  %s  (--workers: %s", (*arch)->name, (*arch)->summary, (*arch)->workers);
        if (serve_poller_choose(*arch, &facts, &choice))
            printf("; --poller auto: %s, %s", choice.poller, choice.reason);
        printf(")\n");
    }
}
