#include "compiler/plugin/convert/record.h"
#include "compiler/plugin/decide/calls.h"

#include <llvm/IR/DebugInfoMetadata.h>

using namespace llvm;

namespace cc
{

// The first members of a record are its site and the record of its caller; those of the state are
// what is tested after each call, and the result.
static constexpr uint64_t HeaderSize = 16;
static constexpr uint64_t MayLeaveOffset = 4, ResumingOffset = 40, TurnsOffset = 48,
                          ResultOffset = 64;

// ---- The layout of a record ----

Align RecordLayout::alignOf(const Value *value) const
{
    return std::min(layout->getABITypeAlign(value->getType()), Align(8));
}

uint64_t RecordLayout::sizeOf(const AllocaInst &variable) const
{
    return variable.getAllocationSize(*layout)->getFixedValue();
}

RecordLayout::RecordLayout(const DataLayout &layout, ArrayRef<Value *> live,
                           ArrayRef<AllocaInst *> variables)
    : values(live.size()), contents(variables.size()), layout(&layout)
{
    uint64_t end = HeaderSize;
    for (unsigned i = 0; i < variables.size(); i++) {
        end = alignTo(end, 8);
        contents[i] = end;
        end += sizeOf(*variables[i]);
    }
    // The largest alignment first: there are no gaps between the values.
    for (uint64_t align : {8, 4, 2, 1})
        for (unsigned i = 0; i < live.size(); i++) {
            if (alignOf(live[i]).value() != align)
                continue;
            end = alignTo(end, align);
            values[i] = end;
            end += layout.getTypeStoreSize(live[i]->getType());
        }
    size = end;
}

// ---- The state ----

State::State(Module &module) : module(module), pointer(PointerType::getUnqual(module.getContext()))
{
    LLVMContext &context = module.getContext();
    Type *const number = Type::getInt32Ty(context);
    siteType =
        StructType::get(context, {pointer, number, number, pointer, pointer, pointer, pointer});
    state = module.getGlobalVariable("gs_cc_state");
    if (state)
        return;
    state = new GlobalVariable(module, ArrayType::get(Type::getInt64Ty(context), 16), false,
                               GlobalValue::ExternalLinkage, nullptr, "gs_cc_state", nullptr,
                               GlobalValue::LocalExecTLSModel);
}

Value *State::address(IRBuilder<> &builder, uint64_t offset)
{
    Value *base = builder.CreateThreadLocalAddress(state);
    return offset ? builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, offset) : base;
}

Value *State::loadSuspending(IRBuilder<> &builder)
{
    Value *suspending = builder.CreateLoad(builder.getInt32Ty(), address(builder, 0));
    return builder.CreateICmpNE(suspending, builder.getInt32(0), "suspending");
}

Value *State::loadMayLeave(IRBuilder<> &builder)
{
    Value *mayLeave = builder.CreateLoad(builder.getInt32Ty(), address(builder, MayLeaveOffset));
    return builder.CreateICmpNE(mayLeave, builder.getInt32(0), "may.leave");
}

Value *State::countTurn(IRBuilder<> &builder)
{
    Value *const at = address(builder, TurnsOffset);
    Value *left = builder.CreateSub(builder.CreateLoad(builder.getInt32Ty(), at),
                                    builder.getInt32(1), "turns");
    builder.CreateStore(left, at);
    return builder.CreateICmpSLT(left, builder.getInt32(0));
}

Value *State::loadResuming(IRBuilder<> &builder)
{
    return builder.CreateLoad(pointer, address(builder, ResumingOffset), "resuming");
}

void State::storeResuming(IRBuilder<> &builder, Value *record)
{
    builder.CreateStore(record, address(builder, ResumingOffset));
}

void State::storeResult(IRBuilder<> &builder, Value *value)
{
    builder.CreateAlignedStore(value, address(builder, ResultOffset), Align(8));
}

Value *State::loadResult(IRBuilder<> &builder, Type *type)
{
    return builder.CreateAlignedLoad(type, address(builder, ResultOffset), Align(8));
}

// ---- Sites and records ----

static std::string placeOf(const CallBase &call)
{
    const DebugLoc &location = call.getDebugLoc();
    if (!location)
        return "";
    std::string place = location->getFilename().str() + ":" + std::to_string(location.getLine());
    for (const DILocation *at = location.get(); const DILocation *caller = at->getInlinedAt();
         at = caller)
        place += " in " + at->getScope()->getSubprogram()->getName().str() + ", inlined at " +
                 caller->getFilename().str() + ":" + std::to_string(caller->getLine());
    return place;
}

GlobalVariable *State::makeSite(Function &resume, const CallBase &call, unsigned index,
                                uint64_t size, const std::string &locals)
{
    IRBuilder<> builder(module.getContext());
    const auto *callee = dyn_cast<Function>(call.getCalledOperand());
    const auto text = [&](const std::string &text) -> Constant * {
        if (text.empty())
            return ConstantPointerNull::get(pointer);
        return builder.CreateGlobalString(text, "", 0, &module);
    };
    Constant *fields[] = {
        &resume,
        builder.getInt32(size),
        builder.getInt32(index),
        text(Calls::nameOf(*call.getFunction()).str()),
        text(placeOf(call)),
        text(callee ? Calls::nameOf(*callee).str() : ""),
        text(locals),
    };
    return new GlobalVariable(module, siteType, true, GlobalValue::InternalLinkage,
                              ConstantStruct::get(siteType, fields), "site");
}

Value *State::makeRecord(IRBuilder<> &builder, GlobalVariable &site)
{
    return builder.CreateCall(module.getOrInsertFunction("gs_cc_record", pointer, pointer),
                              {&site});
}

Value *State::field(IRBuilder<> &builder, Value *record, uint64_t offset)
{
    return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), record, offset);
}

Value *State::loadIndex(IRBuilder<> &builder, Value *record)
{
    Value *site = builder.CreateLoad(pointer, record);
    return builder.CreateLoad(builder.getInt32Ty(), builder.CreateStructGEP(siteType, site, 2));
}

void State::freeRecord(IRBuilder<> &builder, Value *record)
{
    builder.CreateCall(
        module.getOrInsertFunction("gs_cc_record_free", builder.getVoidTy(), pointer), {record});
}

} // namespace cc
