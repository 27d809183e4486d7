"""How the sweep runs. Each kernel file exports `NAME`, `unsupported(...)` and `sweep(...)`; none imports another."""
