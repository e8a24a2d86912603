"""Certificates: every network held against oracles of plain integers, and its truth proved."""

from attributionlab.worlds.verification.certificate import Certificate, Check, Precision
from attributionlab.worlds.verification.certification import verify

__all__ = ["Certificate", "Check", "Precision", "verify"]
