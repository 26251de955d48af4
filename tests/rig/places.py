"""Where things are in this checkout; no other test counts the folders above it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
