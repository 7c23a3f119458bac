"""Does a chat template take a message's content as a list of parts? Read off its syntax tree as vLLM does."""

from collections.abc import Callable

from jinja2 import nodes

_Matches = Callable[[nodes.Node], bool]


def loops_over_content(template: nodes.Template) -> bool:
    """Whether some loop runs over the content of a message, directly, through a variable `content`, or in a macro.

    A template that does gets lists of parts, any other gets text (vLLM's `--chat-template-content-format auto`).
    vLLM gives up, and takes it for one that doesn't, where it meets a loop or an assignment of several names at once.
    """
    try:
        names = _message_names(template)
    except _Unreadable:
        return False

    def is_content(node: nodes.Node) -> bool:
        return any(_reaches(node, name, "content") for name in names)

    given: dict[int, set[str]] = {}
    for macro in template.find_all(nodes.Macro):
        parameters = _parameters_given(template, macro, is_content)
        for loop in macro.find_all(nodes.For):
            given[id(loop)] = parameters
    for loop in template.find_all(nodes.For):
        variable = loop.iter.name if isinstance(loop.iter, nodes.Name) else None
        if is_content(loop.iter) or (variable is not None and variable in given.get(id(loop), {"content"})):
            return isinstance(loop.target, nodes.Name)
    return False


class _Unreadable(Exception):
    """vLLM's reading of the template ends here."""


def _message_names(template: nodes.Template) -> list[str]:
    """Loop variables that stand for one message."""
    lists = _aliases(template, "messages")
    names = []
    for loop in template.find_all(nodes.For):
        if any(_reaches(loop.iter, name) for name in lists):
            if not isinstance(loop.target, nodes.Name):
                raise _Unreadable
            names.append(loop.target.name)
    return names


def _aliases(template: nodes.Template, name: str) -> list[str]:
    """`name`, and every variable that is assigned from it or from a slice or filter of it."""
    known = [name]
    for current in known:
        for assignment in template.find_all(nodes.Assign):
            if _reaches(assignment.node, current):
                if not isinstance(assignment.target, nodes.Name):
                    raise _Unreadable
                if assignment.target.name not in known:
                    known.append(assignment.target.name)
    return known


def _parameters_given(template: nodes.Template, macro: nodes.Macro, matches: _Matches) -> set[str]:
    """The macro's parameters that some call fills with a node that matches."""
    names = [argument.name for argument in macro.args]
    given: set[str] = set()
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == macro.name:
            given.update(name for name, argument in zip(names, call.args, strict=False) if matches(argument))
            given.update(keyword.key for keyword in call.kwargs if keyword.key in names and matches(keyword.value))
    return given


def _reaches(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Whether the node reads variable `name` (or its item `key`), possibly filtered, tested or sliced."""
    if isinstance(node, nodes.Filter | nodes.Test):
        return _reaches(node.node, name, key)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        return _reaches(node.node, name, key)
    if key is None:
        return _is_read_of(node, name)
    if isinstance(node, nodes.Getitem):
        return _is_read_of(node.node, name) and isinstance(node.arg, nodes.Const) and node.arg.value == key
    return isinstance(node, nodes.Getattr) and _is_read_of(node.node, name) and node.attr == key


def _is_read_of(node: nodes.Node | None, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
