"""Trained models as folders of plain files: how they are written, kept, chosen and read again."""

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.folder import read, write
from models.artifacts.manifest import Manifest, Span
from models.artifacts.parts import Parts

__all__ = ["ArtifactError", "Manifest", "Parts", "Rule", "Span", "read", "write"]
