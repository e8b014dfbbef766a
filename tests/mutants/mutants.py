"""Small wrong changes to C source text, each of which a test should notice.

Text is masked first: comments, strings and preprocessor lines are blank, and what logs, says an error's text or asserts
is left alone. Only bodies of functions are changed, so tables stay as they are."""
import bisect
import re
from typing import NamedTuple

SILENT = ("weft_log", "weft_fail", "weft_fail_quiet", "weft_fail_about", "snprintf", "fprintf", "_Static_assert",
          "static_assert", "assert", "sizeof")
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "/": "*", "%": "/", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "<<": ">>", ">>": "<<", "|": "&", "&": "|"}
WORDS = {"true": "false", "false": "true"}


class Mutant(NamedTuple):
    file: str
    line: int
    function: str
    kind: str
    old: str # the lines that change, their blanks made single
    new: str
    begin: int
    end: int
    text: str # what comes in place of text[begin:end]

    def key(self):
        return self.file, self.function, self.old, self.new


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def mask(text):
    """The same length, with nothing left that is not code."""
    pattern = (r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
               r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*")
    return re.sub(pattern, lambda found: blank(found.group()), text, flags=re.S | re.M)


def closing(code, at):
    """Where the bracket at `at` closes."""
    depth = 0
    for i in range(at, len(code)):
        depth += code[i] in "([{"
        depth -= code[i] in ")]}"
        if depth == 0:
            return i
    return len(code) - 1


def functions(code):
    """(name, head, begin, end) of every body; the house writes its braces at the line's begin."""
    for found in re.finditer(r"^\{\n(.*?)^\}", code, re.S | re.M):
        head = code[:found.start()]
        head = head[max(head.rfind("}"), head.rfind(";")) + 1:]
        name = re.search(r"\b(\w+)\)?\(", head)
        if name and "=" not in head:
            yield name.group(1), head, found.start() + 2, found.end() - 1


def hush(code, begin, end):
    """Blanks the arguments of what only says something, and the sizes of arrays."""
    body = list(code[begin:end])
    for found in re.finditer(r"\b(%s)(\()" % "|".join(SILENT), code[begin:end]):
        last = closing(code, begin + found.start(2)) - begin
        for i in range(found.start(2) + 1, last):
            body[i] = body[i] if body[i] == "\n" else " "
    text = "".join(body)
    return re.sub(r"(\b(?!return |else |case )[a-z]\w+ \**\w+)(\[[^\]\n]*\])",
                  lambda found: found.group(1) + " " * len(found.group(2)), text)


def in_loop_head(body, at):
    """What steps a loop: without it nothing would be learnt but that it hangs."""
    for found in re.finditer(r"\bfor (\()", body):
        if found.start() < at < closing(body, found.start(1)):
            return body.rfind(";", found.start(), at) > 0 and body[found.start():at].count(";") == 2
    return False


def operators(body):
    for found in re.finditer(r"(?<= )(<=|>=|==|!=|&&|\|\||\+=|-=|\|=|&=|<<|>>|[<>+/%&|-])(?= )", body):
        if not in_loop_head(body, found.start()):
            yield "operator", found.start(), found.end(), SWAPS[found.group()]
    for found in re.finditer(r"\n *(&&|\|\||[+-]) ", body): # at a line's begin
        yield "operator", found.start(1), found.end(1), SWAPS[found.group(1)]


def constants(body):
    for found in re.finditer(r"(?<![\w.])(\d+)([uUlL]*)(?![\w.])", body):
        value = int(found.group(1))
        if in_loop_head(body, found.start()):
            continue
        yield "constant", found.start(), found.end(), f"{value + 1}{found.group(2)}"
        if value == 1:
            yield "constant", found.start(), found.end(), f"0{found.group(2)}"
    for found in re.finditer(r"\b(true|false)\b", body):
        yield "constant", found.start(), found.end(), WORDS[found.group()]


def conditions(body):
    for found in re.finditer(r"\bif (\()", body):
        begin, end = found.start(1), closing(body, found.start(1)) + 1
        yield "negated", begin, begin + 1, "(!("
        yield "never", begin, end, "(0)"
    for found in re.finditer(r"(?<=[=(,] )?([\w.>\[\]()-]+) \? ", body):
        yield "negated", found.start(1), found.end(1), f"!({found.group(1)})" if "(" not in found.group(1) else None


def increments(body):
    for found in re.finditer(r"\+\+|--", body):
        if not in_loop_head(body, found.start()):
            yield "increment", found.start(), found.end(), "--" if found.group() == "++" else "++"


DECLARES = re.compile(r"(?:const |static |struct |unsigned |enum )*[a-z_]\w*\s+\**\w+(?:\[.*\])?\s*(?:=|;|,)")


def statements(body):
    """Calls, assignments and conditional returns that are left out; failures that are none."""
    for found in re.finditer(r"(?:^|\n)( *)(?=\S)([^;{}\n]*(?:\n[^;{}\n]*)*?;)", body):
        begin, end = found.start(2), found.end(2)
        while True: # behind the conditions before it
            head = re.match(r"(?:else )?(?:if|for|while|switch) (\()|else\s+|do\s+|case [^:]*:\s*|default:\s*", body[begin:end])
            if not head:
                break
            begin = closing(body, begin + head.start(1)) + 1 if head.group(1) else begin + head.end()
            begin += len(body[begin:end]) - len(body[begin:end].lstrip())
            if begin >= end:
                break
        text = body[begin:end]
        if begin >= end or text == ";" or DECLARES.match(text) and not text.startswith("return"):
            continue
        under = begin > found.start(2) or len(found.group(1)) > 4 or \
            re.search(r"\b(?:if|else|for|while)\b[^;{}]*\n *$", body[max(0, found.start(2) - 400):found.start(2)])
        if text.startswith("return"):
            if under:
                yield "removed", begin, end, ";"
            if re.match(r"return (status|WEFT_E_\w+|weft_fail(_quiet)?\(.*\));", text, re.S):
                yield "no failure", begin, end, "return WEFT_OK;"
        elif not re.match(r"(break|continue|goto|weft_log\b|\(void\))", text):
            yield "removed", begin, end, ";"
        elif text in ("break;", "continue;"):
            yield "removed", begin, end, ";"


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def of_source(file, text):
    """All mutants of a file, in the order of the text."""
    code = mask(text)
    lines = [0] + [found.end() for found in re.finditer("\n", text)]
    found = []
    for name, head, begin, end in functions(code):
        body = hush(code, begin, end)
        heard = code[begin:end]
        edits = [*operators(body), *constants(body), *conditions(body), *increments(body), *statements(heard)]
        if re.search(r"\bweft_status\s*\(?\w+\)?\($", head[:head.find("(") + 1]) and body.count("\n") > 2:
            edits.append(("begins well", 0, 0, "    return WEFT_OK;\n"))
        for kind, first, last, new in edits:
            if new is None or kind == "removed" and "weft_log" in heard[first:last]:
                continue
            extra = "))" if new == "(!(" else ""
            first, last = begin + first, begin + last
            if extra: # the whole condition
                close = closing(code, first) + 1
                new, last = "(!" + text[first:close] + ")", close
            left = text.rfind("\n", 0, first) + 1
            right = text.find("\n", last - 1 if last > first else last)
            line = bisect.bisect_right(lines, first)
            old_lines, new_lines = text[left:right], text[left:first] + new + text[last:right]
            # the number of lines stays, so that what counts them stays
            new += "\n" * (text[first:last].count("\n") - new.count("\n")) if kind != "begins well" else ""
            if kind == "begins well":
                new = new.strip() + " "
                old_lines, new_lines = "{", "{ " + new
            found.append(Mutant(file, line, name, kind, squeeze(old_lines), squeeze(new_lines), first, last, new))
    return sorted(set(found), key=lambda mutant: (mutant.begin, mutant.end, mutant.text))


def planted(text, mutant):
    return text[:mutant.begin] + mutant.text + text[mutant.end:]
