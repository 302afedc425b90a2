"""One call per op: a schema and a contract become ``torch.ops.tilevl.<op>``.

Every op gets a fake, an entry for CPU, CUDA and PrivateUse1 (NPU) tensors, and a kernel on the Autograd key that
refuses an input that requires grad or carries a tangent, goes on below ADInplaceOrView and bumps the version of what
the op wrote. A second one bumps on ADInplaceOrView itself, which inference mode enters without passing Autograd.
Without them a derivative through the op is silently wrong. This is the only module that uses torch's private names for
it; ``recurring`` has those that tell whether a call would go through all of this as one before it did.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.autograd import forward_ad

from tilevl.core import data_checks, requirements, schemas, targets
from tilevl.core.cache import Kernel, KernelCache
from tilevl.core.devices import require_kernel, require_target
from tilevl.core.recurring import Args, RecurringCalls, unobserved

NAMESPACE = "tilevl"

_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_below = torch._C._after_ADInplaceOrView_keyset


def _keys(*names: str) -> int:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return int(keys.raw_repr())


def _plain(backend: str) -> set[int]:
    autograd = f"Autograd{backend}"
    return {
        _keys(backend, autograd),
        _keys(backend, autograd, "ADInplaceOrView"),
        _keys(backend, "ADInplaceOrView"),
    }


# What the dispatcher has left to visit in eager mode, no mode or tracer anywhere: then the device's entry is called at
# once, which is where redispatching would lead, 2 us later.
_plain_cpu, _plain_cuda = _plain("CPU"), _plain("CUDA")


_direct: dict[torch._ops.OpOverload, Callable[..., Any]] = {}


def direct(op: torch._ops.OpOverload) -> Callable[..., Any]:
    """What a public function calls: a registered op, past torch's dispatcher where a call on CUDA recurs.

    The dispatcher takes 2 to 5 us to hand arguments over to Python. While torch compiles, where a mode, a transform or
    a profiler would see the call, and for a call that is new in any way, what is returned calls the op itself. It takes
    all arguments, by position.
    """
    return _direct[op]


def _overload(name: str) -> torch._ops.OpOverload:
    overload: torch._ops.OpOverload = getattr(torch.ops.tilevl, name).default
    return overload


def register(
    package: str,
    schema: str,
    *,
    version: str,
    check: Callable[..., tuple[Any, torch.dtype] | None],
    check_data: Callable[..., None],
    specialise: Callable[..., tuple[Any, ...]],
) -> torch._ops.OpOverload:
    """Registers an op and returns it.

    Args:
        package: the package whose ``kernels`` hold the builders, for example ``"tilevl.bmp_to_patches"``. A builder is
            imported when its target is first used: ``build(*key)`` returns ``kernel(*args, out)``, or ``kernel(*args)``
            for an op that writes in place; a ``tilevl.core.plans.PlannedKernel`` is one as well.
        schema: name, arguments and result, as ``torch.library`` takes them; ``SymInt`` for every int.
        version: version of the distribution; registering another version of an op in one process is an error.
        check: the rules on metadata, called with all arguments by the fake and by every real call. Returns the shape
            and dtype of the result, or None where the op writes in place.
        check_data: the rules on data; called on CPU, and on devices with ``TILEVL_CHECK_DATA=1``.
        specialise: the hashable key that ``build`` takes, called with all arguments.

    Returns:
        ``torch.ops.tilevl.<op>.default``. Registering the same version again returns the op that is there.

    Raises:
        RuntimeError: the name is taken by another version or by a stranger, or the installed op asks for another core.
    """
    name = schema.partition("(")[0]
    if not requirements.claim(name, package, version):
        return _overload(name)
    try:
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    except RuntimeError as error:
        requirements.release(name)
        raise RuntimeError(f"{name}: {NAMESPACE}::{name} can't be defined, is it taken? {error}") from error
    op = _overload(name)
    arguments = op._schema.arguments
    count, defaults = len(arguments), schemas.defaults(op._schema)
    tensors, written = schemas.tensors(op._schema), schemas.written(op._schema)
    caches: dict[str, KernelCache] = {}
    recurring = RecurringCalls(tensors, written, count)

    def filled(args: Args) -> Args:  # the dispatcher drops trailing arguments that equal their default
        return args if len(args) == count else args + defaults[len(args) :]

    def fake(*args: Any) -> torch.Tensor | None:
        args = filled(args)
        output = check(*args)
        return None if output is None else torch.empty(output[0], dtype=output[1], device=args[0].device)

    def kernels_of(target: str) -> KernelCache:
        require_kernel(name, package, target)
        build: Callable[..., Kernel] = import_module(targets.kernel_module(package, target)).build
        return caches.setdefault(target, KernelCache(build))

    def launch(target: str, output: tuple[Any, torch.dtype] | None, args: Args) -> torch.Tensor | None:
        if output is None:
            for i in tensors:
                if not args[i].numel():
                    return None
            result, call = None, args
        else:
            result = torch.empty(output[0], dtype=output[1], device=args[0].device)
            if not result.numel():
                return result
            call = (*args, result)
        kernels = caches.get(target)
        if kernels is None:
            kernels = kernels_of(target)
        kernels.get(specialise(*args))(*call)
        return result

    def run_cpu(*args: Any) -> torch.Tensor | None:
        args = filled(args)
        output = check(*args)
        check_data(*args)
        return launch("cpu", output, args)

    def run_device(target: str, args: Args) -> torch.Tensor | None:
        args = filled(args)
        output = check(*args)
        require_target(name, target)
        if data_checks.enabled_on_devices(name):
            check_data(*args)
        return launch(target, output, args)

    def run_cuda(args: Args) -> torch.Tensor | None:
        args = filled(args)
        found = recurring.find(args, dispatched=True)
        if found is not None and not data_checks.enabled_on_devices(name):
            kind, addresses = found
            return kind.run(args, addresses)
        result = run_device("cuda", args)
        if all(args[i].numel() for i in tensors) if result is None else result.numel():
            recurring.remember(args, result, caches["cuda"].get(specialise(*args)))
        return result

    def bump_versions(args: Args) -> None:
        for i in written:
            if not args[i].is_inference():
                torch._C._increment_version((args[i],))

    def forward(keyset: torch._C.DispatchKeySet, args: Args) -> Any:
        left = keyset.raw_repr()
        if left in _plain_cuda:
            result = run_cuda(args)
        elif left in _plain_cpu:
            result = run_cpu(*args)
        else:
            result = op.redispatch(keyset & _below, *args)
        bump_versions(args)  # afterwards: a call that was refused has written nothing
        return result

    def guard(keyset: torch._C.DispatchKeySet, *args: Any) -> Any:
        for i in tensors:
            if args[i] is None:  # the dispatcher takes it for a tensor without a device
                raise TypeError(f"{name}: {arguments[i].name} must be a tensor, got None")
        if torch.is_grad_enabled():
            for i in tensors:
                if args[i].requires_grad:
                    raise RuntimeError(
                        f"{name}: has no gradient, and {arguments[i].name} requires grad; call it under torch.no_grad()"
                    )
        if forward_ad._current_level >= 0:
            for i in tensors:
                if forward_ad.unpack_dual(args[i]).tangent is not None:
                    raise RuntimeError(
                        f"{name}: has no gradient, and {arguments[i].name} carries a tangent of forward-mode AD; "
                        "pass its primal alone"
                    )
        return forward(keyset, args)

    def bump(keyset: torch._C.DispatchKeySet, *args: Any) -> Any:
        return forward(keyset, args)

    def call(*args: Any) -> Any:
        if not torch.compiler.is_compiling() and len(args) == count and unobserved():
            found = recurring.find(args, dispatched=False)
            if found is not None and not data_checks.enabled_on_devices(name):
                kind, addresses = found
                result = kind.run(args, addresses)
                bump_versions(args)
                return result
        return op(*args)

    _direct[op] = call
    _library.impl(name, run_cpu, "CPU")
    _library.impl(name, lambda *args: run_cuda(args), "CUDA")
    _library.impl(name, lambda *args: run_device(targets.npu_target(name), args), "PrivateUse1")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
    _library.impl(name, guard, "Autograd", with_keyset=True)
    if written:
        _library.impl(name, bump, "ADInplaceOrView", with_keyset=True)
    return op
