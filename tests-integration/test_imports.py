"""What importing the packages must not do to a process, and what must be told apart between them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from importlib import metadata

import pytest
import torch
import tree

IMPORTS = "".join(f"import tilevl.{op.name}\n" for op in tree.ops())


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_a_module_again_registers_no_op_twice() -> None:
    """https://github.com/huggingface/peft/issues/1877."""
    modules = [f"tilevl.{op.name}.op" for op in tree.ops()] + ["tilevl.replace_input_embeds.token_index.op"]
    script = f"""
import importlib, torch
{IMPORTS}
for name in {modules}:
    module = importlib.import_module(name)
    before = module.OP
    assert importlib.reload(module).OP is before
rows = torch.zeros(3, 2)
tilevl.replace_input_embeds.replace_input_embeds(rows, torch.ones(1, 2), torch.tensor([1]))
print(rows.sum().item())
"""
    assert run(script) == "2.0\n"


def test_no_package_registers_a_backend_of_torch() -> None:
    """Such an entry point runs at ``import torch``: https://github.com/flashserve/flash-linear-attention-npu/issues/2."""
    ours = {package.distribution for package in tree.packages()}
    found = {entry.dist.name for entry in metadata.entry_points(group="torch.backends") if entry.dist}
    assert not found & ours
    for package in tree.packages():
        assert "torch.backends" not in package.manifest["project"].get("entry-points", {})


def test_kernels_of_all_ops_have_names_of_their_own() -> None:
    """Caches and profilers know a kernel by its name: https://github.com/tile-ai/tilelang/issues/2662."""
    names: Counter[tuple[str, str]] = Counter()
    for op in tree.ops():
        for path in op.source.rglob("kernels/*.py"):
            target = path.stem.partition("_")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and any(
                    "prim_func" in ast.unparse(d) for d in node.decorator_list
                ):
                    names[target, node.name] += 1
    assert len(names) >= 9
    assert {name: count for name, count in names.items() if count > 1} == {}


@pytest.mark.targets("cuda")
def test_devices_that_are_hidden_after_the_import_stay_hidden(target: str, device: torch.device) -> None:
    """A capability that is asked for at import freezes them: https://github.com/NVIDIA/TransformerEngine/issues/872."""
    script = f"""
import os, torch
{IMPORTS}
assert not torch.cuda.is_initialized()
os.environ["CUDA_VISIBLE_DEVICES"] = ""
print(torch.cuda.device_count())
"""
    assert run(script) == "0\n"
