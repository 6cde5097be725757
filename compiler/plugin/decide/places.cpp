#include "compiler/plugin/decide/places.h"
#include "compiler/plugin/read/source_names.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IntrinsicInst.h>

using namespace llvm;

namespace cc
{

// ---- Places ----

Place Place::at(Root root, const Value *base)
{
    Place place;
    place.root = root;
    place.base = base;
    place.depth = 1;
    return place;
}

Place Place::target() const
{
    if (!isKnown() || depth == MaxDepth)
        return Place();
    Place place = *this;
    place.offsets[place.depth++] = 0;
    return place;
}

Place Place::from(const Place &start) const
{
    if (!start.isKnown() || start.depth + depth - 1 > int(MaxDepth))
        return Place();
    Place place = start;
    place.offsets[place.depth - 1] += offsets[0];
    for (unsigned i = 1; i < depth; i++)
        place.offsets[place.depth++] = offsets[i];
    place.isElement |= isElement;
    place.isOwnElement |= isOwnElement;
    return place;
}

Place Place::prefix(unsigned length) const
{
    Place place = *this;
    for (unsigned i = length; i < depth; i++)
        place.offsets[i] = 0;
    place.depth = length;
    return place;
}

// Whether a parameter of the function takes part in the value: threads that get different ones use
// different elements.
static bool dependsOnParameter(const Value &value, unsigned depth = 6)
{
    if (isa<Argument>(value))
        return true;
    const auto *instruction = dyn_cast<Instruction>(&value);
    if (!instruction || !depth || isa<CallBase>(instruction))
        return false;
    return any_of(instruction->operands(),
                  [&](const Use &use) { return dependsOnParameter(*use.get(), depth - 1); });
}

Place Places::of(const Value &pointer)
{
    if (auto found = known.find(&pointer); found != known.end())
        return found->second;
    known[&pointer] = Place(); // what depends on itself
    const Place place = compute(pointer);
    known[&pointer] = place;
    return place;
}

Place Places::ofElement(const GEPOperator &element)
{
    Place place = of(*element.getPointerOperand());
    if (!place.isKnown())
        return place;
    APInt offset(layout.getIndexTypeSizeInBits(element.getType()), 0);
    MapVector<Value *, APInt> indices;
    if (!element.collectOffset(layout, offset.getBitWidth(), indices, offset))
        return Place();
    place.offsets[place.depth - 1] += offset.getSExtValue();
    place.isElement |= !indices.empty();
    for (const auto &[index, size] : indices)
        place.isOwnElement |= dependsOnParameter(*index);
    return place;
}

// One of several pointers: any of those that are known, but rather what others may know, too.
Place Places::ofChoice(const Instruction &choice)
{
    Place found;
    const unsigned first = isa<SelectInst>(choice) ? 1 : 0;
    for (unsigned i = first; i < choice.getNumOperands(); i++) {
        const Place place = of(*choice.getOperand(i));
        if (place.isKnown() && (!found.isKnown() || place.depth < found.depth ||
                                (found.root == Root::Own && place.root != Root::Own)))
            found = place;
    }
    return found;
}

Place Places::ofInstruction(const Instruction &instruction)
{
    if (isOwn(instruction))
        return Place::at(Root::Own, &instruction);
    if (const auto *call = dyn_cast<CallBase>(&instruction))
        return ofResult(*call);
    if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
        const Place place = of(*load->getPointerOperand());
        const Place stored = place.root == Root::Own ? storedAt(place) : Place();
        return stored.isKnown() ? stored : place.target();
    }
    if (isa<PHINode>(instruction) || isa<SelectInst>(instruction))
        return ofChoice(instruction);
    if (isa<FreezeInst>(instruction))
        return of(*instruction.getOperand(0));
    return Place();
}

Place Places::compute(const Value &pointer)
{
    if (const auto *element = dyn_cast<GEPOperator>(&pointer))
        return ofElement(*element);
    if (const auto *variable = dyn_cast<GlobalVariable>(&pointer)) {
        const bool isPrivate = variable->isThreadLocal() || variable->isConstant();
        return isPrivate ? Place() : Place::at(Root::Global, variable);
    }
    if (isa<Argument>(pointer))
        return Place::at(Root::Parameter, &pointer);
    if (const auto *instruction = dyn_cast<Instruction>(&pointer))
        return ofInstruction(*instruction);
    return Place();
}

