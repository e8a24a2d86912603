"""Certificates: every network held against oracles of plain integers, and its truth proved."""

from attributionlab.verification.certificate import Certificate, Check, Precision
from attributionlab.verification.certification import verify

__all__ = ["Certificate", "Check", "Precision", "verify"]
