"""TileVL's ops inside Hugging Face models: swaps the modules that they can take the place of, and undoes it."""

from tilevl.integrations.transformers._version import __version__
from tilevl.integrations.transformers.acceleration import Acceleration, Skipped, Swapped, accelerate, restore

__all__ = ["Acceleration", "Skipped", "Swapped", "__version__", "accelerate", "restore"]
