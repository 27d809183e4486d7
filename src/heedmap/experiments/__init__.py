"""Measured lessons: what a formula of the textbook predicts, beside what this machine and this model do."""
