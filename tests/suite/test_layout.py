"""How the tests themselves are laid out: what several of them need stands in a module of its own."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_module_imports_from_a_test_module():
    modules = {".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts)) for path in TESTS.rglob("test_*.py")}
    assert len(modules) > 100
    assert {str(path): taken for path in TESTS.rglob("*.py") if (taken := imported(path) & modules)} == {}
