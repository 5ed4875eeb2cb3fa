"""The work of a compiled program on each device, read from the text of its HLO.

XLA's own cost analysis counts a loop's body once, however often it runs, and does not tell over
which mesh axis a collective runs. Here a loop body counts as often as it runs:

- operations: FLOPs of matrix products and convolutions, two for each multiply-add;
- bytes moved: the bytes that instructions read from and write to the device's main memory. A fusion
  reads only the slices that it uses of an array, and an update in place (a slice or a scatter, such
  as new tokens in a cache) moves only the new values. Arrays that the compiler has placed in a
  faster memory (`S(1)` and above in a TPU's layouts) and padding to the hardware's tiles are not
  counted;
- collectives: the bytes that a device sends, for the algorithm that moves the fewest (a ring).
  With several slices of TPUs, each slice runs its own program and sends to the others via the host.
"""

import collections
import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.models.partitioning import SLICE_AXIS

_NAME = r"%?([\w.\-]+)"
_COMPUTATION = re.compile(rf"^(ENTRY )?{_NAME} \(.*\) -> .*\{{$")
_INSTRUCTION = re.compile(rf"^\s+(ROOT )?{_NAME} = (.*)$")
_OPCODE = re.compile(r"([\w\-]+)\(")
_SHAPE = re.compile(r"(\w+)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_SPACE = re.compile(r"S\((\d+)\)")
_CALLED = re.compile(r"(?:calls|to_apply|body)=%?([\w.\-]+)|branch_computations=\{([^}]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_BETWEEN_SLICES = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_MESH = re.compile(r"mesh\[([^\]]*)\]\s*\{([^}]*)\}")
# Match a matrix product by cuBLAS, whose second result is scratch space, and the summed dimensions.
_CUBLAS = 'custom_call_target="__cublas$'
_CONTRACTED = re.compile(
    r'lhs_contracting_dims=\{([\d,]*)\}|"lhs_contracting_dimensions":\[([\d,"]*)\]'
)
_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128}
# Opcodes that do no work: they name parts of memory, or end an operation that started earlier.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
    *("partition-id", "replica-id", "opt-barrier", "iota", "domain"),
}
# Opcodes that update an array in place, and the operand with the new values.
_UPDATE_OPERANDS = {"dynamic-update-slice": 1, "scatter": 2}
_COLLECTIVES = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast",
)  # fmt: skip


class Shape(NamedTuple):
    """An array: its type, dimensions, and memory space (0 = main memory)."""

    dtype: str
    dims: tuple[int, ...]
    space: int

    @property
    def bytes(self) -> float:
        """Its size, without padding."""
        digits = re.search(r"\d+", self.dtype)
        bits = _BITS.get(self.dtype, int(digits[0]) if digits else 0)
        return math.prod(self.dims) * bits / 8

    @property
    def main_bytes(self) -> float:
        """Its size in the main memory."""
        return 0.0 if self.space else self.bytes


class _Instruction(NamedTuple):
    """An instruction of a computation."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]  # of the result; several for a tuple
    operands: tuple[str, ...]
    inside: str  # the text between the opcode's parentheses
    attributes: str  # the text after the closing parenthesis
    is_root: bool


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Collectives of one kind over the same axes: their number, bytes of arrays, and bytes sent."""

    count: float = 0.0
    bytes: float = 0.0
    sent: float = 0.0

    def __add__(self, more: "Traffic") -> "Traffic":
        return Traffic(self.count + more.count, self.bytes + more.bytes, self.sent + more.sent)

    def __mul__(self, times: float) -> "Traffic":
        return Traffic(self.count * times, self.bytes * times, self.sent * times)


# Keyed by kind and by the axes along which a group's devices differ: ("all-reduce", ("model",)).
Collectives = Mapping[tuple[str, tuple[str, ...]], Traffic]


@dataclasses.dataclass(frozen=True)
class Work:
    """Floating-point operations of matrix products, bytes of main memory, and collectives."""

    operations: float = 0.0
    bytes: float = 0.0
    collectives: Collectives = dataclasses.field(default_factory=dict)

    def __add__(self, more: "Work") -> "Work":
        collectives = collections.defaultdict(Traffic, self.collectives)
        for key, traffic in more.collectives.items():
            collectives[key] += traffic
        return Work(self.operations + more.operations, self.bytes + more.bytes, dict(collectives))

    def __mul__(self, times: float) -> "Work":
        scaled = {key: traffic * times for key, traffic in self.collectives.items()}
        return Work(self.operations * times, self.bytes * times, scaled)


