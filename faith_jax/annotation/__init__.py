"""Errors in responses, marked by people: sheets, their marks as labels, and agreement."""
