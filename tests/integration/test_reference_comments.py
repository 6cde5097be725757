"""How the generator of the reference reads comments: results, errors, examples, declarations."""

from pathlib import Path

from reference.examples import Examples
from reference.model import Reference
from reference.parse import Library, read_library

HEADER = """\
/* Examples: things that are counted.
 *
 *     err = gs_count_start(&count);      until it is stopped
 *
 * Threads: any.
 */
#ifndef GOSSAMER_COUNT_H
#define GOSSAMER_COUNT_H

%s

#endif
"""


def read(folder: Path, text: str) -> Library:
    """Read a library of one header."""
    (folder / "count.h").write_text(HEADER % text)
    return read_library(folder)


def reference_of(folder: Path, text: str) -> Reference:
    """Return the reference of a library of one header."""
    return Reference(read(folder, text), Examples(folder))


def test_a_result_without_a_comment_is_a_problem(tmp_path: Path) -> None:
    reference = reference_of(tmp_path, "/* Start. */\nGS_API int gs_count_start(int *count);")
    (problem,) = reference.problems()
    assert problem.endswith("no comment says what gs_count_start returns")


def test_an_error_without_a_reason_is_a_problem_unless_it_has_a_default(tmp_path: Path) -> None:
    comment = "/* Start. Returns 0, -ENOMEM or %s. */\nGS_API int gs_count_start(int *count);"
    (problem,) = reference_of(tmp_path, comment % "-EINVAL").problems()
    assert problem.endswith("no comment says why gs_count_start returns -EINVAL")
    assert reference_of(tmp_path, comment % "-EINVAL (it is negative)").problems() == []


def test_a_reason_belongs_to_the_errors_before_it_that_have_no_default(tmp_path: Path) -> None:
    text = "/* Start. Returns 0, -ENOMEM, -ESRCH or -ECHILD (no such count). */\n"
    reference = reference_of(tmp_path, f"{text}GS_API int gs_count_start(int *count);")
    (result,) = reference.results_of(reference.library.functions["gs_count_start"])
    assert result.errors.reasons == {
        "ENOMEM": [],
        "ESRCH": ["no such count"],
        "ECHILD": ["no such count"],
    }


def test_a_comment_belongs_to_the_declarations_up_to_an_empty_line(tmp_path: Path) -> None:
    library = read(
        tmp_path,
        "/* Start. */\nGS_API void gs_a(void);\nGS_API void gs_b(int n,\n    int m);\n\n"
        "GS_API void gs_c(void (*fn)(int, int), int fds[2]);",
    )
    items = library.functions["gs_a"].items
    assert [[one.name for one in item.functions] for item in items] == [["gs_a", "gs_b"], ["gs_c"]]
    assert items[1].comment.text == ""
    assert items[1].functions[0].parameter_names == ["fn", "fds"]


def test_words_beside_the_code_of_an_example_become_a_comment(tmp_path: Path) -> None:
    reference = reference_of(
        tmp_path, "/* Start. Returns 0. */\nGS_API int gs_count_start(int *count);"
    )
    page = reference.library.functions["gs_count_start"]
    (example,) = reference.examples_of(page)
    assert example.code == "err = gs_count_start(&count);  /* until it is stopped */"
    assert [block.text for block in reference.labels_of(page)["Threads"]] == ["Any."]


def test_bodies_of_inline_functions_are_left_out(tmp_path: Path) -> None:
    library = read(
        tmp_path,
        "/* Returns n. */\nstatic inline int gs_a(int n)\n{\n    return n;\n}\n\n"
        "/* ---- Inline bodies ---- */\n\nstatic inline int gs_b(int n)\n{\n    return n;\n}",
    )
    assert library.declared["gs_a"][1].text == "static inline int gs_a(int n);"
    assert "gs_b" not in library.functions
