// A report as one page of HTML, which needs nothing else: the graph of the calls that may wait, in
// columns by their distance from where threads start, and a section for each function.
#include "compiler/plugin/decide/bounds.h"
#include "compiler/plugin/decide/stack_calls.h"
#include "compiler/plugin/decide/stack_graph.h"
#include "compiler/plugin/read/source_names.h"
#include "compiler/plugin/report/report.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/raw_ostream.h>

using namespace llvm;

namespace cc
{

namespace
{

constexpr int ColumnWidth = 230, RowHeight = 34, NodeWidth = 170, NodeHeight = 22, Margin = 12;

constexpr char Head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Threads compiled into "
    "events</title>\n<style>\nbody{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 "
    "1em;color:#222}\ntable{border-collapse:collapse}td,th{border:1px solid "
    "#ccc;padding:.2em .6em;text-align:left}\n.graph{overflow-x:auto}rect{fill:#eef3fb;stroke:#58a}"
    "\n.entry rect{fill:#dff0dd}.stack rect{fill:#fbe3d8}.runtime rect{fill:#f4f4f4;stroke:#aaa}\n"
    "path{fill:none;stroke:#bbb}text{font:12px sans-serif}\ntd{vertical-align:top}.shared "
    "td{width:33%}h3{margin-bottom:"
    "0}ul:empty{display:none}p,ul{margin:.4em 0}\n</style></head>\n<body>\n<h1>Threads "
    "compiled into events</h1>\n";

struct Node {
    unsigned column = 0, row = 0;
    SetVector<const Function *> callees;
    int x() const
    {
        return Margin + int(column) * ColumnWidth;
    }
    int y() const
    {
        return Margin + int(row) * RowHeight;
    }
};

class Page
{
  public:
    Page(raw_ostream &stream, const Findings &findings)
        : stream(stream), calls(findings.calls), converted(findings.converted),
          sharing(findings.sharing), bounds(converted), entries(Bounds::entries(calls.program()))
    {
    }
    void write();

  private:
    void text(StringRef text)
    {
        printHTMLEscaped(text, stream);
    }
    bool hasSection(const Function &function) const;
    static std::string labelOf(const Function &function);
    void link(const Function &function);
    void collect();
    void reach(const Function &function, unsigned column);
    void placeRows();
    void writeNode(const Function &function, const Node &node);
    void writeGraph();
    void writeThreads();
    void writeVariables();
    void writeSites(const Converted &one);
    void writeFunction(const Converted &one);
    void writeOnStack(const Function &function);

