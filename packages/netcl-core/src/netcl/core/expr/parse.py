"""Reads the text form of expressions: C over ``v0``, ``v1`` ..., the macros of the preamble, literals and OpenCL's
functions.

Grammar, loosest first: ``a ? b : c``, ``||``, ``&&``, ``== !=``, ``< <= > >=``, ``+ -``, ``* / %``, unary ``- + !``,
calls and parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from netcl.core.errors import ExpressionError
from netcl.core.expr.nodes import PRIMITIVES, Expr, Load, Operand, apply, as_expr

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[fFhHlLuU]?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op>\|\||&&|[=!<>]=|[-+*/%<>?:!(),]))"
)

_BINARY: Sequence[dict[str, str]] = (
    {"||": "logical_or"},
    {"&&": "logical_and"},
    {"==": "eq", "!=": "ne"},
    {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"},
    {"+": "add", "-": "sub"},
    {"*": "mul", "/": "div", "%": "mod"},
)

# C names and the preamble's macros -> primitives; every primitive's own name is understood too.
_FUNCTIONS = {
    "fabs": "abs",
    "fmax": "maximum",
    "max": "maximum",
    "fmin": "minimum",
    "min": "minimum",
    "powf": "pow",
    "rint": "round",
    "fmod": "mod",
    "select": "where",
    "ADD": "add",
    "SUB": "sub",
    "MUL": "mul",
    "DIV": "div",
    "EXP": "exp",
    "LOG": "log",
    "SQRT": "sqrt",
    "TANH": "tanh",
    "ABS": "abs",
    "MAX": "maximum",
    "MIN": "minimum",
}
_CONSTANTS = {
    "INFINITY": float("inf"),
    "NAN": float("nan"),
    "M_PI_F": 3.14159265358979323846,
    "M_E_F": 2.71828182845904523536,
    "true": True,
    "false": False,
}


class _Parser:
    def __init__(self, text: str, operands: Sequence[Expr], names: Mapping[str, Expr]) -> None:
        self.text = text
        self.operands = operands
        self.names = names
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                self.fail(
                    position + len(text[position:]) - len(text[position:].lstrip()),
                    "a character that no token begins with",
                )
            kind = str(match.lastgroup if match.lastgroup != "suffix" else "number")
            start = match.start(kind)
            self.tokens.append(
                (kind, match.group(kind) + (match.group("suffix") or "" if kind == "number" else ""), start)
            )
            position = match.end()
        self.tokens.append(("end", "", len(text)))
        self.at = 0

    def fail(self, position: int, reason: str) -> NoReturn:
        raise ExpressionError(f"{reason}, at position {position}:\n  {self.text}\n  {' ' * position}^")

    def accept(self, *ops: str) -> str | None:
        kind, value, _ = self.tokens[self.at]
        if kind == "op" and value in ops:
            self.at += 1
            return value
        return None

    def expect(self, op: str) -> None:
        if not self.accept(op):
            self.fail(self.tokens[self.at][2], f"expected {op!r}")

    def ternary(self) -> Operand:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.ternary()
        self.expect(":")
        return self.build("where", [condition, yes, self.ternary()], self.tokens[self.at][2])

    def binary(self, level: int) -> Operand:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while op := self.accept(*_BINARY[level]):
            position = self.tokens[self.at - 1][2]
            left = self.build(_BINARY[level][op], [left, self.binary(level + 1)], position)
        return left

    def unary(self) -> Operand:
        position = self.tokens[self.at][2]
        if self.accept("-"):
            operand = self.unary()
            return self.build("neg", [operand], position) if isinstance(operand, Expr) else -operand
        if self.accept("+"):
            return self.unary()
        if self.accept("!"):
            return self.build("logical_not", [self.unary()], position)
        return self.primary()

    def primary(self) -> Operand:
        kind, value, position = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            digits = value.rstrip("fFhHlLuU") if not value.lower().startswith("0x") else value
            whole = not re.search(r"[.eE]", digits) and value[-1] not in "fFhH" or digits.lower().startswith("0x")
            return int(digits, 0) if whole else float(digits)
        if kind == "name":
            return self.name(value, position)
        if kind == "op" and value == "(":
            inner = self.ternary()
            self.expect(")")
            return inner
        return self.fail(position, "expected a value")

    def name(self, name: str, position: int) -> Operand:
        if self.accept("("):
            args = [self.ternary()]
            while self.accept(","):
                args.append(self.ternary())
            self.expect(")")
            if name == "RELU":
                name, args = "maximum", [*args, 0.0]
            return self.build(_FUNCTIONS.get(name, name), args, position)
        if re.fullmatch(r"v\d+", name):
            slot = int(name[1:])
            if slot >= len(self.operands):
                self.fail(
                    position, f"{name} is not one of the {len(self.operands)} inputs v0..v{len(self.operands) - 1}"
                )
            return self.operands[slot]
        if name in self.names:
            return self.names[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        return self.fail(position, f"unknown name {name!r}")

    def build(self, name: str, args: list[Operand], position: int) -> Expr:
        if name not in PRIMITIVES:
            self.fail(position, f"unknown function {name!r}")
        try:
            return apply(name, *args)
        except ExpressionError as error:
            self.fail(position, str(error))


def parse(text: str, arity: int | Sequence[Expr], names: Mapping[str, Expr] | None = None) -> Expr:
    """Returns the expression that ``text`` writes over v0, v1, ...: ``arity`` float32 inputs, or the expressions passed
    in its place.

    ``names`` are further names that the text may use. ``parse("v0 > 0 ? v0 : slope * v0", 1, {"slope": Scalar("slope",
    "float32")})``. Raises ExpressionError with the position of a syntax error.
    """
    operands = [Load(slot, "float32") for slot in range(arity)] if isinstance(arity, int) else list(arity)
    parser = _Parser(text, operands, names or {})
    result = parser.ternary()
    if parser.tokens[parser.at][0] != "end":
        parser.fail(parser.tokens[parser.at][2], "expected an operator or the end")
    return as_expr(result, operands[0].dtype if operands else None)
