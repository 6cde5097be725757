// What `gossamer cc` wants of the plugin: a file that the environment names, a line for each thing.
//
//     file PATH              an object or archive of the link
//     member ARCHIVE NAME    a member of an archive that takes part in it
//     native PATH            the program as linked without conversion
//     report PATH            where to write a report
//     stacks PATH            where to write who calls whom
//     warn races             of data that several threads reach without a common lock
//     frames NAME            record or slots
//     stress PERCENT         of the blocks in which threads yield
#ifndef GS_COMPILER_JOB_H
#define GS_COMPILER_JOB_H

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/Module.h>
#include <set>
#include <string>
#include <vector>

namespace cc
{

// The option --wrap of the linker has functions called in place of others, by this prefix.
constexpr char WrapPrefix[] = "__wrap_";

struct Job {
    std::vector<std::string> files, reports;
    std::set<std::pair<std::string, std::string>> members;
    std::string native, stacks;
    bool useSlots = false, convertsMain = false, warnsOfRaces = false, warnsOfDepartures = false;
    bool isSimplified = false; // the bitcode, by the optimiser
    unsigned stress = 0;

    // Returns false if the environment names no job: the plugin has nothing to do.
    bool read();
};

// The module has metadata of this name if machine code of the program's is linked with it.
inline constexpr char MachineCode[] = "gs_cc.machine_code";

// Link the bitcode of all files into the module. What is not used from outside becomes internal.
// Returns a message; empty: success.
std::string linkInputs(llvm::Module &module, const Job &job);

} // namespace cc

#endif
