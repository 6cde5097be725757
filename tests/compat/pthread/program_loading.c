/* A library that starts threads while it is loaded, and waits for them: the loader's lock is held
 * meanwhile. */
#include "tests/compat/pthread/program.h"

#include <dlfcn.h>

int main(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW);
    SHOW(library != NULL);
    int (*started)(void) = library ? (int (*)(void))dlsym(library, "library_started") : NULL;
    SHOW(started && started() == 3);
    SHOW(library && !dlclose(library));
    return 0;
}