class ProgramWork(NamedTuple):
    """The work of a program on a device.

    Attributes:
      once: work outside of loops whose number of turns is decided at run time, such as a decoding
        loop that ends when all rows have ended.
      turn: work in one turn of such a loop; of several loops in a row, such as the loops for a
        growing cache, the one with the most work counts.
    """

    once: Work
    turn: Work

    def __add__(self, more: "ProgramWork") -> "ProgramWork":  # type: ignore[override]
        return ProgramWork(self.once + more.once, self.turn + more.turn)

    def __mul__(self, times: float) -> "ProgramWork":  # type: ignore[override]
        return ProgramWork(self.once * times, self.turn * times)


_NOTHING = ProgramWork(Work(), Work())


def program_work(text: str, mesh: Mapping[str, int]) -> ProgramWork:
    """Returns the work of a program on each device, from the text of JAX's `compiled.as_text()`.

    `mesh` maps axis names to sizes, the outermost (slowest-varying) axis first.
    """
    return _Program(text, mesh).work()


class _Program:
    """A parsed module."""

    def __init__(self, text: str, mesh: Mapping[str, int]):
        self._mesh = dict(mesh)
        self._computations: dict[str, dict[str, _Instruction]] = {}
        self._entry = ""
        partitions = re.search(r"num_partitions=(\d+)", text.partition("\n")[0])
        self._devices = int(partitions[1]) if partitions else math.prod(self._mesh.values())
        current: dict[str, _Instruction] = {}
        for line in text.splitlines():
            if match := _COMPUTATION.match(line):
                current = self._computations.setdefault(match[2], {})
                self._entry = match[2] if match[1] else self._entry
            elif match := _INSTRUCTION.match(line):
                name, text, is_root = match[2], match[3], bool(match[1])
                # Its type is one word, or a tuple in parentheses; opcode and operands follow.
                end = text.index(" ")
                if text.startswith("("):
                    end = _find_closing_bracket(text, 0) + 1
                kind, rest = text[:end], text[end:].lstrip()
                current[name] = _Instruction(name, "", (), (), "", "", is_root)
                if opcode := _OPCODE.match(rest):
                    start = opcode.end() - 1
                    stop = _find_closing_bracket(rest, start)
                    inside = rest[start + 1 : stop]
                    operands = tuple(re.findall(r"%([\w.\-]+)", inside))
                    current[name] = _Instruction(
                        name, opcode[1], _parse_shapes(kind), operands, inside.strip(),
                        rest[stop + 1 :], is_root,
                    )  # fmt: skip
        self._work_by_name: dict[str, ProgramWork] = {}

    def work(self) -> ProgramWork:
        """Returns the work of the whole module."""
        entry = self._computations[self._entry]
        parts = [self._instruction_work(op, entry) for op in entry.values()]
        once = sum((part.once for part in parts), start=Work())
        turns = [part.turn for part in parts]
        return ProgramWork(once, max(turns, key=lambda w: (w.operations, w.bytes), default=Work()))

    def _computation_work(self, name: str) -> ProgramWork:
        """Returns the work of a computation; results are cached by name."""
        if name not in self._work_by_name:
            total = _NOTHING
            computation = self._computations[name]
            for instruction in computation.values():
                total += self._instruction_work(instruction, computation)
            self._work_by_name[name] = total
        return self._work_by_name[name]

    def _instruction_work(
        self, op: _Instruction, computation: Mapping[str, _Instruction]
    ) -> ProgramWork:
        if op.opcode in _FREE or op.opcode.endswith("-done"):
            return _NOTHING
        if op.opcode == "while":
            (body,) = self._called_computations(op)
            turns = self._count_loop_turns(op, computation)
            one_turn = self._computation_work(body)
            if turns is None:
                return ProgramWork(Work(), one_turn.once + one_turn.turn)
            return one_turn * turns
        called = self._called_computations(op)
        if op.opcode in ("call", "conditional", "async-start"):
            # Of several branches, the one with the most operations and bytes.
            work = [self._computation_work(name) for name in called]
            return max(work, key=lambda w: (w.once.operations, w.once.bytes), default=_NOTHING)
        if op.opcode == "fusion":
            # A fusion reads and writes its arrays once; of sliced arrays, only the slices.
            inner, moved = self._computations[called[0]], 0.0
            for place, parameter in self._find_parameters(called[0]).items():
                operand = computation[op.operands[place]]
                moved += self._read_bytes(parameter, operand.shapes, called[0])
            for root in (part for part in inner.values() if part.is_root):
                parts = [root]
                if root.opcode == "tuple":
                    parts = [inner[operand] for operand in root.operands]
                for part, shape in itertools.zip_longest(parts, op.shapes):
                    if part is None or shape is None or shape.space:
                        continue
                    source = part
                    while source.opcode in ("bitcast", "copy") and source.operands:
                        source = inner[source.operands[0]]
                    # An update in place writes only the new values.
                    values = _UPDATE_OPERANDS.get(source.opcode)
                    written = inner[source.operands[values]].shapes if values else [shape]
                    moved += sum(each.bytes for each in written)
            arithmetic = sum((self._sum_arithmetic(name) for name in called), start=Work())
            return ProgramWork(Work(bytes=moved) + arithmetic, Work())
        return ProgramWork(
            Work(bytes=_moved_bytes(op, computation)) + self._own_arithmetic(op, computation),
            Work(),
        )

    def _sum_arithmetic(self, name: str) -> Work:
        """Returns the products and collectives of a fused computation, but none of its bytes."""
        total, computation = Work(), self._computations[name]
        for op in computation.values():
            total += self._own_arithmetic(op, computation)
            if op.opcode in ("fusion", "call", "async-start"):
                total += sum(
                    (self._sum_arithmetic(inner) for inner in self._called_computations(op)), Work()
                )
        if "all-reduce-scatter" in name:  # the name of a fused reduce-scatter on TPUs
            moved = {
                ("reduce-scatter", axes): Traffic(traffic.count, traffic.bytes, traffic.sent / 2)
                for (_, axes), traffic in total.collectives.items()
            }
            total = dataclasses.replace(total, collectives=moved)
        return total

    def _own_arithmetic(self, op: _Instruction, computation: Mapping[str, _Instruction]) -> Work:
        kind = op.opcode.removesuffix("-start")
        if kind in _COLLECTIVES:
            inputs = [computation[name] for name in op.operands if name in computation]
            size = sum(shape.bytes for source in inputs for shape in source.shapes)
            group = self._parse_device_group(op.attributes)
            return Work(collectives=_estimate_traffic(kind, *group, size))
        if op.opcode == "send" and (match := _BETWEEN_SLICES.search(op.attributes)):
            kind = match[1].lower().replace("_", "-")
            axes, slices = (SLICE_AXIS,), self._mesh[SLICE_AXIS]
            return Work(collectives=_estimate_traffic(kind, axes, slices, op.shapes[0].bytes))
        shapes = [computation[name].shapes[0] for name in op.operands if name in computation]
        if kind == "convolution":
            return Work(operations=_convolution_operations(op, shapes))
        if kind == "dot" or _is_cublas(op):
            contracted = _CONTRACTED.search(op.attributes)
            listed = (contracted[1] or contracted[2]).replace('"', "") if contracted else ""
            summed = math.prod(shapes[0].dims[place] for place in _parse_numbers(listed))
            return Work(operations=2.0 * math.prod(op.shapes[0].dims) * summed)
        return Work()

    def _called_computations(self, op: _Instruction) -> list[str]:
        names = []
        for single, several in _CALLED.findall(op.attributes):
            names += [single] if single else [n.strip().lstrip("%") for n in several.split(",")]
        return [name for name in names if name in self._computations]

    def _count_loop_turns(
        self, loop: _Instruction, computation: Mapping[str, _Instruction]
    ) -> int | None:
        """Returns how often a loop runs; None if that depends on more than a counter."""
        if count := re.search(r'known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(count[1])
        name = re.search(rf"condition={_NAME}", loop.attributes)
        condition = self._computations[name[1]] if name else {}
        root = next((op for op in condition.values() if op.is_root), None)
        if root is None or root.opcode != "compare" or "direction=LT" not in root.attributes:
            return None
        counter, limit = (condition[operand] for operand in root.operands)
        if counter.opcode != "get-tuple-element" or limit.opcode != "constant":
            return None
        place = int(re.findall(r"index=(\d+)", counter.attributes)[0])
        state = computation[loop.operands[0]]
        start = self._read_constant(computation[state.operands[place]], computation) or 0
        (body_name,) = self._called_computations(loop)
        body = self._computations[body_name]
        # The constant that the body adds to its counter; 1 if it cannot be read.
        result = next(op for op in body.values() if op.is_root)
        added = body.get(result.operands[place]) if result.opcode == "tuple" else None
        operands = added.operands if added is not None and added.opcode == "add" else ()
        summands = [self._read_constant(body[operand], body) for operand in operands]
        step = next((number for number in summands if number is not None), 1)
        return -(-(int(limit.inside) - start) // step)

    def _read_constant(
        self, op: _Instruction, computation: Mapping[str, _Instruction]
    ) -> int | None:
        """Returns the value of a constant integer; None if the instruction is not a constant."""
        while op.opcode in ("copy", "bitcast"):
            op = computation[op.operands[0]]
        return int(op.inside) if op.opcode == "constant" else None

    def _read_bytes(
        self,
        parameter: _Instruction,
        shapes: Sequence[Shape],
        name: str,
    ) -> float:
        """Returns the bytes that the computation `name` reads from a parameter of these shapes."""
        total_bytes = sum(shape.main_bytes for shape in shapes)
        if not total_bytes:
            return 0.0
        read = 0.0
        for user in self._computations[name].values():
            if parameter.name not in user.operands:
                continue
            if user.opcode in ("dynamic-slice", "slice", "gather"):
                read += user.shapes[0].bytes
            elif user.opcode in _UPDATE_OPERANDS and user.operands[0] == parameter.name:
                continue  # updated in place: the rest of the array is not read
            elif user.opcode == "fusion" and (called := self._called_computations(user)):
                place = user.operands.index(parameter.name)
                inner = self._find_parameters(called[0]).get(place)
                read += total_bytes if inner is None else self._read_bytes(inner, shapes, called[0])
            else:
                return total_bytes
        return min(read, total_bytes)

    def _find_parameters(self, name: str) -> dict[int, _Instruction]:
        instructions = self._computations[name].values()
        return {int(op.inside): op for op in instructions if op.opcode == "parameter"}

    def _parse_device_group(self, attributes: str) -> tuple[tuple[str, ...], int]:
        """Returns the axes along which a collective's devices differ, and the size of a group."""
        pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", attributes)
        if pairs:
            numbers = [int(n) for n in re.findall(r"\d+", pairs[1])]
            moved = zip(numbers[::2], numbers[1::2], strict=True)
            differing = {axis for pair in moved for axis in self._find_differing_axes(pair)}
            return tuple(axis for axis in self._mesh if axis in differing), 2
        text = attributes.partition("replica_groups=")[2]
        # All groups have the same form, so the first one is enough.
        if match := _MESH.match(text):  # mesh['a'=4,'b'=16] {'b'}; 'b':(2)4 is part of an axis
            axes, differing_axes = match.groups()
            sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", axes)}
            index = [np.zeros(1, int)] * len(sizes)
            for name, _, before, size in re.findall(r"'([^']+)'(:\((\d+)\)(\d+))?", differing_axes):
                places = np.arange(sizes[name])
                if size:
                    places = np.arange(int(size)) * (sizes[name] // (int(before) * int(size)))
                index[list(sizes).index(name)] = places
            devices = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
            group = devices[np.ix_(*index)].reshape(-1).tolist()
        elif match := _IOTA.match(text):
            groups, dims = _parse_numbers(match[1]), _parse_numbers(match[2])
            order = np.arange(math.prod(dims)).reshape(dims)
            if match[3]:
                order = order.transpose(_parse_numbers(match[3]))
            group = order.reshape(groups)[0].tolist()
        elif match := re.match(r"\{\{([\d,\s]*)\}", text):
            group = _parse_numbers(match[1])
        else:
            group = list(range(self._devices))
        return self._find_differing_axes(group), len(group)

    def _find_differing_axes(self, devices: Sequence[int]) -> tuple[str, ...]:
        places = np.array(np.unravel_index(devices, tuple(self._mesh.values())))
        differs = (places != places[:, :1]).any(axis=1)
        return tuple(axis for axis, yes in zip(self._mesh, differs, strict=True) if yes)


def _estimate_traffic(kind: str, axes: tuple[str, ...], count: int, size: float) -> Collectives:
    """Returns the traffic of a device that holds `size` bytes, in a group of `count` devices."""
    if count < 2 or not size:
        return {}
    share = (count - 1) / count
    sent = {"all-reduce": 2 * share, "all-gather": count - 1, "collective-permute": 1.0}
    result = size * count if kind == "all-gather" else size
    return {(kind, axes): Traffic(1.0, result, size * sent.get(kind, share))}


def _parse_numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _find_closing_bracket(text: str, start: int) -> int:
    """Returns the index of the parenthesis that closes the one at `start`."""
    depth = 0
    for match in re.finditer(r"[()]", text[start:]):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return start + match.start()
    return len(text)


@functools.lru_cache(maxsize=1 << 16)
def _parse_shapes(text: str) -> tuple[Shape, ...]:
    shapes = []
    for dtype, dims, layout in _SHAPE.findall(text):
        space = _SPACE.search(layout)
        shapes.append(Shape(dtype, tuple(_parse_numbers(dims)), int(space[1]) if space else 0))
    return tuple(shapes)


def _moved_bytes(op: _Instruction, computation: Mapping[str, _Instruction]) -> float:
    """Returns the bytes that an instruction outside of fusions reads and writes."""
    operands = [computation[name].shapes for name in op.operands if name in computation]
    if op.opcode in ("copy-start", "slice-start", "async-start"):
        result = op.shapes[1 if op.opcode == "slice-start" else 0]
        source = sum(s.main_bytes for shapes in operands for s in shapes)
        return min(source, result.bytes) + result.main_bytes
    written = sum(shape.main_bytes for shape in op.shapes[: 1 if _is_cublas(op) else None])
    if op.opcode.endswith("-start"):  # the shapes list the operand next to the result
        written -= sum(s.main_bytes for shapes in operands for s in shapes)
        written = max(0.0, written)
    if op.opcode in ("dynamic-slice", "slice", "gather"):
        return min(written, sum(s.main_bytes for s in operands[0])) + written
    if place := _UPDATE_OPERANDS.get(op.opcode):
        return 2 * sum(s.bytes for s in operands[place]) if not op.shapes[0].space else 0.0
    if op.opcode == "custom-call" and not operands:
        return 0.0
    if op.opcode == "send":  # the shape of its result repeats the operand
        return sum(s.main_bytes for s in operands[0])
    return written + sum(s.main_bytes for shapes in operands for s in shapes)


def _is_cublas(op: _Instruction) -> bool:
    return op.opcode == "custom-call" and _CUBLAS in op.attributes


def _convolution_operations(op: _Instruction, shapes: Sequence[Shape]) -> float:
    """Returns the operations of a convolution; on TPUs, all matrix products have this form.

    A batch dimension of a product becomes a dilated window in which all positions but one are
    padding, which costs nothing.
    """
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", op.attributes)
    if labels is None:
        return 0.0
    left, right, out = labels[1], labels[2], labels[3]
    sizes = dict(zip(left, shapes[0].dims, strict=True))
    kernel = dict(zip(right, shapes[1].dims, strict=True))
    result = dict(zip(out, op.shapes[0].dims, strict=True))
    batches = re.search(r"batch_group_count=(\d+)", op.attributes)
    match = re.search(r"window=\{([^}]*)\}", op.attributes)
    settings = (part.partition("=") for part in (match[1].split() if match else []))
    window = {name: value.split("x") for name, _, value in settings}
    pairs = 1.0
    for place, label in enumerate(sorted(label for label in out if label.isdigit())):
        pairs *= _valid_positions(
            sizes[label], kernel[label], result[label],
            *(window[name][place] if name in window else None for name in
              ("stride", "pad", "lhs_dilate", "rhs_dilate")),
        )  # fmt: skip
    features = result["f"] * kernel["i"]  # within one feature group
    return 2.0 * pairs * features * result["b"] / (int(batches[1]) if batches else 1)


@functools.lru_cache(maxsize=4096)
def _valid_positions(
    size: int, kernel: int, result: int, stride: str | None, pad: str | None,
    lhs_dilate: str | None, rhs_dilate: str | None,
) -> int:  # fmt: skip
    """Returns how many pairs of a kernel and a result position fall on an element of the input."""
    low = int(pad.partition("_")[0]) if pad else 0
    step, base = int(stride or 1), int(lhs_dilate or 1)
    places = (
        np.arange(result)[:, None] * step + np.arange(kernel)[None] * int(rhs_dilate or 1) - low
    )
    inside = (places >= 0) & (places % base == 0) & (places // base < size)
    return int(inside.sum())
