#include "compiler/plugin/convert/frame_locals.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugProgramInstruction.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

using namespace llvm;

namespace cc
{

// ---- Types, as C writes them ----

static std::string typeName(const DIType *type);

static std::string arrayName(const DICompositeType &array)
{
    std::string name = typeName(array.getBaseType());
    for (const DINode *element : array.getElements()) {
        const auto *range = dyn_cast<DISubrange>(element);
        const auto *count = range ? dyn_cast_if_present<ConstantInt *>(range->getCount()) : nullptr;
        if (!count)
            return "";
        name += name.empty() ? "" : "[" + std::to_string(count->getZExtValue()) + "]";
    }
    return name;
}

static std::string compositeName(const DICompositeType &type)
{
    const unsigned tag = type.getTag();
    if (tag == dwarf::DW_TAG_array_type)
        return arrayName(type);
    if (type.getName().empty())
        return "";
    const char *kind = tag == dwarf::DW_TAG_structure_type     ? "struct "
                       : tag == dwarf::DW_TAG_union_type       ? "union "
                       : tag == dwarf::DW_TAG_enumeration_type ? "enum "
                                                               : "";
    return kind + type.getName().str();
}

// Returns an empty text if the type has no name.
static std::string typeName(const DIType *type)
{
    if (!type)
        return "void";
    if (const auto *composite = dyn_cast<DICompositeType>(type))
        return compositeName(*composite);
    const auto *derived = dyn_cast<DIDerivedType>(type);
    if (!derived || derived->getTag() == dwarf::DW_TAG_typedef)
        return type->getName().str();
    if (derived->getTag() != dwarf::DW_TAG_pointer_type)
        return typeName(derived->getBaseType());
    const std::string base = typeName(derived->getBaseType());
    return base.empty() ? "void *" : base + " *";
}

// ---- Which variable a value is ----

// Returns what the record says of a variable; nullptr: nothing that is that simple.
static DILocalVariable *variableOf(const DbgVariableRecord &record, const Value &value)
{
    const bool isWhole = !record.isKillLocation() && record.getNumVariableLocationOps() == 1 &&
                         record.getExpression()->getNumElements() == 0;
    return isWhole && record.getVariableLocationOp(0) == &value ? record.getVariable() : nullptr;
}

static bool isOf(const DbgVariableRecord &record, const DebugVariable &variable)
{
    return record.getVariable() == variable.getVariable() &&
           record.getDebugLoc().getInlinedAt() == variable.getInlinedAt();
}

// What is known last of the variable where the call is; nullptr: it depends on the way there.
static const DbgVariableRecord *lastBefore(const CallBase &call, const DebugVariable &variable)
{
    const BasicBlock *block = call.getParent();
    const Instruction *at = &call;
    SmallPtrSet<const BasicBlock *, 8> seen;
    while (block && seen.insert(block).second) {
        for (; at; at = at->getPrevNode())
            for (const DbgVariableRecord &record :
                 reverse(filterDbgVars(const_cast<Instruction *>(at)->getDbgRecordRange())))
                if (isOf(record, variable))
                    return &record;
        block = block->getUniquePredecessor();
        at = block ? block->getTerminator() : nullptr;
    }
    return nullptr;
}

// Whether the variable has the value at the call.
static bool hasValue(const CallBase &call, const DbgVariableRecord &record, Value &value,
                     ArrayRef<DbgVariableRecord *> all)
{
    const DbgVariableRecord *last = lastBefore(call, DebugVariable(&record));
    if (last)
        return variableOf(*last, value);
    return all.size() == 1;
}

FrameLocals::FrameLocals(const CallBase &call, ArrayRef<Value *> values,
                         ArrayRef<AllocaInst *> contents, ArrayRef<Object> objects)
    : values(values), contents(contents)
{
    if (!call.getFunction()->getSubprogram() || !call.getDebugLoc())
        return;
    for (Value *value : values) {
        for (const Object &object : objects)
            if (object.block == value && object.variable)
                locals.push_back({value, const_cast<DILocalVariable *>(object.variable),
                                  DILocation::get(call.getContext(), object.variable->getLine(), 0,
                                                  object.variable->getScope()),
                                  true, object.offset, object.slot});
        SmallVector<DbgVariableIntrinsic *, 1> none;
        SmallVector<DbgVariableRecord *, 4> records;
        findDbgUsers(none, value, &records);
        for (DbgVariableRecord *record : records)
            if (DILocalVariable *variable = variableOf(*record, *value);
                variable && hasValue(call, *record, *value, records)) {
                locals.push_back({value, variable, record->getDebugLoc(), false, 0, nullptr});
                break;
            }
    }
}

static std::string line(const DILocalVariable &variable, uint64_t at)
{
    const std::string type = typeName(variable.getType());
    return type.empty() ? "" : variable.getName().str() + "\t" + type + "\t" + std::to_string(at);
}

std::string FrameLocals::textFor(const RecordLayout &layout) const
{
    std::string text;
    const auto add = [&](const std::string &one) { text += one.empty() ? "" : one + "\n"; };
    for (unsigned i = 0; i < values.size(); i++)
        for (const RestoredLocal &local : locals) {
            if (local.value != values[i])
                continue;
            const std::string one = line(*local.variable, layout.values[i]);
            add(local.isInBlock && !one.empty() ? one + "\t" + std::to_string(local.offset) : one);
        }
    for (unsigned i = 0; i < contents.size(); i++)
        for (DbgVariableRecord *declared : findDVRDeclares(contents[i]))
            if (DILocalVariable *variable = variableOf(*declared, *contents[i]))
                add(line(*variable, layout.contents[i]));
    return text;
}

// ---- What debuggers are told ----

static DIExpression *inBlock(LLVMContext &context, uint64_t offset)
{
    return DIExpression::get(context, {dwarf::DW_OP_plus_uconst, offset, dwarf::DW_OP_deref});
}

AllocaInst *addSlot(Instruction &block)
{
    const Function &function = *block.getFunction();
    if (!function.hasOptNone() || !function.getSubprogram())
        return nullptr;
    auto *slot = new AllocaInst(block.getType(), 0, "environment.slot", block.getIterator());
    new StoreInst(&block, slot, block.getNextNode()->getIterator());
    return slot;
}

// The slot has the address of the block.
static void declareInSlot(AllocaInst &slot, DILocalVariable *variable, uint64_t offset,
                          const DILocation *location)
{
    DIBuilder builder(*slot.getModule(), false);
    DIExpression *expression = DIExpression::get(
        slot.getContext(), {dwarf::DW_OP_deref, dwarf::DW_OP_plus_uconst, offset});
    builder.insertDeclare(&slot, variable, expression, location, slot.getNextNode());
}

DILocalVariable *describeInBlock(AllocaInst &variable, Instruction &block, AllocaInst *slot,
                                 uint64_t offset)
{
    DILocalVariable *result = nullptr;
    DIBuilder builder(*block.getModule(), false);
    for (DbgVariableRecord *declared : findDVRDeclares(&variable)) {
        if (!variableOf(*declared, variable))
            continue;
        // Scopes of functions that were inlined have a place of their own.
        if (!declared->getDebugLoc().getInlinedAt())
            result = declared->getVariable();
        if (slot)
            declareInSlot(*slot, declared->getVariable(), offset, declared->getDebugLoc().get());
        else
            builder.insertDbgValueIntrinsic(&block, declared->getVariable(),
                                            inBlock(block.getContext(), offset),
                                            declared->getDebugLoc().get(), block.getNextNode());
        declared->eraseFromParent();
    }
    return result;
}

static Metadata *mapped(ValueToValueMapTy &map, Metadata *node)
{
    const std::optional<Metadata *> found = map.getMappedMD(node);
    return found ? *found : nullptr;
}

void describe(const RestoredLocal &local, Value &restored, BasicBlock &code, ValueToValueMapTy &map)
{
    if (local.slot && isa<PHINode>(restored))
        return; // the slot has it
    if (local.slot) {
        new StoreInst(&restored, map[local.slot], &code);
        return;
    }
    auto *variable = dyn_cast_or_null<DILocalVariable>(mapped(map, local.variable));
    auto *location = dyn_cast_or_null<DILocation>(mapped(map, local.location));
    if (variable && !location && !local.location->getInlinedAt())
        location =
            DILocation::get(code.getContext(), local.location->getLine(), 0, variable->getScope());
    if (!variable || !location)
        return;
    LLVMContext &context = code.getContext();
    DIBuilder builder(*code.getModule(), false);
    DIExpression *expression =
        local.isInBlock ? inBlock(context, local.offset) : DIExpression::get(context, {});
    if (isa<PHINode>(restored))
        builder.insertDbgValueIntrinsic(&restored, variable, expression, location,
                                        &*code.getFirstInsertionPt());
    else
        builder.insertDbgValueIntrinsic(&restored, variable, expression, location, &code);
}

void moveDeclarations(BasicBlock &from, BasicBlock &to,
                      function_ref<bool(const Value *)> isRestored)
{
    for (Instruction &instruction : from)
        for (DbgVariableRecord &record :
             make_early_inc_range(filterDbgVars(instruction.getDbgRecordRange()))) {
            if (!record.isDbgDeclare())
                continue;
            record.removeFromParent();
            if (record.getVariable()->isParameter() &&
                record.getExpression()->getNumElements() == 0 && !isRestored(record.getAddress()))
                record.deleteRecord();
            else
                to.insertDbgRecordBefore(&record, to.getTerminator()->getIterator());
        }
}

} // namespace cc
