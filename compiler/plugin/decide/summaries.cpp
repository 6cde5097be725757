#include "compiler/plugin/decide/summaries.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/Scalar/SROA.h>

using namespace llvm;

namespace cc
{

// A call through a pointer may reach these many functions; more are ignored.
static constexpr size_t MaxTargets = 8;

// A function with more events than this has too many; large programs get less.
static constexpr size_t MaxEvents = 1200, MaxEventsOfLarge = 250, LargeProgram = 1000;

LockSet unite(const LockSet &one, const LockSet &other)
{
    LockSet both;
    std::set_union(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
    return both;
}

LockSet intersect(const LockSet &one, const LockSet &other)
{
    LockSet both;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                          std::back_inserter(both));
    return both;
}

bool contains(const LockSet &set, unsigned lock)
{
    return std::binary_search(set.begin(), set.end(), lock);
}

Summaries::Summaries(Module &module) : module(module), debugTypes(module)
{
    for (Function &function : module)
        if (!function.isDeclaration() && function.hasAddressTaken())
            targets[function.getFunctionType()].push_back(&function);
    maximum = module.size() > LargeProgram ? MaxEventsOfLarge : MaxEvents;
}

const Summary &Summaries::of(const Function &function) const
{
    static const Summary none;
    auto found = known.find(&function);
    return found == known.end() ? none : found->second;
}

unsigned Summaries::numberOf(const Lock &lock)
{
    auto [at, isNew] = numbers.try_emplace(lock, locks.size());
    if (isNew)
        locks.push_back(&at->first);
    return at->second;
}

const Step *Summaries::step(const Instruction *at, const Step *inner)
{
    steps.push_back({at, inner});
    return &steps.back();
}

// Functions with code.
ArrayRef<const Function *> Summaries::calleesOf(const CallBase &call)
{
    if (call.isInlineAsm())
        return {};
    if (const auto *callee = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts())) {
        if (callee->isDeclaration())
            return {};
        auto &kept = direct[&call];
        kept = callee;
        return ArrayRef(&kept, 1);
    }
    auto found = targets.find(call.getFunctionType());
    if (found == targets.end() || found->second.size() > MaxTargets)
        return {};
    return found->second;
}

// Callees first. The depth of calls is that of the program, which recursion here survives.
void Summaries::visit(Function &function, std::vector<Function *> &order,
                      std::set<const Function *> &seen)
{
    std::vector<std::pair<Function *, inst_iterator>> stack;
    auto enter = [&](Function &entered) {
        if (!entered.isDeclaration() && seen.insert(&entered).second)
            stack.push_back({&entered, inst_begin(entered)});
    };
    enter(function);
    while (!stack.empty()) {
        auto [at, next] = stack.back();
        if (next == inst_end(*at)) {
            order.push_back(at);
            stack.pop_back();
            continue;
        }
        const auto *call = dyn_cast<CallBase>(&*next);
        ++stack.back().second;
        if (!call)
            continue;
        const SmallVector<const Function *, 4> callees(calleesOf(*call));
        for (const Function *callee : callees)
            enter(*const_cast<Function *>(callee));
    }
}

void Summaries::analyse()
{
    PassBuilder builder;
    FunctionAnalysisManager functions;
    builder.registerFunctionAnalyses(functions);
    std::vector<Function *> order;
    std::set<const Function *> seen;
    for (Function &function : module) {
        if (function.isDeclaration())
            continue;
        SROAPass(SROAOptions::PreserveCFG).run(function, functions);
        functions.clear();
    }
    for (Function &function : module)
        visit(function, order, seen);
    for (Function *function : order)
        summarise(*function, *this, known[function]);
}

} // namespace cc
