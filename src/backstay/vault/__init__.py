"""Seals the secrets of jobs, and opens them: with keys of a setting, or of a file that lies beside the store.

keyfile    the file: made by one of those who want it first, replaced as a whole, read by its owner only
vault      whichever key sealed it, a secret is opened; the first key of all seals
trial      a certificate file is first opened by a process that may die of it (``opening``)
"""

from backstay.vault.keyfile import KeyFile
from backstay.vault.trial import opens_in_time
from backstay.vault.vault import Vault

__all__ = ["KeyFile", "Vault", "opens_in_time"]
