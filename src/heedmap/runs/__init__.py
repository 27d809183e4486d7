"""Where results live: run folders, written whole or not at all, and read without torch."""