// ---- Members ----

static Member memberByAlias(const Instruction &access)
{
    const MDNode *tag = access.getMetadata(LLVMContext::MD_tbaa);
    if (!tag || tag->getNumOperands() < 3 || tag->getOperand(0) == tag->getOperand(1))
        return Member();
    const auto *type = dyn_cast<MDNode>(tag->getOperand(0));
    const auto *name = type ? dyn_cast<MDString>(type->getOperand(0)) : nullptr;
    const auto *offset = mdconst::dyn_extract<ConstantInt>(tag->getOperand(2));
    return name && offset ? Member{name->getString(), offset->getSExtValue()} : Member();
}

Member memberOf(const Instruction &access, const Value &pointer)
{
    Member member = memberByAlias(access);
    if (!member.type.empty())
        return member;
    const DataLayout &layout = access.getModule()->getDataLayout();
    const Value *at = &pointer;
    int64_t sum = 0;
    while (const auto *element = dyn_cast<GEPOperator>(at)) {
        APInt offset(layout.getIndexTypeSizeInBits(element->getType()), 0);
        MapVector<Value *, APInt> indices;
        if (!element->collectOffset(layout, offset.getBitWidth(), indices, offset))
            break;
        sum += offset.getSExtValue();
        auto *type = dyn_cast<StructType>(element->getSourceElementType());
        if (type && type->hasName()) {
            member.type = type->getName();
            member.type.consume_front("struct.");
            member.offset = sum;
        }
        at = element->getPointerOperand();
    }
    return member;
}

// ---- Debug information ----

Types::Types(const Module &module)
{
    DebugInfoFinder finder;
    finder.processModule(module);
    for (const DIType *type : finder.types())
        if (const auto *structure = dyn_cast<DICompositeType>(type);
            structure && !structure->getName().empty() && structure->getElements())
            structures.try_emplace(structure->getName(), structure);
}

static const DIType *strip(const DIType *type)
{
    for (const auto *derived = dyn_cast_or_null<DIDerivedType>(type);
         derived && derived->getTag() != dwarf::DW_TAG_pointer_type;
         derived = dyn_cast_or_null<DIDerivedType>(type))
        type = derived->getBaseType();
    return type;
}

static const DIType *pointee(const DIType *type)
{
    const auto *pointer = dyn_cast_or_null<DIDerivedType>(strip(type));
    return pointer ? strip(pointer->getBaseType()) : nullptr;
}

static bool isArray(const DIType *type)
{
    return type && type->getTag() == dwarf::DW_TAG_array_type;
}

// The member of a structure that begins at the offset or before it; reduces the offset.
static const DIDerivedType *findMember(const DICompositeType &type, int64_t &offset)
{
    const DIDerivedType *found = nullptr;
    if (type.getTag() != dwarf::DW_TAG_structure_type)
        return nullptr;
    for (const DINode *node : type.getElements()) {
        const auto *member = dyn_cast<DIDerivedType>(node);
        if (member && int64_t(member->getOffsetInBits() / 8) <= offset)
            found = member;
    }
    if (found)
        offset -= int64_t(found->getOffsetInBits() / 8);
    return found;
}

// Enter arrays and structures; `name` becomes "[].size".
static const DIType *descend(const DIType *type, int64_t offset, std::string *name)
{
    type = strip(type);
    for (const auto *composite = dyn_cast_or_null<DICompositeType>(type); composite;
         composite = dyn_cast_or_null<DICompositeType>(type)) {
        if (isArray(composite)) {
            type = strip(composite->getBaseType());
            const int64_t size = type ? int64_t(type->getSizeInBits() / 8) : 0;
            offset = size ? offset % size : 0;
            if (name)
                *name += "[]";
            continue;
        }
        const DIDerivedType *member = findMember(*composite, offset);
        if (!member)
            break;
        if (name && !member->getName().empty())
            *name += ("." + member->getName()).str();
        type = strip(member->getBaseType());
        if (type && type->getName().starts_with("__pthread"))
            break;
    }
    return type;
}

