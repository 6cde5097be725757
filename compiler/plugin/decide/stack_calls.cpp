#include "compiler/plugin/decide/stack_calls.h"
#include "compiler/plugin/read/known.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

using namespace llvm;

namespace cc
{

static constexpr char Blocking[] = "gs_cc___blocking", Reading[] = "gs_cc___reading",
                      Writing[] = "gs_cc___writing";

namespace
{

// The layout of the box: the callee, the arguments, and the result.
class Box
{
  public:
    explicit Box(CallBase &call)
        : call(call), module(*call.getModule()), context(call.getContext()),
          pointer(PointerType::getUnqual(context))
    {
        fields.push_back(pointer);
        for (unsigned i = 0; i < call.arg_size(); i++)
            fields.push_back(isByValue(i) ? call.getParamByValType(i)
                                          : call.getArgOperand(i)->getType());
        if (!call.getType()->isVoidTy())
            fields.push_back(call.getType());
        type = StructType::get(context, fields);
    }

    void lower();

  private:
    bool isByValue(unsigned i) const
    {
        return call.isByValArgument(i);
    }
    Value *field(IRBuilder<> &builder, Value *box, unsigned i) const
    {
        return builder.CreateStructGEP(type, box, i);
    }
    void fill(IRBuilder<> &builder, Value *box) const;
    Function *makeCaller() const;
    void makeCallOf(IRBuilder<> &builder, Value *box) const;
    Value *streamOf(IRBuilder<> &builder, const StreamCall &stream) const;
    void makeStreamCall(IRBuilder<> &builder, Value *box, const StreamCall &stream) const;

