"""Tests of the importer."""
