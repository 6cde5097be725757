#include "compiler/plugin/job.h"

#include "compiler/plugin/convert/thread_locals.h"

#include <fstream>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitstream/BitstreamReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Object/Archive.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/ModuleSymbolTable.h>
#include <llvm/Support/Endian.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Path.h>
#include <llvm/Transforms/IPO/Internalize.h>

using namespace llvm;
using namespace llvm::object;

namespace cc
{

bool Job::read()
{
    const char *path = getenv("GOSSAMER_CC_JOB");
    if (!path)
        return false;
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);) {
        auto [key, value] = StringRef(line).split('\t');
        if (key == "file")
            files.push_back(value.str());
        else if (key == "member")
            members.insert({value.split('\t').first.str(), value.split('\t').second.str()});
        else if (key == "native")
            native = value.str();
        else if (key == "stacks")
            stacks = value.str();
        else if (key == "report")
            reports.push_back(value.str());
        else if (key == "warn")
            (value == "races" ? warnsOfRaces : warnsOfDepartures) = true;
        else if (key == "frames")
            useSlots = value == "slots";
        else if (key == "main")
            convertsMain = value == "converted";
        else if (key == "bitcode")
            isSimplified = value == "simplified";
        else if (key == "stress")
            value.getAsInteger(10, stress);
    }
    return true;
}

namespace
{

class Inputs
{
  public:
    explicit Inputs(Module &module) : module(module), linker(module)
    {
    }
    std::string addFile(const std::string &path, const Job &job);
    std::string noteExports(const std::string &path);
    void leaveReplaced();
    void internalize();

  private:
    std::string add(MemoryBufferRef buffer, const std::string &name);
    std::string addArchive(const Archive &archive, const std::string &path, const Job &job);
    std::string addModule(MemoryBufferRef bitcode, const std::string &name);
    void noteSymbols(const ObjectFile &object, uint32_t flag);
    void noteLocals(const ELFObjectFileBase &object);
    void noteMachineCode(const ObjectFile &object, StringRef name);
    static std::string message(const std::string &name, Error error)
    {
        return name + ": " + toString(std::move(error));
    }

