from __future__ import annotations

import stack
import tree


def names(lines: list[str]) -> set[str]:
    return {tree.distribution_in(line) for line in lines}


def of_models() -> set[str]:
    return names(tree.read_toml(tree.ROOT / "pyproject.toml")["dependency-groups"][stack.MODELS])


def test_only_the_models_environment_holds_what_only_models_need() -> None:
    assert "transformers" in of_models()
    assert not of_models() & names(stack.required())


def test_the_base_holds_all_else_that_packages_require_and_no_package() -> None:
    wanted = {name for package in tree.packages() for name in names(package.requirements)}
    assert {name for name in wanted if not name.startswith("tilevl-")} - of_models() <= names(stack.required())
    assert not [name for name in names(stack.required()) if name.startswith("tilevl-")]