    CallBase &call;
    Module &module;
    LLVMContext &context;
    PointerType *pointer;
    SmallVector<Type *, 8> fields;
    StructType *type;
};

void Box::fill(IRBuilder<> &builder, Value *box) const
{
    const DataLayout &layout = module.getDataLayout();
    if (!isa<Function>(call.getCalledOperand())) // or else its address would be taken
        builder.CreateStore(call.getCalledOperand(), field(builder, box, 0));
    for (unsigned i = 0; i < call.arg_size(); i++) {
        Value *at = field(builder, box, i + 1);
        if (isByValue(i))
            builder.CreateMemCpy(at, Align(1), call.getArgOperand(i), Align(1),
                                 layout.getTypeAllocSize(fields[i + 1]));
        else
            builder.CreateStore(call.getArgOperand(i), at);
    }
}

// The function that makes the call: its only argument is the box.
Function *Box::makeCaller() const
{
    FunctionType *signature = FunctionType::get(Type::getVoidTy(context), {pointer}, false);
    Function *caller = Function::Create(signature, GlobalValue::InternalLinkage,
                                        call.getFunction()->getName() + ".on_stack", module);
    caller->addFnAttr(Attribute::NoUnwind);
    IRBuilder<> builder(BasicBlock::Create(context, "", caller));
    SmallVector<Value *, 8> arguments;
    for (unsigned i = 0; i < call.arg_size(); i++) {
        Value *at = field(builder, caller->getArg(0), i + 1);
        arguments.push_back(isByValue(i) ? at : builder.CreateLoad(fields[i + 1], at));
    }
    Value *callee = isa<Function>(call.getCalledOperand())
                        ? call.getCalledOperand()
                        : builder.CreateLoad(pointer, field(builder, caller->getArg(0), 0));
    CallInst *result = builder.CreateCall(call.getFunctionType(), callee, arguments);
    result->setAttributes(call.getAttributes());
    result->removeFnAttr(Attribute::NoReturn);
    result->setCallingConv(call.getCallingConv());
    if (!call.getType()->isVoidTy())
        builder.CreateStore(result, field(builder, caller->getArg(0), fields.size() - 1));
    builder.CreateRetVoid();
    return caller;
}

// The runtime takes NULL for the standard input or output.
Value *Box::streamOf(IRBuilder<> &builder, const StreamCall &stream) const
{
    if (stream.stream >= 0)
        return call.getArgOperand(stream.stream);
    if (stream.stream == StandardError)
        return builder.CreateLoad(pointer, module.getOrInsertGlobal("stderr", pointer));
    return ConstantPointerNull::get(pointer);
}

// No format is an empty one; NULL stands for one wide character.
void Box::makeStreamCall(IRBuilder<> &builder, Value *box, const StreamCall &stream) const
{
    Type *const nothing = builder.getVoidTy();
    SmallVector<Value *, 4> arguments = {makeCaller(), box, streamOf(builder, stream)};
    if (!stream.reads) {
        builder.CreateCall(module.getOrInsertFunction(Writing, nothing, pointer, pointer, pointer),
                           arguments);
        return;
    }
    arguments.push_back(stream.format == OneCharacter ? ConstantPointerNull::get(pointer)
                        : stream.format == NoFormat   ? builder.CreateGlobalString("")
                                                      : call.getArgOperand(stream.format));
    builder.CreateCall(
        module.getOrInsertFunction(Reading, nothing, pointer, pointer, pointer, pointer),
        arguments);
}

// Have the runtime make the call. It waits for the stream of a call that reads from one.
void Box::makeCallOf(IRBuilder<> &builder, Value *box) const
{
    Type *const nothing = builder.getVoidTy();
    const auto *callee = dyn_cast<Function>(call.getCalledOperand());
    const StringRef name = callee && callee->isDeclaration() ? callee->getName() : "";
    if (const StreamCall *stream = findStreamCall(name)) {
        makeStreamCall(builder, box, *stream);
        return;
    }
    if (isBlocking(name)) {
        Value *size = builder.getInt64(module.getDataLayout().getTypeAllocSize(type));
        builder.CreateCall(
            module.getOrInsertFunction(Blocking, nothing, pointer, pointer, size->getType()),
            {makeCaller(), box, size});
        return;
    }
    builder.CreateCall(module.getOrInsertFunction(OnStack, nothing, pointer, pointer, pointer),
                       {makeCaller(), box, ConstantPointerNull::get(pointer)});
}

void Box::lower()
{
    IRBuilder<> builder(&call);
    Type *const nothing = builder.getVoidTy();
    const uint64_t size = module.getDataLayout().getTypeAllocSize(type);
    Value *box =
        builder.CreateCall(module.getOrInsertFunction("gs_cc_box", pointer, builder.getInt64Ty()),
                           {builder.getInt64(size)});
    fill(builder, box);
    makeCallOf(builder, box);
    if (!call.getType()->isVoidTy())
        call.replaceAllUsesWith(
            builder.CreateLoad(call.getType(), field(builder, box, fields.size() - 1)));
    builder.CreateCall(
        module.getOrInsertFunction("gs_cc_box_free", nothing, pointer, builder.getInt64Ty()),
        {box, builder.getInt64(size)});
    call.eraseFromParent();
}

} // namespace

bool isStackCall(const Function &function)
{
    return function.getName() == OnStack || function.getName() == Blocking ||
           function.getName() == Reading || function.getName() == Writing;
}

static bool isBlockingCall(const CallBase &call)
{
    const auto *callee = dyn_cast<Function>(call.getCalledOperand());
    return isa<CallInst>(call) && callee && callee->isDeclaration() &&
           isBlocking(callee->getName());
}

static unsigned lower(Function &function, function_ref<bool(const CallBase &)> isChosen)
{
    SmallVector<CallBase *, 8> found;
    for (Instruction &instruction : instructions(function)) {
        auto *call = dyn_cast<CallBase>(&instruction);
        if (call && isChosen(*call))
            found.push_back(call);
    }
    for (CallBase *call : found)
        Box(*call).lower();
    return found.size();
}

// The linker defines the bounds of a section of this name.
static constexpr char Section[] = "gs_cc_text", SectionStart[] = "__start_gs_cc_text",
                      SectionEnd[] = "__stop_gs_cc_text";

// What else is linked with the program, and its entries for other libraries, are elsewhere.
static void collectText(Module &module)
{
    if (module.getNamedValue(SectionStart))
        return;
    for (Function &function : module)
        if (!function.isDeclaration() && !function.hasSection())
            function.setSection(Section);
}

// Whether the pointer is to a function that was compiled.
static Value *isInProgram(IRBuilder<> &builder, Module &module, Value *pointer)
{
    collectText(module);
    const auto addressOf = [&](StringRef name) {
        auto *symbol = cast<GlobalValue>(module.getOrInsertGlobal(name, builder.getInt8Ty()));
        symbol->setVisibility(GlobalValue::HiddenVisibility);
        return builder.CreatePtrToInt(symbol, builder.getInt64Ty());
    };
    Value *start = addressOf(SectionStart), *end = addressOf(SectionEnd);
    Value *address = builder.CreatePtrToInt(pointer, builder.getInt64Ty());
    return builder.CreateICmpULT(builder.CreateSub(address, start), builder.CreateSub(end, start));
}

// Call a function of another library on a stack.
static void separate(CallInst &call)
{
    IRBuilder<> builder(&call);
    Value *own = isInProgram(builder, *call.getModule(), call.getCalledOperand());
    Instruction *inside = nullptr, *outside = nullptr;
    SplitBlockAndInsertIfThenElse(own, &call, &inside, &outside);
    auto *other = cast<CallInst>(call.clone());
    other->insertBefore(outside);
    if (!call.getType()->isVoidTy()) {
        builder.SetInsertPoint(&call);
        PHINode *result = builder.CreatePHI(call.getType(), 2);
        call.replaceAllUsesWith(result);
        result->addIncoming(&call, inside->getParent());
        result->addIncoming(other, outside->getParent());
    }
    call.moveBefore(inside);
    Box(*other).lower();
}

static unsigned separateOthers(Function &function, const Calls &calls)
{
    SmallVector<CallInst *, 8> found;
    for (Instruction &instruction : instructions(function)) {
        auto *call = dyn_cast<CallInst>(&instruction);
        if (call && calls.mayLeaveProgram(*call))
            found.push_back(call);
    }
    for (CallInst *call : found)
        separate(*call);
    return found.size();
}

unsigned lowerStackCalls(Function &function, const Calls &calls)
{
    const unsigned others = separateOthers(function, calls);
    return others + lower(function, [&](const CallBase &call) {
               return calls.kindOf(call) == CallKind::OnStack;
           });
}

void lowerBlockingCalls(Function &function)
{
    lower(function, isBlockingCall);
}

} // namespace cc
