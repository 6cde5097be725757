// How reports show what the threads of a program share.
#include "compiler/plugin/decide/sharing.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/raw_ostream.h>

using namespace llvm;

namespace cc
{

static constexpr char Cut[] = "The program is too large: not all of its accesses were compared.";

static std::string describe(const Reach &reach)
{
    return (reach.isWrite ? "written " : "read ") + textOf(reach);
}

std::string textOf(const Reach &reach)
{
    std::string text = "by " + reach.thread + (reach.isRepeated ? " (several threads)" : "");
    if (!reach.place.empty())
        text += " at " + reach.place;
    text += ": " + reach.chain;
    return text + (reach.locks.empty() ? ", with no lock" : ", with " + join(reach.locks, ", "));
}

static std::string nameAndPlace(const std::string &name, const std::string &place)
{
    return place.empty() ? name : name + " (" + place + ")";
}

std::vector<std::string> sentencesOf(const LockUse &use)
{
    std::vector<std::string> sentences;
    if (use.isOfOneThread)
        sentences.push_back("only one thread enters");
    else if (use.sections.size() > 1)
        sentences.push_back(
            "its " + std::to_string(use.sections.size()) + " sections exclude each other" +
            (any_of(use.sections, [](const LockedSection &one) { return one.isShared; })
                 ? ", but those for reading"
                 : ""));
    if (!use.within.empty())
        sentences.push_back("always inside of " + join(use.within, ", "));
    if (!use.together.empty())
        sentences.push_back("may run at the same time as sections of " + join(use.together, ", "));
    if (use.together.empty())
        sentences.push_back("no section of another lock may run at the same time");
    return sentences;
}

static std::string othersOf(const Race &race)
{
    const char *verb = race.others.size() == 1 ? "so is " : "so are ";
    return race.others.empty() ? "" : verb + join(race.others, ", ");
}

static std::string describe(const LockedSection &section)
{
    return section.function + (section.isShared ? ", for reading" : "") +
           (section.place.empty() ? "" : " (" + section.place + ")") + " in " +
           join(section.threads, ", ");
}

static std::string describe(const Inversion &inversion)
{
    return inversion.first + " and " + inversion.second +
           " are taken in both orders, so that threads may block each other for ever";
}

static std::string insideOf(const std::string &inner, const Reach &reach)
{
    return inner + " is taken " + textOf(reach);
}

// ---- Text ----

void warn(const Sharing &sharing)
{
    for (const Race &race : sharing.races) {
        errs() << race.first.place << (race.first.place.empty() ? "" : ": ")
               << "warning: " << nameAndPlace(race.name, race.place)
               << " is reached by several threads without a common lock [-Wgossamer-races]\n";
        for (const Reach *reach : {&race.first, &race.second})
            errs() << reach->place << (reach->place.empty() ? "" : ": ")
                   << "note: " << describe(*reach) << "\n";
        if (!race.others.empty())
            errs() << "note: " << othersOf(race) << "\n";
    }
    for (const Inversion &inversion : sharing.inversions) {
        errs() << "warning: " << describe(inversion) << " [-Wgossamer-races]\n";
        errs() << "note: " << insideOf(inversion.first, inversion.firstInside) << "\n";
        errs() << "note: " << insideOf(inversion.second, inversion.secondInside) << "\n";
    }
}

static void writeLocks(raw_ostream &stream, const Sharing &sharing)
{
    if (!sharing.locks.empty())
        stream << "\nCritical sections\n";
    for (const LockUse &use : sharing.locks) {
        stream << "    " << nameAndPlace(use.name, use.place) << ": "
               << join(sentencesOf(use), "; ") << "\n";
        for (const LockedSection &section : use.sections)
            stream << "        " << describe(section) << "\n";
    }
    for (const Inversion &inversion : sharing.inversions)
        stream << "    Warning: " << describe(inversion) << "\n        "
               << insideOf(inversion.first, inversion.firstInside) << "\n        "
               << insideOf(inversion.second, inversion.secondInside) << "\n";
}

void writeSharing(raw_ostream &stream, const Sharing &sharing)
{
    if (!sharing.races.empty())
        stream << "\nData that several threads reach without a common lock\n";
    for (const Race &race : sharing.races)
        stream << "    " << (race.isVolatile ? "volatile " : "")
               << nameAndPlace(race.name, race.place) << "\n        " << describe(race.first)
               << "\n        " << describe(race.second) << "\n"
               << (race.others.empty() ? "" : "        " + othersOf(race) + "\n");
    writeLocks(stream, sharing);
    if (sharing.isCut)
        stream << "    " << Cut << "\n";
}

// ---- JSON ----

static json::Array listOf(ArrayRef<std::string> texts)
{
    json::Array list;
    for (const std::string &text : texts)
        list.push_back(text);
    return list;
}

static json::Object asJson(const Reach &reach)
{
    return json::Object{{"thread", reach.thread}, {"several", reach.isRepeated},
                        {"chain", reach.chain},   {"place", reach.place},
                        {"write", reach.isWrite}, {"locks", listOf(reach.locks)}};
}

static json::Object asJson(const LockUse &use)
{
    json::Array sections;
    for (const LockedSection &section : use.sections)
        sections.push_back(json::Object{{"function", section.function},
                                        {"place", section.place},
                                        {"reading", section.isShared},
                                        {"threads", listOf(section.threads)}});
    return json::Object{{"name", use.name},
                        {"place", use.place},
                        {"sections", std::move(sections)},
                        {"one_thread", use.isOfOneThread},
                        {"together", listOf(use.together)},
                        {"inside", listOf(use.within)}};
}

json::Object asJson(const Sharing &sharing)
{
    json::Array races, locks, inversions;
    for (const Race &race : sharing.races)
        races.push_back(json::Object{{"name", race.name},
                                     {"place", race.place},
                                     {"volatile", race.isVolatile},
                                     {"others", listOf(race.others)},
                                     {"first", asJson(race.first)},
                                     {"second", asJson(race.second)}});
    for (const LockUse &use : sharing.locks)
        locks.push_back(asJson(use));
    for (const Inversion &inversion : sharing.inversions)
        inversions.push_back(json::Object{{"first", inversion.first},
                                          {"second", inversion.second},
                                          {"first_inside", asJson(inversion.firstInside)},
                                          {"second_inside", asJson(inversion.secondInside)}});
    return json::Object{{"races", std::move(races)},
                        {"locks", std::move(locks)},
                        {"inversions", std::move(inversions)},
                        {"cut", sharing.isCut}};
}

// ---- Page ----

static void writeCell(raw_ostream &stream, StringRef text)
{
    stream << "<td>";
    printHTMLEscaped(text, stream);
    stream << "\n";
}

// With arrows, at which lines may be broken.
static void writeChain(raw_ostream &stream, const std::string &chain)
{
    SmallVector<StringRef, 8> names;
    StringRef(chain).split(names, " -> ");
    for (const StringRef &name : names) {
        printHTMLEscaped(name, stream);
        stream << (&name == &names.back() ? "" : " &rarr; ");
    }
}

static void writeCell(raw_ostream &stream, const Reach &reach)
{
    stream << "<td>" << (reach.isWrite ? "written" : "read") << " by ";
    printHTMLEscaped(reach.thread, stream);
    stream << (reach.isRepeated ? " (several threads)" : "") << "<br>\n";
    if (!reach.place.empty())
        printHTMLEscaped(reach.place + ": ", stream);
    writeChain(stream, reach.chain);
    stream << "<br>\n";
    printHTMLEscaped(reach.locks.empty() ? "with no lock" : "with " + join(reach.locks, ", "),
                     stream);
    stream << "\n";
}

static void writeRaces(raw_ostream &stream, ArrayRef<Race> races)
{
    stream << "<h2>Data that several threads reach without a common lock</h2>\n";
    if (races.empty()) {
        stream << "<p>None was found.</p>\n";
        return;
    }
    stream << "<table class=\"shared\"><tr><th>data<th>one place<th>the other</tr>\n";
    for (const Race &race : races) {
        stream << "<tr>";
        writeCell(stream, (race.isVolatile ? "volatile " : "") +
                              nameAndPlace(race.name, race.place) +
                              (race.others.empty() ? "" : "; " + othersOf(race)));
        writeCell(stream, race.first);
        writeCell(stream, race.second);
        stream << "</tr>\n";
    }
    stream << "</table>\n";
}

void writeSharingAsPage(raw_ostream &stream, const Sharing &sharing)
{
    writeRaces(stream, sharing.races);
    stream << "<h2>Critical sections</h2>\n";
    if (sharing.locks.empty())
        stream << "<p>There are none.</p>\n";
    else
        stream << "<table class=\"shared\"><tr><th>lock<th>sections<th>meanwhile</tr>\n";
    for (const LockUse &use : sharing.locks) {
        stream << "<tr>";
        writeCell(stream, nameAndPlace(use.name, use.place));
        stream << "<td>";
        for (const LockedSection &section : use.sections) {
            printHTMLEscaped(describe(section), stream);
            stream << "<br>\n";
        }
        writeCell(stream, join(sentencesOf(use), "; "));
        stream << "</tr>\n";
    }
    stream << (sharing.locks.empty() ? "" : "</table>\n");
    for (const Inversion &inversion : sharing.inversions) {
        stream << "<p>";
        printHTMLEscaped(describe(inversion) + ": " +
                             insideOf(inversion.first, inversion.firstInside) + "; " +
                             insideOf(inversion.second, inversion.secondInside),
                         stream);
        stream << "</p>\n";
    }
    if (sharing.isCut)
        stream << "<p>" << Cut << "</p>\n";
}

} // namespace cc
