// What sanitizers are not to check.
#ifndef GS_COMPILER_SANITIZERS_H
#define GS_COMPILER_SANITIZERS_H

#include <llvm/IR/PassManager.h>

namespace cc
{

// The state of a kernel thread is used by all its threads in turn, which the thread sanitizer would
// take for a race; and so would it the runtime's and the library's own data, by functions of libc
// that they call. Runs directly before the sanitizers: earlier passes may lose the mark.
class LeaveStateAlone : public llvm::PassInfoMixin<LeaveStateAlone>
{
  public:
    llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
    static bool isRequired()
    {
        return true;
    }
};

// Give the program its options for the thread sanitizer.
void setDefaultsOfSanitizer(llvm::Module &module);

} // namespace cc

#endif
