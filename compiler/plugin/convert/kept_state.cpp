#include "compiler/plugin/convert/kept_state.h"

#include "compiler/runtime/start/kept.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>

using namespace llvm;

namespace cc
{

static const StringRef Locale[] = {"uselocale"};
static const StringRef Error[] = {"__h_errno_location"};
static const StringRef Numbers[] = {
    "fesetround",           "feclearexcept",     "feraiseexcept",   "fetestexcept",
    "fesetexcept",          "fesetexceptflag",   "feholdexcept",    "fesetenv",
    "feupdateenv",          "feenableexcept",    "fedisableexcept", "fesetmode",
    "llvm.x86.sse.ldmxcsr", "llvm.set.rounding", "llvm.set.fpenv",
};

static bool refersTo(const Module &module, ArrayRef<StringRef> names)
{
    return any_of(names, [&](StringRef name) {
        const Function *function = module.getFunction(name);
        return function && function->isDeclaration() && !function->use_empty();
    });
}

void noteKeptState(Module &module)
{
    const uint64_t kept = (refersTo(module, Locale) ? KEPT_LOCALE : 0) |
                          (refersTo(module, Error) ? KEPT_H_ERRNO : 0) |
                          (refersTo(module, Numbers) ? KEPT_NUMBERS : 0);
    auto *type = Type::getInt8Ty(module.getContext());
    new GlobalVariable(module, type, false, GlobalValue::ExternalLinkage,
                       ConstantInt::get(type, kept), "gs_cc_kept");
}

} // namespace cc
