#include "serve/arch/arch.h"

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
    for (const struct serve_arch *const *arch = serve_archs; *arch; arch++)
        printf("%-8s  %s  (--workers: %s)\n", (*arch)->name, (*arch)->summary, (*arch)->workers);
}
