#include "compiler/plugin/read/source_names.h"

#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DebugProgramInstruction.h>
#include <llvm/IR/IntrinsicInst.h>

using namespace llvm;

namespace cc
{

// Of a variable in memory, or else of one that has the value at some time.
static const DILocalVariable *findVariable(Value &value)
{
    SmallVector<DbgVariableIntrinsic *, 4> users;
    SmallVector<DbgVariableRecord *, 4> records;
    findDbgUsers(users, &value, &records);
    for (const DbgVariableIntrinsic *user : users)
        return user->getVariable();
    for (const DbgVariableRecord *record : records)
        return record->getVariable();
    return nullptr;
}

static std::string placeIn(StringRef file, unsigned line)
{
    if (file.empty() || !line)
        return file.str();
    return file.str() + ":" + std::to_string(line);
}

std::string sourceNameOf(Value &value)
{
    const DILocalVariable *variable = findVariable(value);
    return variable ? variable->getName().str() : value.getName().str();
}

std::string placeOf(const DebugLoc &location)
{
    return location ? placeIn(location->getFilename(), location->getLine()) : "";
}

std::string placeOfVariable(Value &value)
{
    const DILocalVariable *variable = findVariable(value);
    return variable ? placeIn(variable->getFilename(), variable->getLine()) : "";
}

std::string placeOfFunction(const Function &function)
{
    const DISubprogram *program = function.getSubprogram();
    return program ? placeIn(program->getFilename(), program->getLine()) : "";
}

} // namespace cc
