"""The project itself: house rules, docs, locks, tools."""
