"""How a grid is cut into the tiles of the Hopper program, so that they fit into registers and shared memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

TMA_UNIT = 8
"""Elements: TMA takes addresses and strides that are multiples of as many, and begins at one."""

_MOST_COLUMNS, _MOST_KEYS = 128, 160  # of a tile of keys; three stages of 144 keys are faster at 48x48 than two of 192
_MOST_REGISTERS = 208  # of a thread for scores, weights, results and the columns' bias; the rest needs some 30
_MOST_SHARED = 227 * 1024  # bytes that a block may have
_REST = 2048  # bytes set aside for barriers and verdicts
_CHUNK = 240  # most columns of rel_h that are used of a part; TMA brings 256 at once
_SIZE = 2  # bytes of an element


@dataclass(frozen=True)
class Plan:
    """A cut.

    Attributes:
        head_dim: D.
        grid_h: rows of the grid.
        grid_w: columns of the grid.
        warpgroups: of a block, each with 64 queries; the one that loads not counted.
        rows: of the grid, in a tile of keys.
        columns: of the grid, in a tile of keys; a multiple of 8.
        stages: tiles of keys, and as many of values, in shared memory.
        slots: sets of queries and tables in shared memory, for this turn of a block and its next ones.
        overlapped: a tile's scores are multiplied while the values of the one before are, and two warpgroups do so by
            turns, so that one's softmax hides the other's products.
    """

    head_dim: int
    grid_h: int
    grid_w: int
    warpgroups: int
    rows: int
    columns: int
    stages: int
    slots: int
    overlapped: bool = False

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """First column and width of the parts of the head dim that one swizzle of shared memory spans."""
        cut, first = [], 0
        for width in (64, 64, 32, 16):
            if self.head_dim - first >= width:
                cut.append((first, width))
                first += width
        return cut

    @property
    def tokens(self) -> int:
        """S."""
        return self.grid_h * self.grid_w

    @property
    def queries(self) -> int:
        """Of a block's turn."""
        return 64 * self.warpgroups

    @property
    def blocks(self) -> int:
        """Turns that all queries of a head take."""
        return -(-self.tokens // self.queries)

    @property
    def keys(self) -> int:
        """Of a tile."""
        return self.rows * self.columns

    @property
    def down(self) -> int:
        """Tiles from the grid's first row to its last."""
        return -(-self.grid_h // self.rows)

    @property
    def parts(self) -> int:
        """Tiles side by side."""
        return -(-self.grid_w // self.columns)

    @property
    def tiles(self) -> int:
        """All tiles of a head."""
        return self.down * self.parts

    @property
    def h_chunks(self) -> int:
        """Parts of rel_h in shared memory, side by side in the table."""
        return -(-self.down * self.rows // _CHUNK)

    @property
    def h_columns(self) -> int:
        """Columns of such a part that are used, a multiple of 8."""
        return _to_multiple(-(-self.down * self.rows // self.h_chunks), TMA_UNIT)

    @property
    def h_width(self) -> int:
        """Columns of such a part."""
        return _without_conflicts(self.h_columns + TMA_UNIT - 1)

    @property
    def w_width(self) -> int:
        """Columns of a part of rel_w in shared memory, of which ``columns`` are used; there are ``parts``."""
        return _without_conflicts(self.columns + TMA_UNIT - 1)

    @property
    def shared_bytes(self) -> int:
        """Of shared memory."""
        of_slot = self.queries * (self.head_dim + self.h_chunks * self.h_width + self.parts * self.w_width)
        return (self.slots * of_slot + 2 * self.stages * self.keys * self.head_dim) * _SIZE + _REST


def plan_of(head_dim: int, grid_h: int, grid_w: int) -> Plan | None:
    """The plan of a head dim and a grid, None where its tables are too large for shared memory."""
    parts = -(-grid_w // _MOST_COLUMNS)
    columns = _to_multiple(-(-grid_w // parts), 8)
    most_keys = min((_MOST_REGISTERS - (columns + head_dim) // 2) * 4 // 3, _MOST_KEYS)
    rows = max(min(most_keys // columns, grid_h), 1)
    rows = -(-grid_h // -(-grid_h // rows))  # tiles of one size, as far as it goes
    if rows * columns % 16:
        rows, columns = (rows - 1, columns) if rows > 1 else (1, columns + 8)
    if columns == 40 and head_dim <= 64:  # three warpgroups of 160 registers hold tiles of 80 keys
        plan = Plan(head_dim, grid_h, grid_w, 3, 2, columns, 3, 1)
    else:
        plan = Plan(head_dim, grid_h, grid_w, 2, rows, columns, 4, 2, overlapped=True)
    for stages, slots in ((4, 2), (3, 2), (2, 2), (2, 1)):
        fitting = replace(plan, stages=min(stages, plan.stages), slots=min(slots, plan.slots))
        if fitting.shared_bytes <= _MOST_SHARED:
            return fitting
    return None


def _to_multiple(number: int, step: int) -> int:
    return -(-number // step) * step


def _without_conflicts(width: int) -> int:
    """A multiple of 8 elements, whole units of TMA, so that eight rows of that width start in eight groups of banks."""
    return _to_multiple(width + 8, 16) - 8
