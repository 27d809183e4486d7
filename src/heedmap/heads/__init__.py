"""What the results mean: from runs to scores of heads, in NumPy and without torch."""
