"""Placeholder face until module 14 is exported."""