static const DIGlobalVariable *variableOf(const Value &base)
{
    SmallVector<DIGlobalVariableExpression *, 1> found;
    if (const auto *variable = dyn_cast<GlobalVariable>(&base))
        variable->getDebugInfo(found);
    return found.empty() ? nullptr : found.front()->getVariable();
}

// A variable that LLVM has split into its members is where this one was.
static int64_t startOf(const Value &base)
{
    SmallVector<DIGlobalVariableExpression *, 1> found;
    if (const auto *variable = dyn_cast<GlobalVariable>(&base))
        variable->getDebugInfo(found);
    const auto fragment =
        found.empty() ? std::nullopt : found.front()->getExpression()->getFragmentInfo();
    return fragment ? int64_t(fragment->OffsetInBits / 8) : 0;
}

const void *Types::sourceOf(const Value &base)
{
    const DIGlobalVariable *variable = variableOf(base);
    return variable ? static_cast<const void *>(variable) : &base;
}

const DIType *Types::typeOfRoot(const Place &place) const
{
    if (place.root == Root::Global) {
        const DIGlobalVariable *variable = variableOf(*place.base);
        return variable ? variable->getType() : nullptr;
    }
    if (place.root != Root::Parameter)
        return nullptr;
    const auto *argument = cast<Argument>(place.base);
    const DISubprogram *function = argument->getParent()->getSubprogram();
    const auto *signature = function ? function->getType() : nullptr;
    if (!signature || signature->getTypeArray().size() != argument->getParent()->arg_size() + 1)
        return nullptr;
    return pointee(signature->getTypeArray()[argument->getArgNo() + 1]);
}

Member Types::memberAt(const Place &place) const
{
    if (!place.isKnown())
        return Member();
    const DIType *type = typeOfRoot(place);
    for (unsigned i = 0; type && i + 1 < place.depth; i++)
        type = pointee(descend(type, place.offsets[i], nullptr));
    type = strip(type);
    int64_t offset = place.lastOffset();
    if (isArray(type)) {
        type = strip(cast<DICompositeType>(type)->getBaseType());
        const int64_t size = type ? int64_t(type->getSizeInBits() / 8) : 0;
        offset = size ? offset % size : 0;
    }
    const bool isStructure = type && type->getTag() == dwarf::DW_TAG_structure_type;
    return isStructure && !type->getName().empty() ? Member{type->getName(), offset} : Member();
}

std::string Types::nameOf(const Member &member) const
{
    std::string name = member.type.str();
    if (const DICompositeType *type = structures.lookup(member.type)) {
        descend(type, member.offset, &name);
        return name;
    }
    return name + " at " + std::to_string(member.offset);
}

static std::string placeOfDeclaration(const DIVariable &variable)
{
    return variable.getFilename().str() + ":" + std::to_string(variable.getLine());
}

std::pair<std::string, std::string> Types::nameOf(const Place &named) const
{
    if (!named.isKnown())
        return {"memory", ""};
    Place place = named;
    place.offsets[0] += startOf(*place.base);
    if (place.root == Root::Global) {
        const DIGlobalVariable *variable = variableOf(*place.base);
        std::string name = (variable ? variable->getName() : place.base->getName()).str();
        const DIType *type = variable ? variable->getType() : nullptr;
        for (unsigned i = 0; i + 1 < place.depth; i++) {
            type = pointee(descend(type, place.offsets[i], &name));
            name = "*" + name;
        }
        descend(type, place.lastOffset(), &name);
        return {name, variable ? placeOfDeclaration(*variable) : ""};
    }
    auto *base = const_cast<Value *>(place.base);
    if (const auto *call = dyn_cast<CallBase>(place.base))
        return {"memory allocated at " + placeOf(call->getDebugLoc()), ""};
    std::string name = sourceNameOf(*base);
    if (name.empty())
        name = "memory";
    return {std::string(place.depth - 1, '*') + name, placeOfVariable(*base)};
}

} // namespace cc
