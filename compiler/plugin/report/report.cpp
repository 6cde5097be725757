#include "compiler/plugin/report/report.h"
#include "compiler/plugin/decide/bounds.h"
#include "compiler/plugin/decide/stack_graph.h"
#include "compiler/plugin/read/source_names.h"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

using namespace llvm;

namespace cc
{

// ---- What a report has ----

// Larger variables are worth a line of advice.
static constexpr uint64_t LargeObject = 256;

static std::string calleeOf(const Site &site)
{
    switch (site.kind) {
    case SiteKind::Pointer:
        return "a function through a pointer";
    case SiteKind::Stack:
        return "a function on a stack";
    default:
        return Calls::nameOf(*site.callee).str();
    }
}

static const char *adviceFor(const Object &object)
{
    return object.isKnownOutside
               ? "its address is known outside of the function: allocate it in a function that "
                 "returns before the wait, or copy what is needed"
               : "its contents are needed after a wait: use it up before, or copy what is needed";
}

// ---- As text ----

static void writeBound(raw_ostream &stream, const Bound &bound)
{
    stream << (bound.gaps.empty() ? "at most " : "at least ") << bound.bytes
           << " bytes while it waits:";
    for (const Frame &frame : bound.chain)
        stream << (&frame == &bound.chain.front() ? " " : ", ") << Calls::nameOf(*frame.function)
               << " " << frame.bytes;
    for (const std::string &gap : condense(bound.gaps))
        stream << "; and " << gap;
    stream << "\n";
}

static void writeThread(raw_ostream &stream, const Calls &calls, const Function &entry,
                        Bounds &bounds)
{
    const std::string place = placeOfFunction(entry);
    stream << "    " << Calls::nameOf(entry) << (place.empty() ? "" : " (" + place + ")") << ": ";
    if (!calls.mayWait(entry))
        stream << "never waits\n";
    else if (StringRef obstacle = calls.obstacleTo(entry); !obstacle.empty())
        stream << "runs on a stack, because " << obstacle << "\n";
    else
        writeBound(stream, bounds.of(entry));
    if (calls.obstacleTo(entry).empty())
        stream << "        it runs on its worker's stack, of which it needs "
               << sentenceOfWorker(entry) << "\n";
}

static void writeObjects(raw_ostream &stream, ArrayRef<Converted> converted)
{
    bool isFirst = true;
    for (const Converted &one : converted)
        for (const Object &object : one.objects) {
            if (object.size <= LargeObject)
                continue;
            if (isFirst)
                stream << "\nVariables over " << LargeObject << " bytes that live across a wait\n";
            isFirst = false;
            stream << "    " << Calls::nameOf(*one.function) << ": "
                   << (object.name.empty() ? "a variable" : object.name)
                   << (object.place.empty() ? "" : " (" + object.place + ")") << ", " << object.size
                   << " bytes; " << adviceFor(object) << "\n";
        }
}

static void writeSite(raw_ostream &stream, const Site &site)
{
    const std::string place = placeOf(site.location);
    stream << "    " << place << (place.empty() ? "" : " ") << "calls " << calleeOf(site) << ": "
           << site.recordSize << " bytes";
    for (const auto &[name, size] : site.live)
        stream << ", " << (name.empty() ? "a value" : name) << " " << size;
    stream << "\n";
}

static void writeText(raw_ostream &stream, const Findings &findings)
{
    const auto &[calls, converted, sharing] = findings;
    Bounds bounds(converted);
    stream << calls.waiting().size() << " functions may wait; " << converted.size()
           << " of them are converted.\n\nThreads\n";
    for (const Function *entry : Bounds::entries(calls.program()))
        writeThread(stream, calls, *entry, bounds);
    writeObjects(stream, converted);
    writeSharing(stream, sharing);
    stream << "\nFunctions\n";
    for (const Function *function : calls.onStacks())
        stream << calls.chainOf(*function) << "\n    on a stack, because "
               << calls.obstacleTo(*function) << "\n    it needs " << sentenceOfStack(*function)
               << " of stack\n";
    for (const Converted &one : converted) {
        stream << calls.chainOf(*one.function) << "\n";
        if (one.environmentSize)
            stream << "    environment: " << one.environmentSize << " bytes\n";
        for (const Site &site : one.sites)
            writeSite(stream, site);
    }
}

// ---- As JSON ----

static json::Value siteAsJson(const Site &site)
{
    json::Array live;
    for (const auto &[name, size] : site.live)
        live.push_back(json::Object{{"name", name}, {"bytes", size}});
    return json::Object{{"callee", calleeOf(site)},
                        {"place", placeOf(site.location)},
                        {"record_bytes", site.recordSize},
                        {"live", std::move(live)}};
}

static json::Value objectsAsJson(const Converted &one)
{
    json::Array objects;
    for (const Object &object : one.objects) {
        json::Object value{{"name", object.name}, {"place", object.place}, {"bytes", object.size}};
        if (object.size > LargeObject)
            value["advice"] = adviceFor(object);
        objects.push_back(std::move(value));
    }
    return objects;
}

static json::Value threadAsJson(const Calls &calls, const Function &entry, Bounds &bounds)
{
    const Bound &bound = bounds.of(entry);
    json::Array frames, gaps;
    for (const Frame &frame : bound.chain)
        frames.push_back(
            json::Object{{"function", Calls::nameOf(*frame.function)}, {"bytes", frame.bytes}});
    for (const std::string &gap : bound.gaps)
        gaps.push_back(gap);
    return json::Object{{"entry", Calls::nameOf(entry)},
                        {"place", placeOfFunction(entry)},
                        {"waits", calls.mayWait(entry)},
                        {"on_stack", calls.obstacleTo(entry)},
                        {"bytes", bound.bytes},
                        {"frames", std::move(frames)},
                        {"unknown", std::move(gaps)},
                        {"worker_stack_bytes", bytesOfWorker(entry)},
                        {"worker_stack_unknown", reasonOfWorker(entry)}};
}

static json::Value convertedAsJson(const Calls &calls, const Converted &one)
{
    json::Array sites;
    for (const Site &site : one.sites)
        sites.push_back(siteAsJson(site));
    return json::Object{{"name", Calls::nameOf(*one.function)},
                        {"place", placeOfFunction(*one.function)},
                        {"chain", calls.chainOf(*one.function)},
                        {"environment_bytes", one.environmentSize},
                        {"objects", objectsAsJson(one)},
                        {"stack_calls", one.stackCalls},
                        {"waits", std::move(sites)}};
}

static json::Value asJson(const Findings &findings)
{
    const auto &[calls, converted, sharing] = findings;
    Bounds bounds(converted);
    json::Array threads, functions, stacks;
    for (const Function *entry : Bounds::entries(calls.program()))
        threads.push_back(threadAsJson(calls, *entry, bounds));
    for (const Function *function : calls.onStacks())
        stacks.push_back(json::Object{{"name", Calls::nameOf(*function)},
                                      {"reason", calls.obstacleTo(*function)},
                                      {"chain", calls.chainOf(*function)},
                                      {"stack_bytes", bytesOfStack(*function)},
                                      {"stack_unknown", reasonOfStack(*function)}});
    for (const Converted &one : converted)
        functions.push_back(convertedAsJson(calls, one));
    json::Object all = asJson(sharing);
    all["threads"] = std::move(threads);
    all["converted"] = std::move(functions);
    all["on_stacks"] = std::move(stacks);
    return all;
}

void writeReport(const std::string &path, const Findings &findings)
{
    std::error_code error;
    raw_fd_ostream stream(path, error);
    if (error) {
        findings.calls.fail(path + ": " + error.message());
        return;
    }
    if (StringRef(path).ends_with(".json"))
        stream << formatv("{0:2}\n", asJson(findings));
    else
        writeText(stream, findings);
}

} // namespace cc
