"""Where results over many texts live: shards that merge, tables of a whole set, questions and comparisons; no torch."""
