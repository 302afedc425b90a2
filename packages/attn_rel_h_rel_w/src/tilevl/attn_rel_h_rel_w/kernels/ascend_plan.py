"""How a grid is cut for Ascend: queries into tiles, keys into blocks, and where a block's bias lies in the tables."""

from __future__ import annotations

from dataclasses import dataclass

from tilevl.core.ascend import BLOCK_BYTES, UB_BYTES

KEYS = 128  # of a block, at most
MOST_QUERIES = 128  # of a tile; half of them for each vector core
LANES = 64  # float32 of a register
SIZE = 2  # bytes of an element
GROUPS = 8  # datablocks of a register
GROUP_KEYS = KEYS // GROUPS  # even and odd keys in a datablock of two registers
_ROW = BLOCK_BYTES // SIZE
_SPARE = 3072  # bytes of the small buffers
_LONG = 2048  # tokens from which on two tiles share keys and values


def up(number: int, step: int) -> int:
    """The next multiple of ``step``."""
    return -(-number // step) * step


@dataclass(frozen=True)
class Plan:
    """The cut for one grid.

    Attributes:
        dtype: TileLang's name of the element type, ``bfloat16`` or ``float16``.
        head_dim: D.
        grid_h, grid_w: rows and columns of the grid.
        folded: whether the query is multiplied by a power of two before the first product, so that scores come scaled.
        flows: whether blocks of keys run on over the ends of grid rows; else a block is whole rows, or a piece of one.
        resident: whether the tables of a tile stay in the unified buffer; else the piece of a block comes with it.
        twins: tiles of a task, 1 or 2; two take turns with the same keys and values, which come once for both.
    """

    dtype: str
    head_dim: int
    grid_h: int
    grid_w: int
    folded: bool
    flows: bool
    resident: bool
    twins: int

    @property
    def tokens(self) -> int:
        """Queries of a head, and keys."""
        return self.grid_h * self.grid_w

    @property
    def tiles(self) -> int:
        """Tiles of a head: as few as can be, or what makes tasks a multiple of 3: 12 heads fill rounds of 36 groups."""
        least = -(-self.tokens // MOST_QUERIES)
        return least if least == 1 else up(least, 3 * self.twins)

    @property
    def share(self) -> int:
        """Queries of a vector core in a tile; the last tile of a head may have less."""
        return -(-self.tokens // (2 * self.tiles))

    @property
    def half(self) -> int:
        """Rows that a vector core has room for, a multiple of 8."""
        return up(self.share, 8)

    @property
    def queries(self) -> int:
        """Rows of both products, a multiple of 16: those of one vector core, then those of the other."""
        return 2 * self.half

    @property
    def slots(self) -> int:
        """Results on their way: of the tiles of two tasks."""
        return 2 * self.twins

    @property
    def places(self) -> int:
        """Blocks of keys in L0B at a time, and of values."""
        return 2 if self.head_dim <= 64 else 1

    @property
    def pieces(self) -> int:
        """Blocks of a grid row; 1 where a block holds whole rows."""
        return -(-self.grid_w // KEYS)

    @property
    def rows(self) -> int:
        """Grid rows of a block that doesn't flow."""
        return min(max(1, KEYS // self.grid_w), self.grid_h)

    @property
    def keys(self) -> int:
        """Keys of a block; the last one has what is left, and so has the last piece of a row."""
        return self.rows * self.grid_w if self.pieces == 1 and not self.flows else KEYS

    @property
    def blocks(self) -> int:
        """Blocks of a head."""
        return self.grid_h * self.pieces if self.pieces > 1 else -(-self.tokens // self.keys)

    @property
    def short(self) -> bool:
        """Whether some block has less than ``KEYS``."""
        return self.blocks * KEYS > self.tokens

    @property
    def pairs(self) -> bool:
        """Whether the keys 2 i and 2 i + 1 of a block always share a grid row."""
        return self.pieces > 1 or self.grid_w % 2 == 0

    @property
    def grouped(self) -> bool:
        """Whether keys 16 i to 16 i + 15 of a block always share a grid row, so that one load spreads their bias."""
        return self.flows and self.grid_w % GROUP_KEYS == 0

    @property
    def width(self) -> int:
        """Columns of the table of column biases in float32: enough for a block that starts anywhere in a grid row."""
        if not self.flows:
            return KEYS
        return up(KEYS + max(block * KEYS % self.grid_w for block in range(self.grid_w)), LANES)

    @property
    def staged_h(self) -> int:
        """Elements from row to row of ``rel_h`` as it comes into the unified buffer."""
        return up(self.grid_h if self.resident else self.rows, _ROW)

    @property
    def staged_w(self) -> int:
        """The same for ``rel_w``."""
        return up(min(self.grid_w, KEYS), _ROW)

    @property
    def chunk(self) -> int:
        """Blocks of which the table of row biases in float32 has room, where blocks are grouped."""
        return LANES // GROUPS if self.twins == 2 else up(self.blocks * GROUPS, LANES) // GROUPS

    @property
    def ub_bytes(self) -> int:
        """What all this takes of the unified buffer."""
        tables = self.width * 4 + (self.staged_h + self.staged_w) * SIZE
        if self.grouped:
            tables += self.chunk * GROUPS * 4
        scores_and_weights = 2 * KEYS * (4 + SIZE)
        result = self.head_dim * 4
        return self.half * (self.twins * tables + scores_and_weights + result) + 2 * KEYS * SIZE + _SPARE


def plan_of(dtype: str, head_dim: int, grid_h: int, grid_w: int, folded: bool) -> Plan:
    """The first cut that fits, of those that take the least time where they do."""
    kinds = [(False, False, 1)]
    if grid_w <= KEYS:
        kinds.insert(0, (False, True, 1))
        if grid_w % GROUPS == 0:
            kinds.insert(0, (True, True, 1))
        if grid_w % GROUP_KEYS == 0 and head_dim <= LANES and grid_h * grid_w >= _LONG:
            kinds.insert(0, (True, True, 2))
    for flows, resident, twins in kinds:
        plan = Plan(dtype, head_dim, grid_h, grid_w, folded, flows, resident, twins)
        if plan.ub_bytes <= UB_BYTES:
            return plan
    return plan
