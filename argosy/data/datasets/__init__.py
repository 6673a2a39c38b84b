"""Data sets: transitions in files of several kinds, read part by part, and written as they come.

`open_source` finds out what a file is; its `Source` is loaded into a buffer, or written anew by `convert`.
"""

from argosy.data.datasets.kinds import convert, open_source
from argosy.data.datasets.source import Source
from argosy.data.datasets.writer import DatasetWriter, read_attributes

__all__ = ["DatasetWriter", "Source", "convert", "open_source", "read_attributes"]
