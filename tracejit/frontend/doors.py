"""The names that lifted code calls; `control_flow` says what stands behind them."""

from __future__ import annotations

from typing import Any

__all__ = ["DOORS"]

DOORS: dict[str, Any] = {}
