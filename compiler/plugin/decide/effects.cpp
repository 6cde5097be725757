#include "compiler/plugin/decide/effects.h"

#include <llvm/ADT/StringMap.h>

using namespace llvm;

namespace cc
{

namespace
{

struct Row {
    const char *name;
    Effect effect;
    unsigned argument;
};

const Row Rows[] = {
    {"pthread_mutex_lock", Effect::Lock, 0},
    {"pthread_mutex_timedlock", Effect::TryLock, 0},
    {"pthread_mutex_clocklock", Effect::TryLock, 0},
    {"pthread_mutex_trylock", Effect::TryLock, 0},
    {"pthread_mutex_unlock", Effect::Unlock, 0},
    {"pthread_spin_lock", Effect::Lock, 0},
    {"pthread_spin_trylock", Effect::TryLock, 0},
    {"pthread_spin_unlock", Effect::Unlock, 0},
    {"pthread_rwlock_rdlock", Effect::LockShared, 0},
    {"pthread_rwlock_tryrdlock", Effect::TryLockShared, 0},
    {"pthread_rwlock_timedrdlock", Effect::TryLockShared, 0},
    {"pthread_rwlock_wrlock", Effect::Lock, 0},
    {"pthread_rwlock_trywrlock", Effect::TryLock, 0},
    {"pthread_rwlock_timedwrlock", Effect::TryLock, 0},
    {"pthread_rwlock_unlock", Effect::Unlock, 0},
    {"sem_wait", Effect::Lock, 0},
    {"sem_trywait", Effect::TryLock, 0},
    {"sem_timedwait", Effect::TryLock, 0},
    {"sem_post", Effect::Unlock, 0},
    {"mtx_lock", Effect::Lock, 0},
    {"mtx_trylock", Effect::TryLock, 0},
    {"mtx_timedlock", Effect::TryLock, 0},
    {"mtx_unlock", Effect::Unlock, 0},
    {"pthread_create", Effect::Create, 2},
    {"thrd_create", Effect::Create, 1},
    {"pthread_join", Effect::Join, 0},
    {"thrd_join", Effect::Join, 0},
    {"malloc", Effect::Allocate, 0},
    {"calloc", Effect::Allocate, 0},
    {"realloc", Effect::Allocate, 0},
    {"reallocarray", Effect::Allocate, 0},
    {"aligned_alloc", Effect::Allocate, 0},
    {"memalign", Effect::Allocate, 0},
    {"strdup", Effect::Allocate, 0},
    {"strndup", Effect::Allocate, 0},
    {"mmap", Effect::Allocate, 0},
    {"read", Effect::Write, 1},
    {"recv", Effect::Write, 1},
    {"recvfrom", Effect::Write, 1},
    {"fgets", Effect::Write, 0},
    {"fread", Effect::Write, 0},
    {"strcpy", Effect::Write, 0},
    {"strncpy", Effect::Write, 0},
    {"strcat", Effect::Write, 0},
    {"strncat", Effect::Write, 0},
    {"stpcpy", Effect::Write, 0},
    {"memcpy", Effect::Write, 0},
    {"memset", Effect::Write, 0},
    {"sprintf", Effect::Write, 0},
    {"snprintf", Effect::Write, 0},
    {"vsnprintf", Effect::Write, 0},
    {"__strcpy_chk", Effect::Write, 0},
    {"__memcpy_chk", Effect::Write, 0},
    {"__sprintf_chk", Effect::Write, 0},
    {"__snprintf_chk", Effect::Write, 0},
};

} // namespace

LibraryCall effectOf(StringRef name)
{
    static StringMap<LibraryCall> table;
    if (table.empty())
        for (const Row &row : Rows)
            table[row.name] = {row.effect, row.argument};
    return table.lookup(name);
}

} // namespace cc