    raw_ostream &stream;
    const Calls &calls;
    ArrayRef<Converted> converted;
    const Sharing &sharing;
    Bounds bounds;
    std::vector<const Function *> entries;
    MapVector<const Function *, Node> nodes;
    unsigned columns = 0, rows = 0;
};

bool Page::hasSection(const Function &function) const
{
    return !function.isDeclaration() && calls.mayWait(function);
}

std::string Page::labelOf(const Function &function)
{
    const StringRef name = Calls::nameOf(function);
    if (isStackCall(function))
        return "a call on a stack";
    return name == "__waiting_loop" ? "a loop that waits" : name.str();
}

void Page::link(const Function &function)
{
    if (!hasSection(function)) {
        text(labelOf(function));
        return;
    }
    stream << "<a href=\"#";
    text(function.getName());
    stream << "\">";
    text(labelOf(function));
    stream << "</a>";
}

// ---- The graph ----

void Page::collect()
{
    for (const Converted &one : converted)
        for (const Site &site : one.sites)
            if (site.callee && one.function->getName() != StartOfMain) {
                nodes[site.callee];
                nodes[one.function].callees.insert(site.callee);
            }
    for (const Function *entry : entries)
        if (calls.mayWait(*entry))
            reach(*entry, 1);
    // What is only called through pointers.
    for (const Converted &one : converted)
        if (one.function->getName() != StartOfMain)
            reach(*one.function, 1);
    placeRows();
}

// Columns count from 1 while they are assigned; 0: not reached. The first path decides.
void Page::reach(const Function &function, unsigned column)
{
    std::vector<std::pair<const Function *, unsigned>> queue = {{&function, column}};
    for (size_t i = 0; i < queue.size(); i++) {
        auto [at, depth] = queue[i];
        Node &node = nodes[at];
        if (node.column)
            continue;
        node.column = depth;
        for (const Function *callee : node.callees)
            queue.push_back({callee, depth + 1});
    }
}

// Functions of the runtime are in the last column.
void Page::placeRows()
{
    std::map<unsigned, unsigned> used;
    unsigned last = 0;
    for (const auto &[function, node] : nodes)
        if (!function->isDeclaration())
            last = std::max(last, node.column);
    for (auto &[function, node] : nodes) {
        node.column = function->isDeclaration() ? last : node.column - (node.column > 0);
        node.row = used[node.column]++;
        columns = std::max(columns, node.column + 1);
        rows = std::max(rows, node.row + 1);
    }
}

void Page::writeNode(const Function &function, const Node &node)
{
    const bool isEntry = is_contained(entries, &function);
    const char *kind = function.isDeclaration()       ? "runtime"
                       : !calls.isConverted(function) ? "stack"
                       : isEntry                      ? "entry"
                                                      : "function";
    const bool isLink = hasSection(function);
    if (isLink) {
        stream << "<a href=\"#";
        text(function.getName());
        stream << "\">";
    }
    stream << "<g class=\"" << kind << "\"><rect x=\"" << node.x() << "\" y=\"" << node.y()
           << "\" width=\"" << NodeWidth << "\" height=\"" << NodeHeight
           << "\" rx=\"4\"/><text x=\"" << node.x() + 6 << "\" y=\"" << node.y() + 15 << "\">";
    text(StringRef(labelOf(function)).take_front(24));
    stream << "</text></g>" << (isLink ? "</a>\n" : "\n");
}

void Page::writeGraph()
{
    stream << "<h2>Calls that may wait</h2>\n<p>Green: threads start there; blue: other functions; "
              "red: they run on a stack; grey: functions of the runtime.</p>\n<div "
              "class=\"graph\"><svg width=\""
           << columns * ColumnWidth << "\" height=\"" << rows * RowHeight + 2 * Margin << "\">\n";
    for (const auto &[function, node] : nodes)
        for (const Function *callee : node.callees) {
            const Node &other = nodes.find(callee)->second;
            const int x = node.x() + NodeWidth, y = node.y() + NodeHeight / 2,
                      end = other.y() + NodeHeight / 2;
            stream << "<path d=\"M" << x << " " << y << " C" << x + 40 << " " << y << " "
                   << other.x() - 40 << " " << end << " " << other.x() << " " << end << "\"/>\n";
        }
    for (const auto &[function, node] : nodes)
        writeNode(*function, node);
    stream << "</svg></div>\n";
}

// ---- Tables ----

void Page::writeThreads()
{
    stream << "<h2>Threads</h2>\n<table><tr><th>starts at<th>bytes while it waits<th>of "
              "these<th>not counted<th>of its worker's stack</tr>\n";
    for (const Function *entry : entries) {
        const Bound &bound = bounds.of(*entry);
        const StringRef obstacle = calls.obstacleTo(*entry);
        stream << "<tr><td>";
        link(*entry);
        text(" " + placeOfFunction(*entry));
        if (!obstacle.empty())
            stream << "<td>has a stack<td>";
        else if (calls.mayWait(*entry))
            stream << "<td>" << (bound.gaps.empty() ? "at most " : "at least ") << bound.bytes
                   << "<td>";
        else
            stream << "<td>never waits<td>";
        for (const Frame &frame : bound.chain) {
            text(Calls::nameOf(*frame.function));
            stream << " " << frame.bytes << "<br>";
        }
        stream << "<td>";
        for (const std::string &gap : condense(bound.gaps)) {
            text(gap);
            stream << "<br>";
        }
        if (!obstacle.empty())
            text(("it runs on a stack, because " + obstacle).str());
        stream << "<td>" << (obstacle.empty() ? sentenceOfWorker(*entry) : "") << "</tr>\n";
    }
    stream << "</table>\n";
}

void Page::writeVariables()
{
    stream << "<h2>Variables over " << LargeObject << " bytes that live across a wait</h2>\n<table>"
           << "<tr><th>function<th>variable<th>bytes<th>advice</tr>\n";
    for (const Converted &one : converted)
        for (const Object &object : one.objects) {
            if (object.size <= LargeObject)
                continue;
            stream << "<tr><td>";
            link(*one.function);
            stream << "<td>";
            text((object.name.empty() ? "a variable" : object.name) + " " + object.place);
            stream << "<td>" << object.size << "<td>" << adviceFor(object) << "</tr>\n";
        }
    stream << "</table>\n";
}

void Page::writeSites(const Converted &one)
{
    stream << "<table><tr><th>waits at<th>in<th>bytes<th>with</tr>\n";
    for (const Site &site : one.sites) {
        stream << "<tr><td>";
        text(placeOf(site.location));
        stream << "<td>";
        if (site.callee)
            link(*site.callee);
        else
            text(calleeOf(site));
        stream << "<td>" << site.recordSize << "<td>";
        for (const auto &[name, size] : site.live) {
            text((&name == &site.live.front().first ? "" : ", ") +
                 (name.empty() ? "a value" : name) + " " + std::to_string(size));
        }
        stream << "</tr>\n";
    }
    stream << "</table>\n";
}

void Page::writeFunction(const Converted &one)
{
    stream << "<h3 id=\"";
    text(one.function->getName());
    stream << "\">";
    text(Calls::nameOf(*one.function));
    stream << "</h3>\n<p>";
    text(calls.chainOf(*one.function));
    stream << "</p>\n<ul>\n";
    for (const Object &object : one.objects) {
        stream << "<li>environment: ";
        text(object.name.empty() ? "a variable" : object.name);
        stream << ", " << object.size << " bytes</li>\n";
    }
    stream << "</ul>\n";
    writeSites(one);
}

void Page::writeOnStack(const Function &function)
{
    stream << "<h3 id=\"";
    text(function.getName());
    stream << "\">";
    text(labelOf(function));
    stream << "</h3>\n<p>";
    text((calls.chainOf(function) + "; it runs on a stack, because " + calls.obstacleTo(function) +
          "; it needs " + sentenceOfStack(function) + " of stack")
             .str());
    stream << "</p>\n";
}

void Page::write()
{
    collect();
    stream << Head;
    writeThreads();
    writeVariables();
    writeSharingAsPage(stream, sharing);
    writeGraph();
    stream << "<h2>Functions</h2>\n";
    for (const Converted &one : converted)
        if (one.function->getName() != StartOfMain)
            writeFunction(one);
    for (const Function *function : calls.onStacks())
        writeOnStack(*function);
    stream << "</body></html>\n";
}

} // namespace

void writePage(raw_ostream &stream, const Findings &findings)
{
    Page(stream, findings).write();
}

} // namespace cc
