"""All mutants, those of the layers above the stores first."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.of_layers import OF_LAYERS
from tests.mutants.of_stores import OF_STORES

MUTANTS: tuple[Mutant, ...] = (*OF_LAYERS, *OF_STORES)
