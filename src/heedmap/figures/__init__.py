"""Pictures of a run, drawn with matplotlib and without torch."""
