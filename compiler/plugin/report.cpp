#include "compiler/plugin/report.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

using namespace llvm;

namespace cc
{

// ---- Functions that must not wait ----

static constexpr char AtomicAnnotation[] = "gs_atomic";

static bool isAtomic(const ConstantStruct &annotation)
{
    const auto *text = dyn_cast<GlobalVariable>(annotation.getOperand(1)->stripPointerCasts());
    const auto *data = text ? dyn_cast<ConstantDataSequential>(text->getInitializer()) : nullptr;
    return data && data->isCString() && data->getAsCString() == AtomicAnnotation;
}

void checkAtomic(Module &module, const Calls &calls)
{
    const GlobalVariable *annotations = module.getNamedGlobal("llvm.global.annotations");
    const auto *all =
        annotations ? dyn_cast<ConstantArray>(annotations->getInitializer()) : nullptr;
    if (!all)
        return;
    for (const Use &one : all->operands()) {
        const auto *annotation = dyn_cast<ConstantStruct>(one.get());
        if (!annotation || !isAtomic(*annotation))
            continue;
        const auto *function = dyn_cast<Function>(annotation->getOperand(0)->stripPointerCasts());
        if (function && calls.mayWait(*function))
            module.getContext().emitError("the atomic function may wait: " +
                                          calls.chainOf(*function));
    }
}

// ---- Reports ----

static std::string placeOf(const Site &site)
{
    if (!site.location)
        return "";
    return site.location->getFilename().str() + ":" + std::to_string(site.location.getLine());
}

static void writeSite(raw_ostream &stream, const Site &site)
{
    stream << "    " << placeOf(site) << (site.location ? " " : "")
           << (site.callee.empty() ? "a call through a pointer" : "calls " + site.callee) << ": "
           << site.recordSize << " bytes";
    for (const auto &[name, size] : site.live)
        stream << ", " << (name.empty() ? "a value" : name) << " " << size;
    stream << "\n";
}

static void writeText(raw_ostream &stream, const Calls &calls, ArrayRef<Converted> converted)
{
    stream << "Functions that may wait: " << calls.waiting().size() << ", of which "
           << converted.size() << " are converted.\n";
    for (const Function *function : calls.waiting())
        if (StringRef obstacle = calls.obstacleTo(*function); !obstacle.empty())
            stream << "On a stack: " << Calls::nameOf(*function) << ", because " << obstacle
                   << ".\n";
    for (const Converted &one : converted) {
        stream << "\n" << calls.chainOf(*one.function) << "\n";
        if (one.environmentSize)
            stream << "    environment: " << one.environmentSize << " bytes\n";
        for (const Site &site : one.sites)
            writeSite(stream, site);
    }
}

static json::Value siteAsJson(const Site &site)
{
    json::Array live;
    for (const auto &[name, size] : site.live)
        live.push_back(json::Object{{"name", name}, {"bytes", size}});
    return json::Object{{"callee", site.callee},
                        {"place", placeOf(site)},
                        {"record_bytes", site.recordSize},
                        {"live", std::move(live)}};
}

static json::Value asJson(const Calls &calls, ArrayRef<Converted> converted)
{
    json::Array functions, stacks;
    for (const Function *function : calls.waiting())
        if (StringRef obstacle = calls.obstacleTo(*function); !obstacle.empty())
            stacks.push_back(json::Object{{"name", Calls::nameOf(*function)},
                                          {"reason", obstacle},
                                          {"chain", calls.chainOf(*function)}});
    for (const Converted &one : converted) {
        json::Array sites;
        for (const Site &site : one.sites)
            sites.push_back(siteAsJson(site));
        functions.push_back(json::Object{{"name", Calls::nameOf(*one.function)},
                                         {"chain", calls.chainOf(*one.function)},
                                         {"environment_bytes", one.environmentSize},
                                         {"stack_calls", one.stackCalls},
                                         {"waits", std::move(sites)}});
    }
    return json::Object{{"converted", std::move(functions)}, {"on_stacks", std::move(stacks)}};
}

void writeReport(const std::string &path, const Calls &calls, ArrayRef<Converted> converted)
{
    std::error_code error;
    raw_fd_ostream stream(path, error);
    if (error) {
        calls.fail(path + ": " + error.message());
        return;
    }
    if (StringRef(path).ends_with(".json"))
        stream << formatv("{0:2}\n", asJson(calls, converted));
    else
        writeText(stream, calls, converted);
}

} // namespace cc
