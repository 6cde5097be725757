// What values and variables are called in the program's text, as far as its debug information says.
#ifndef GS_COMPILER_SOURCE_NAMES_H
#define GS_COMPILER_SOURCE_NAMES_H

#include <llvm/IR/DebugLoc.h>
#include <llvm/IR/Function.h>
#include <string>

namespace cc
{

// Both return an empty text if it is not known.
std::string sourceNameOf(llvm::Value &value);
std::string placeOf(const llvm::DebugLoc &location); // "file.c:12"

// The places where a variable and a function are declared.
std::string placeOfVariable(llvm::Value &variable);
std::string placeOfFunction(const llvm::Function &function);

} // namespace cc

#endif
