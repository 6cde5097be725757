// Functions that must not wait: which of them may, and by which calls.
#include "compiler/plugin/read/known.h"
#include "compiler/plugin/read/source_names.h"
#include "compiler/plugin/report/report.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <map>

using namespace llvm;

namespace cc
{

static constexpr char AtomicAnnotation[] = "gs_atomic";

namespace
{

// A call by which a function waits. The callee is one that a pointer may point to.
struct Way {
    const CallBase *call;
    const Function *callee;
};

class Search
{
  public:
    Search(const Module &module, const Calls &calls) : module(module), calls(calls)
    {
    }
    // The shortest sequence of calls by which the function waits; empty: it does not.
    std::vector<Way> from(const Function &function);

  private:
    SmallVector<const Function *, 4> calleesOf(const CallBase &call) const;

    const Module &module;
    const Calls &calls;
};

// A pointer is taken to point to a function of the type with which it is called.
SmallVector<const Function *, 4> Search::calleesOf(const CallBase &call) const
{
    SmallVector<const Function *, 4> callees;
    if (const auto *callee = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts()))
        callees.push_back(callee);
    else
        for (const Function &function : module)
            if (function.getFunctionType() == call.getFunctionType() && calls.mayWait(function) &&
                function.hasAddressTaken())
                callees.push_back(&function);
    return callees;
}

std::vector<Way> Search::from(const Function &function)
{
    std::map<const Function *, std::pair<const Function *, Way>> before;
    std::vector<const Function *> queue = {&function};
    for (size_t i = 0; i < queue.size(); i++)
        for (const Instruction &instruction : instructions(*queue[i])) {
            const auto *call = dyn_cast<CallBase>(&instruction);
            if (!call || calls.kindOf(*call) == CallKind::Plain)
                continue;
            for (const Function *callee : calleesOf(*call)) {
                const Way way = {call, callee};
                if (callee != &function && before.try_emplace(callee, queue[i], way).second)
                    queue.push_back(callee);
                if (!callee->isDeclaration())
                    continue;
                std::vector<Way> ways = {way};
                for (const Function *at = queue[i]; at != &function; at = before[at].first)
                    ways.insert(ways.begin(), before[at].second);
                return ways;
            }
        }
    return {};
}

} // namespace

static bool isAtomic(const ConstantStruct &annotation)
{
    const auto *text = dyn_cast<GlobalVariable>(annotation.getOperand(1)->stripPointerCasts());
    const auto *data = text ? dyn_cast<ConstantDataSequential>(text->getInitializer()) : nullptr;
    return data && data->isCString() && data->getAsCString() == AtomicAnnotation;
}

static std::string nameWhichWaits(const Function &function)
{
    const StringRef name = Calls::nameOf(function);
    if (!function.isDeclaration())
        return name.str();
    if (name == "__waiting_loop")
        return "a loop that waits for memory to change";
    if (findRuntime(function.getName()) || isBlocking(function.getName()))
        return name.str() + ", which may wait";
    return name.str() + ", which may call a function that waits";
}

static std::string line(const std::string &place, const std::string &caller,
                        const std::string &callee)
{
    return "\n    " + place + (place.empty() ? "" : ": ") + caller + " calls " + callee;
}

// One line for each function that was called, also of those that were inlined.
static std::string explain(ArrayRef<Way> ways)
{
    std::string text;
    for (const Way &way : ways) {
        std::string callee = nameWhichWaits(*way.callee), lines;
        if (!isa<Function>(way.call->getCalledOperand()->stripPointerCasts()))
            callee = "a function through a pointer, which may be " + callee;
        const DILocation *at = way.call->getDebugLoc();
        for (; at && at->getInlinedAt(); at = at->getInlinedAt()) {
            const std::string name = at->getSubprogramLinkageName().str();
            lines = line(placeOf(at), name, callee) + lines;
            callee = name;
        }
        text += line(placeOf(at), Calls::nameOf(*way.call->getFunction()).str(), callee) + lines;
    }
    return text;
}

static void check(const Function &function, const Calls &calls, const Module &module)
{
    const std::vector<Way> ways = Search(module, calls).from(function);
    if (ways.empty())
        return;
    const std::string name = Calls::nameOf(function).str(), place = placeOfFunction(function);
    std::string chain = name;
    for (const Way &way : ways)
        if (!way.callee->getName().ends_with(".call"))
            chain += " -> " + Calls::nameOf(*way.callee).str();
    calls.fail("the atomic function " + name + (place.empty() ? "" : " (" + place + ")") +
               " may wait: " + chain + explain(ways) + "\n    Make the call before or after " +
               name + ", or remove GS_ATOMIC.");
}

void checkAtomic(Module &module, const Calls &calls)
{
    const GlobalVariable *annotations = module.getNamedGlobal("llvm.global.annotations");
    const auto *all =
        annotations ? dyn_cast<ConstantArray>(annotations->getInitializer()) : nullptr;
    if (!all)
        return;
    SmallPtrSet<const Function *, 8> checked;
    for (const Use &one : all->operands()) {
        const auto *annotation = dyn_cast<ConstantStruct>(one.get());
        if (!annotation || !isAtomic(*annotation))
            continue;
        const auto *function = dyn_cast<Function>(annotation->getOperand(0)->stripPointerCasts());
        if (function && calls.mayWait(*function) && checked.insert(function).second)
            check(*function, calls, module);
    }
}

} // namespace cc
