#include "compiler/plugin/convert/stress.h"

#include <llvm/IR/IRBuilder.h>

using namespace llvm;

namespace cc
{

void addYields(Module &module, unsigned percent)
{
    FunctionCallee yield =
        module.getOrInsertFunction("sched_yield", Type::getInt32Ty(module.getContext()));
    uint32_t random = 12345;
    for (Function &function : module)
        for (BasicBlock &block : function) {
            random = random * 1103515245 + 12345;
            if ((random >> 16) % 100 >= percent)
                continue;
            BasicBlock::iterator at = block.getFirstNonPHIOrDbgOrAlloca();
            if (at == block.end())
                continue;
            IRBuilder<> builder(&block, at);
            builder.CreateCall(yield);
        }
}

} // namespace cc
