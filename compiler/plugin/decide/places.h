// Names for memory, as the analysis of shared data (sharing.h) compares it: where a pointer comes
// from, and the offsets by which memory is reached from there.
#ifndef GS_COMPILER_PLACES_H
#define GS_COMPILER_PLACES_H

#include <array>
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <map>
#include <tuple>

namespace cc
{

enum class Root : uint8_t {
    Unknown,
    Global,
    Parameter, // what a parameter of the function points to
    Own,       // a local variable, or what a call allocated
};

// Memory. With offsets a, b and c it is at c from where the pointer at b points to, which is from
// where the pointer at a from the root points to. An index that is not constant counts as 0.
struct Place {
    static constexpr unsigned MaxDepth = 4;
    Root root = Root::Unknown;
    uint8_t depth = 0;
    bool isElement = false;    // an index that is not constant takes part
    bool isOwnElement = false; // and depends on a parameter
    const llvm::Value *base = nullptr;
    std::array<int64_t, MaxDepth> offsets{};

    bool isKnown() const
    {
        return root != Root::Unknown;
    }
    // Part of a variable itself, and not reached through a pointer.
    bool isVariable() const
    {
        return root == Root::Global && depth == 1;
    }
    int64_t lastOffset() const
    {
        return depth ? offsets[depth - 1] : 0;
    }
    bool operator<(const Place &other) const
    {
        return std::tie(root, base, depth, offsets) <
               std::tie(other.root, other.base, other.depth, other.offsets);
    }
    bool operator==(const Place &other) const
    {
        return std::tie(root, base, depth, offsets) ==
               std::tie(other.root, other.base, other.depth, other.offsets);
    }

    static Place at(Root root, const llvm::Value *base);
    // Where the pointer that is at this place points to.
    Place target() const;
    // This place as seen from where `start` stands for its root.
    Place from(const Place &start) const;
    // Without the last `count` offsets.
    Place prefix(unsigned length) const;
};

// A member of a structure; the name is empty if it is not known.
struct Member {
    llvm::StringRef type;
    int64_t offset = 0;
    bool operator<(const Member &other) const
    {
        return std::tie(type, offset) < std::tie(other.type, other.offset);
    }
    bool operator==(const Member &other) const
    {
        return std::tie(type, offset) == std::tie(other.type, other.offset);
    }
};

// The places of the pointers of a function.
class Places
{
  public:
    explicit Places(const llvm::Module &module) : layout(module.getDataLayout())
    {
    }
    virtual ~Places() = default;

    // Where the pointer points to.
    Place of(const llvm::Value &pointer);
    void forget()
    {
        known.clear();
    }

  protected:
    // Of the result of a call, or of a pointer that was loaded; unknown: as usual.
    virtual Place ofResult(const llvm::CallBase &call) = 0;
    virtual bool isOwn(const llvm::Instruction &instruction) const = 0;
    virtual Place storedAt(const Place &place) = 0;

  private:
    Place compute(const llvm::Value &pointer);
    Place ofElement(const llvm::GEPOperator &element);
    Place ofInstruction(const llvm::Instruction &instruction);
    Place ofChoice(const llvm::Instruction &choice);

    const llvm::DataLayout &layout;
    llvm::DenseMap<const llvm::Value *, Place> known;
};

// The member that an access reaches, by what clang knows of aliases, or the type of the address.
Member memberOf(const llvm::Instruction &access, const llvm::Value &pointer);

// What debug information says of types and variables.
class Types
{
  public:
    explicit Types(const llvm::Module &module);

    // The member that a place is, if the type of its root is known.
    Member memberAt(const Place &place) const;
    // "client.fd", or "client at 8".
    std::string nameOf(const Member &member) const;
    // "table.size", and where it is declared.
    std::pair<std::string, std::string> nameOf(const Place &named) const;
    // Stands for the variable of the program, of which the module may have parts.
    static const void *sourceOf(const llvm::Value &base);

  private:
    const llvm::DIType *typeOfRoot(const Place &place) const;

    llvm::DenseMap<llvm::StringRef, const llvm::DICompositeType *> structures;
};

} // namespace cc

#endif
