"""Copies between layouts."""
