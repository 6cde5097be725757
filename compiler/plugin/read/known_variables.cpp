#include "compiler/plugin/read/known_variables.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

KnownVariables::KnownVariables(Function &function)
{
    number(function);
    const ReversePostOrderTraversal<Function *> order(&function);
    bool hasChanged = !variables.empty();
    while (hasChanged) {
        hasChanged = false;
        for (BasicBlock *block : order) {
            State at = stateBefore(*block);
            known[block] = at;
            for (Instruction &instruction : *block)
                for (DbgVariableRecord &record : filterDbgVars(instruction.getDbgRecordRange()))
                    pass(at, record);
            const auto found = behind.find(block);
            if (found == behind.end() || found->second != at)
                behind[block] = at, hasChanged = true;
        }
    }
}

void KnownVariables::number(Function &function)
{
    for (BasicBlock &block : function)
        for (Instruction &instruction : block)
            for (DbgVariableRecord &record : filterDbgVars(instruction.getDbgRecordRange())) {
                const DebugVariable variable(&record);
                if (!record.isDbgDeclare() &&
                    numbers.try_emplace(variable, variables.size()).second)
                    variables.push_back(variable);
            }
}

// A record of a part of a variable leaves the other parts.
void KnownVariables::pass(State &at, DbgVariableRecord &record) const
{
    if (record.isDbgDeclare())
        return;
    const DebugVariable variable(&record);
    for (unsigned i = 0; i < variables.size(); i++)
        if (at[i] && variables[i].getVariable() == variable.getVariable() &&
            variables[i].getInlinedAt() == variable.getInlinedAt() &&
            DIExpression::fragmentsOverlap(variables[i].getFragmentOrDefault(),
                                           variable.getFragmentOrDefault()))
            at[i] = nullptr;
    at[numbers.find(variable)->second] = record.isKillLocation() ? nullptr : &record;
}

static bool areEqual(const DbgVariableRecord &one, const DbgVariableRecord &other)
{
    return one.getRawLocation() == other.getRawLocation() &&
           one.getExpression() == other.getExpression();
}

// Blocks that were not looked at yet say nothing against what others know.
KnownVariables::State KnownVariables::stateBefore(const BasicBlock &block)
{
    std::optional<State> result;
    for (const BasicBlock *predecessor : predecessors(&block)) {
        const auto found = behind.find(predecessor);
        if (found == behind.end())
            continue;
        if (!result) {
            result = found->second;
            continue;
        }
        for (unsigned i = 0; i < variables.size(); i++) {
            const DbgVariableRecord *other = found->second[i];
            if ((*result)[i] && (!other || !areEqual(*(*result)[i], *other)))
                (*result)[i] = nullptr;
        }
    }
    return result ? *result : State(variables.size(), nullptr);
}

SmallVector<const DbgVariableRecord *, 8> KnownVariables::before(const BasicBlock &block)
{
    SmallVector<const DbgVariableRecord *, 8> result;
    const auto found = known.find(&block);
    if (found != known.end())
        copy_if(found->second, std::back_inserter(result),
                [](const DbgVariableRecord *record) { return record != nullptr; });
    return result;
}

// ---- What debuggers are told ----

static DbgVariableRecord *recordOf(const DbgVariableRecord &record, Metadata *location)
{
    return new DbgVariableRecord(location, record.getVariable(), record.getExpression(),
                                 record.getDebugLoc().get(),
                                 DbgVariableRecord::LocationType::Value);
}

void describeKnown(ArrayRef<const DbgVariableRecord *> records, BasicBlock &code,
                   function_ref<Value *(Value *)> restored)
{
    for (const DbgVariableRecord *record : records) {
        DbgVariableRecord *copy = recordOf(*record, record->getRawLocation());
        bool isComplete = true;
        const SmallVector<Value *, 2> values(record->location_ops());
        for (unsigned i = 0; i < values.size() && isComplete; i++) {
            Value *value = isa<Constant>(values[i]) ? values[i] : restored(values[i]);
            isComplete = value != nullptr;
            if (value && value != values[i])
                copy->replaceVariableLocationOp(i, value);
        }
        if (isComplete)
            code.insertDbgRecordBefore(copy, code.getTerminator()->getIterator());
        else
            copy->deleteRecord();
    }
}

void describeConstants(ArrayRef<const DbgVariableRecord *> records, BasicBlock &code)
{
    for (const DbgVariableRecord *record : records)
        if (record->getNumVariableLocationOps() == 1 &&
            isa<Constant>(record->getVariableLocationOp(0)))
            code.insertDbgRecordBefore(recordOf(*record, record->getRawLocation()),
                                       code.getFirstInsertionPt());
}

void describeJoined(ArrayRef<const DbgVariableRecord *> records, BasicBlock &code,
                    const Value &value, Value &joined)
{
    for (const DbgVariableRecord *record : records)
        if (record->getNumVariableLocationOps() == 1 && record->getVariableLocationOp(0) == &value)
            code.insertDbgRecordBefore(recordOf(*record, ValueAsMetadata::get(&joined)),
                                       code.getFirstInsertionPt());
}

} // namespace cc
