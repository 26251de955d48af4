"""Texts on a terminal: what in them would act on it, and how many columns they take."""
