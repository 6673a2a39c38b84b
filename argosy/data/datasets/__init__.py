"""Data sets: transitions in files of several kinds, read part by part, and written as they come.

`open_source` finds out what a file is; its `Source` is loaded into a buffer, or written anew by `convert`.
"""

from argosy.data.datasets.kinds import convert as convert, open_source as open_source
from argosy.data.datasets.source import Source as Source
from argosy.data.datasets.writer import DatasetWriter as DatasetWriter, read_attributes as read_attributes
