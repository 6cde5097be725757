#include "compiler/plugin/convert/thread_locals.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

using namespace llvm;

namespace cc
{

static IntrinsicInst *addressOf(User *user)
{
    auto *call = dyn_cast<IntrinsicInst>(user);
    return call && call->getIntrinsicID() == Intrinsic::threadlocal_address ? call : nullptr;
}

static void defineNumber(Module &module, const char *name, uint64_t value)
{
    Type *type = Type::getInt64Ty(module.getContext());
    module.getOrInsertGlobal(name, type, [&] {
        return new GlobalVariable(module, type, true, GlobalValue::ExternalLinkage,
                                  ConstantInt::get(type, value), name);
    });
}

void moveThreadLocals(Module &module)
{
    LLVMContext &context = module.getContext();
    const DataLayout &layout = module.getDataLayout();
    SmallVector<Constant *, 8> contents;
    Type *const byte = Type::getInt8Ty(context);
    uint64_t end = 0, alignment = 1;
    for (GlobalVariable &variable : module.globals()) {
        if (!variable.isThreadLocal() || variable.isDeclaration() ||
            variable.hasAttribute(ReachedByOthers) || !all_of(variable.users(), addressOf))
            continue;
        const Align own =
            variable.getAlign().value_or(layout.getABITypeAlign(variable.getValueType()));
        const uint64_t at = alignTo(end, own);
        alignment = std::max(alignment, own.value());
        if (at > end)
            contents.push_back(ConstantAggregateZero::get(ArrayType::get(byte, at - end)));
        contents.push_back(variable.getInitializer());
        end = at + layout.getTypeAllocSize(variable.getValueType());
        for (User *user : make_early_inc_range(variable.users())) {
            IntrinsicInst *address = addressOf(user);
            IRBuilder<> builder(address);
            address->replaceAllUsesWith(builder.CreateCall(
                module.getOrInsertFunction("gs_cc_thread_local", builder.getPtrTy(),
                                           builder.getInt64Ty()),
                {builder.getInt64(at)}));
            address->eraseFromParent();
        }
    }
    Constant *initial = ConstantStruct::getAnon(context, contents, true);
    auto *image = new GlobalVariable(module, initial->getType(), true, GlobalValue::ExternalLinkage,
                                     initial, "gs_cc_thread_image");
    image->setAlignment(Align(16));
    defineNumber(module, "gs_cc_thread_image_size", end);
    defineNumber(module, "gs_cc_thread_image_alignment", alignment);
}

} // namespace cc