    Module &module;
    Linker linker;
    StringSet<> kept, replacing, foreignLocals;
    std::vector<std::unique_ptr<MemoryBuffer>> buffers;
};

void Inputs::noteSymbols(const ObjectFile &object, uint32_t flag)
{
    for (const SymbolRef &symbol : object.symbols()) {
        Expected<uint32_t> flags = symbol.getFlags();
        Expected<StringRef> name = symbol.getName();
        if (flags && name && *flags & flag)
            kept.insert(*name);
        consumeError(flags.takeError());
        consumeError(name.takeError());
    }
}

// Thread-local variables that it uses and does not define.
void Inputs::noteLocals(const ELFObjectFileBase &object)
{
    const auto note = [&](const ELFSymbolRef &symbol) {
        Expected<uint32_t> flags = symbol.getFlags();
        Expected<StringRef> name = symbol.getName();
        if (flags && name && *flags & SymbolRef::SF_Undefined &&
            symbol.getELFType() == ELF::STT_TLS)
            foreignLocals.insert(*name);
        consumeError(flags.takeError());
        consumeError(name.takeError());
    };
    for (const ELFSymbolRef &symbol : object.getDynamicSymbolIterators())
        note(symbol);
    for (const ELFSymbolRef &symbol : object.symbols())
        note(symbol);
}

// What starts every program, and what compilers add. Of a member, the name is ARCHIVE(MEMBER).
static bool isOfCompiler(StringRef name)
{
    const StringRef file = sys::path::filename(name.split('(').first);
    return any_of(ArrayRef<StringRef>{"crt", "Scrt", "gcrt", "grcrt", "rcrt", "Mcrt", "libgcc",
                                      "libc_nonshared", "libc.a", "libm.a", "libm-", "libmvec",
                                      "libclang_rt", "clang_rt."},
                  [&](StringRef prefix) { return file.starts_with(prefix); });
}

// It uses what it does not define, and what it defines is taken in place of weak functions.
void Inputs::noteMachineCode(const ObjectFile &object, StringRef name)
{
    noteSymbols(object, SymbolRef::SF_Undefined);
    for (const SymbolRef &symbol : object.symbols()) {
        Expected<uint32_t> flags = symbol.getFlags();
        Expected<StringRef> defined = symbol.getName();
        constexpr uint32_t Others = SymbolRef::SF_Undefined | SymbolRef::SF_Weak;
        if (flags && defined && *flags & SymbolRef::SF_Global && !(*flags & Others))
            replacing.insert(*defined);
        consumeError(flags.takeError());
        consumeError(defined.takeError());
    }
    if (!isOfCompiler(name))
        module.getOrInsertNamedMetadata(MachineCode);
}

// The linker will take others in their place.
void Inputs::leaveReplaced()
{
    for (Function &function : module)
        if (!function.isDeclaration() && function.isInterposable() &&
            replacing.contains(function.getName())) {
            function.deleteBody();
            function.setComdat(nullptr);
        }
}

std::string Inputs::addModule(MemoryBufferRef bitcode, const std::string &name)
{
    Expected<std::unique_ptr<Module>> parsed = parseBitcodeFile(bitcode, module.getContext());
    if (!parsed)
        return message(name, parsed.takeError());
    return linker.linkInModule(std::move(*parsed)) ? name + ": cannot be linked" : "";
}

// The size of the first module of bitcode: its magic number, and blocks until the end or the next
// such number. An object of objects has several. Returns 0 if there is none.
size_t sizeOfModule(StringRef bitcode)
{
    static constexpr uint32_t Magic = 0xdec04342;
    const auto word = [&](size_t at) { return support::endian::read32le(bitcode.data() + at); };
    if (bitcode.size() < 8 || word(0) != Magic)
        return 0;
    SimpleBitstreamCursor cursor(bitcode);
    size_t at = 4;
    while (at + 8 <= bitcode.size() && word(at) != Magic) {
        consumeError(cursor.JumpToBit(at * 8));
        Expected<SimpleBitstreamCursor::word_t> kind = cursor.Read(2);
        if (!kind || *kind != bitc::ENTER_SUBBLOCK)
            return 0;
        consumeError(cursor.ReadVBR(bitc::BlockIDWidth).takeError());
        consumeError(cursor.ReadVBR(bitc::CodeLenWidth).takeError());
        cursor.SkipToFourByteBoundary();
        Expected<SimpleBitstreamCursor::word_t> words = cursor.Read(bitc::BlockSizeWidth);
        if (!words)
            return 0;
        at = cursor.GetCurrentBitNo() / 8 + *words * 4;
    }
    return std::min(at, bitcode.size());
}

// It is in another section if sanitizers are to work on it.
StringRef bitcodeIn(const ObjectFile &object)
{
    for (const SectionRef &section : object.sections()) {
        Expected<StringRef> name = section.getName();
        Expected<StringRef> contents = section.getContents();
        if (name && contents && (*name == ".llvm.lto" || *name == ".llvmbc"))
            return *contents;
        consumeError(name.takeError());
        consumeError(contents.takeError());
    }
    return "";
}

// Bitcode is linked; of an object without it, what it needs is kept.
std::string Inputs::add(MemoryBufferRef buffer, const std::string &name)
{
    Expected<std::unique_ptr<ObjectFile>> object = ObjectFile::createObjectFile(buffer);
    if (!object) {
        consumeError(object.takeError());
        return ""; // a linker script
    }
    StringRef bitcode = bitcodeIn(**object);
    const bool hasBitcode = !bitcode.empty();
    for (std::string failure; !bitcode.empty();) {
        const size_t size = sizeOfModule(bitcode);
        failure = size ? addModule({bitcode.take_front(size), name}, name) : name + ": no bitcode";
        if (!failure.empty())
            return failure;
        bitcode = bitcode.drop_front(size);
    }
    if (hasBitcode)
        return "";
    const auto *elf = dyn_cast<ELFObjectFileBase>(object->get());
    if (elf)
        noteLocals(*elf);
    if (elf && elf->getEType() == ELF::ET_REL)
        noteMachineCode(**object, name);
    return "";
}

std::string Inputs::addArchive(const Archive &archive, const std::string &path, const Job &job)
{
    Error error = Error::success();
    std::string failure;
    for (const Archive::Child &child : archive.children(error)) {
        Expected<StringRef> name = child.getName();
        Expected<MemoryBufferRef> buffer = child.getMemoryBufferRef();
        if (name && buffer && failure.empty() && job.members.count({path, name->str()}))
            failure = add(*buffer, path + "(" + name->str() + ")");
        consumeError(name.takeError());
        consumeError(buffer.takeError());
    }
    return error ? message(path, std::move(error)) : failure;
}

std::string Inputs::addFile(const std::string &path, const Job &job)
{
    ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path, false, false);
    if (!buffer)
        return path + ": " + buffer.getError().message();
    buffers.push_back(std::move(*buffer));
    const MemoryBufferRef contents = *buffers.back();
    if (!contents.getBuffer().starts_with("!<arch>") &&
        !contents.getBuffer().starts_with("!<thin>"))
        return add(contents, path);
    Expected<std::unique_ptr<Archive>> archive = Archive::create(contents);
    return archive ? addArchive(**archive, path, job) : message(path, archive.takeError());
}

// What a shared library, or dlsym, finds in the program.
std::string Inputs::noteExports(const std::string &path)
{
    Expected<OwningBinary<ObjectFile>> object = ObjectFile::createObjectFile(path);
    if (!object)
        return message(path, object.takeError());
    const auto *elf = dyn_cast<ELFObjectFileBase>(object->getBinary());
    if (!elf)
        return "";
    for (const ELFSymbolRef &symbol : elf->getDynamicSymbolIterators()) {
        Expected<uint32_t> flags = symbol.getFlags();
        Expected<StringRef> name = symbol.getName();
        if (flags && name && !(*flags & SymbolRef::SF_Undefined))
            kept.insert(*name);
        consumeError(flags.takeError());
        consumeError(name.takeError());
    }
    return "";
}

void Inputs::internalize()
{
    ModuleSymbolTable::CollectAsmSymbols(
        module, [&](StringRef name, BasicSymbolRef::Flags) { kept.insert(name); });
    internalizeModule(module, [&](const GlobalValue &value) {
        const StringRef name = value.getName();
        return kept.contains(name) || name == "gs_cc_main" || name.starts_with(WrapPrefix) ||
               value.hasWeakAnyLinkage();
    });
    for (const StringMapEntry<std::nullopt_t> &name : foreignLocals)
        if (GlobalVariable *variable = module.getGlobalVariable(name.getKey()))
            variable->addAttribute(ReachedByOthers);
}

} // namespace

std::string linkInputs(Module &module, const Job &job)
{
    Inputs inputs(module);
    std::string failure = job.native.empty() ? "" : inputs.noteExports(job.native);
    for (const std::string &file : job.files)
        if (failure.empty())
            failure = inputs.addFile(file, job);
    if (failure.empty())
        inputs.leaveReplaced();
    if (failure.empty())
        inputs.internalize();
    return failure;
}

} // namespace cc
