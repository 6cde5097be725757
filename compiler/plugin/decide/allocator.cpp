#include "compiler/plugin/decide/allocator.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

// What a program may define in place of the C library's (glibc's manual, 3.2.5), and the operators
// of C++.
static const StringRef Names[] = {
    "malloc",         "free",     "calloc", "realloc", "reallocarray",       "aligned_alloc",
    "posix_memalign", "memalign", "valloc", "pvalloc", "malloc_usable_size", "cfree",
};
static const StringRef Operators[] = {"_Znw", "_Zna", "_Zdl", "_Zda"};

bool isAllocator(const Function &function)
{
    const StringRef name = function.getName();
    return !function.isDeclaration() && !function.hasLocalLinkage() &&
           (is_contained(Names, name) ||
            any_of(Operators, [&](StringRef prefix) { return name.starts_with(prefix); }));
}

void keepAllocators(Module &module)
{
    for (Function &function : module)
        if (isAllocator(function)) {
            function.removeFnAttr(Attribute::AlwaysInline);
            function.addFnAttr(Attribute::NoInline);
        }
}

static void enclose(Function &function)
{
    Module &module = *function.getParent();
    IRBuilder<> builder(&*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    // As large as struct gs_cc_allocation of the runtime.
    Type *const pointer = builder.getPtrTy();
    AllocaInst *state = builder.CreateAlloca(ArrayType::get(pointer, 6));
    const auto call = [&](const char *name) {
        builder.CreateCall(module.getOrInsertFunction(name, builder.getVoidTy(), pointer), {state});
    };
    call("gs_cc_allocator_enter");
    for (BasicBlock &block : function)
        if (auto *end = dyn_cast<ReturnInst>(block.getTerminator())) {
            Instruction *last = block.getTerminatingMustTailCall();
            builder.SetInsertPoint(last ? last : end);
            call("gs_cc_allocator_leave");
        }
}

void encloseAllocators(ArrayRef<Function *> waiting)
{
    for (Function *function : waiting)
        if (isAllocator(*function))
            enclose(*function);
}

} // namespace cc
