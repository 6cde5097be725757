#include "compiler/plugin/decide/bounds.h"

#include <llvm/ADT/StringExtras.h>

using namespace llvm;

namespace cc
{

Bounds::Bounds(ArrayRef<Converted> converted)
{
    for (const Converted &one : converted)
        known[one.function] = &one;
}

// As the runtime allocates them (compiler/runtime/start/memory.c, cancel.c).
static uint64_t frameAt(const Site &site, const Converted &one)
{
    const uint64_t environment = one.environmentSize ? alignTo(one.environmentSize + 16, 16) : 0;
    return alignTo(site.recordSize, 8) + environment;
}

Bound Bounds::compute(const Converted &one)
{
    const std::string name = Calls::nameOf(*one.function).str();
    Bound result;
    for (const Site &site : one.sites) {
        Bound callee;
        if (site.kind == SiteKind::Pointer)
            result.gaps.insert("a call through a pointer in " + name);
        else if (site.kind == SiteKind::Stack)
            result.gaps.insert("a call on a stack in " + name);
        else if (site.kind == SiteKind::Function)
            callee = of(*site.callee);
        result.gaps.insert(callee.gaps.begin(), callee.gaps.end());
        const uint64_t frame = frameAt(site, one);
        if (frame + callee.bytes < result.bytes)
            continue;
        result.bytes = frame + callee.bytes;
        result.chain = {{one.function, frame}};
        result.chain.insert(result.chain.end(), callee.chain.begin(), callee.chain.end());
    }
    return result;
}

const Bound &Bounds::of(const Function &function)
{
    static const Bound none;
    if (auto found = bounds.find(&function); found != bounds.end())
        return found->second;
    const Converted *one = known.lookup(&function);
    if (!one)
        return none;
    if (!active.insert(&function).second) {
        static Bound recursive;
        recursive.gaps = {"the recursion of " + Calls::nameOf(function).str()};
        return recursive;
    }
    Bound result = compute(*one);
    active.erase(&function);
    return bounds[&function] = std::move(result);
}

std::vector<std::string> condense(const std::set<std::string> &gaps)
{
    static const std::pair<StringRef, StringRef> kinds[] = {
        {"a call on a stack in ", "calls on stacks in "},
        {"a call through a pointer in ", "calls through pointers in "},
        {"the recursion of ", "the recursion of "}};
    std::vector<std::string> sentences;
    for (const auto &[one, several] : kinds) {
        std::vector<std::string> names;
        for (const std::string &gap : gaps)
            if (StringRef(gap).starts_with(one))
                names.push_back(gap.substr(one.size()));
        if (!names.empty())
            sentences.push_back((names.size() > 1 ? several : one).str() + join(names, ", "));
    }
    return sentences;
}

// ---- Entries ----

static void addStarted(const Module &module, StringRef starter, unsigned argument,
                       SetVector<const Function *> &found)
{
    const Function *function = module.getFunction(starter);
    if (!function)
        return;
    for (const User *user : function->users()) {
        const auto *call = dyn_cast<CallBase>(user);
        if (!call || call->getCalledOperand() != function)
            continue;
        if (const auto *entry =
                dyn_cast<Function>(call->getArgOperand(argument)->stripPointerCasts()))
            found.insert(entry);
    }
}

std::vector<const Function *> Bounds::entries(const Module &module)
{
    SetVector<const Function *> found;
    if (const Function *program = module.getFunction(ProgramMain))
        found.insert(program);
    addStarted(module, "gs_cc_pthread_create", 2, found);
    addStarted(module, "gs_cc_thrd_create", 1, found);
    return std::vector<const Function *>(found.begin(), found.end());
}

} // namespace cc
