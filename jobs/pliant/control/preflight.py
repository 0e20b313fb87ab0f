"""Everything that can be found wrong before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pliant_data.prepare import PreparePlan, plan_preparation
from pliant_data.tokenise import Tokenizer, load_tokenizer
from pliant_platform.core.storage import ensure_folder

if TYPE_CHECKING:
    from pliant.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What a job needs to start: its tokenizer and its data plan, both found to be in order."""

    tokenizer: Tokenizer
    data: PreparePlan


def check_job(spec: JobSpec) -> Preflight:
    """Check storage, tokenizer, model and sources.

    Raises:
        InputError: what is wrong and how to mend it.
        StorageError: the storage can't be written.
    """
    from pliant.models import build_config

    storage = ensure_folder(Path(spec.storage))
    tokenizer = load_tokenizer(spec.tokenizer)
    build_config(
        spec.model,
        vocab_size=tokenizer.vocab_size,
        sequence_length=spec.sequence_length,
        eos_id=tokenizer.eos_id,
    )
    cache = Path(spec.data.cache) if spec.data.cache else storage / ".cache"
    data = plan_preparation(spec.data, spec.tokenizer, spec.sequence_length, ensure_folder(cache))
    return Preflight(tokenizer=tokenizer, data=data)
