"""Loads a pipeline file.

Promise: the result is one pipeline, or a PipelineFileError with the place and the error in one line. The fingerprint is
that of the executed text: the file is read once, past Python's cache of compiled files, which knows a file only by its
size and the second of its change. Not promised: the same for modules that the file imports.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from types import CodeType, ModuleType

from tenure.errors import PipelineFileError, TenureError
from tenure.pipelines.pipeline import Pipeline
from tenure.wording import sentence


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """The pipeline of a file, and the fingerprint of the loaded text."""

    pipeline: Pipeline
    fingerprint: str


def load_pipeline(path: str) -> LoadedPipeline:
    """Load the file's pipeline. The file can import from its own folder. Raises PipelineFileError."""
    source = _read(path)
    module = _execute(path, source)
    declared = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
    if not declared:
        raise PipelineFileError(f"{path} declares no pipeline", fix="decorate one function with @tenure.pipeline")
    if len(declared) > 1:
        names = ", ".join(sorted(pipeline.name for pipeline in declared.values()))
        raise PipelineFileError(f"{path} declares {len(declared)} pipelines ({names})", fix="keep one pipeline a file")
    return LoadedPipeline(next(iter(declared.values())), hashlib.sha256(source).hexdigest()[:12])


def _read(path: str) -> bytes:
    if not os.path.isfile(path):
        raise PipelineFileError(f"pipeline file {path!r} is not there", fix="give the path of a Python file")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise PipelineFileError(f"{path} cannot be read: {error.strerror}", fix="check its rights") from error


def _execute(path: str, source: bytes) -> ModuleType:
    name = os.path.splitext(os.path.basename(path))[0].replace("-", "_")
    spec = importlib.util.spec_from_file_location(f"tenure_pipeline_{name}", path)
    if spec is None or spec.loader is None:
        raise PipelineFileError(f"{path!r} is not a Python file", fix="give a file that ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        exec(_compiled(source, path), vars(module))
    except TenureError as error:
        raise PipelineFileError(f"{path}: {error}") from error
    except SyntaxError as error:  # in the file, or in an imported file
        place = f"{error.filename}:{error.lineno}" if error.filename and error.lineno else path
        raise PipelineFileError(f"{place}: {error.msg}", fix="mend the syntax") from error
    except (Exception, SystemExit) as error:  # user code may raise anything: reported in one line
        raise PipelineFileError(f"{where(error, path)}: {type(error).__name__}: {sentence(str(error))}") from error
    return module


def _compiled(source: bytes, path: str) -> CodeType:
    """The code of a file. Raises SyntaxError."""
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except ValueError as error:  # null bytes, before Python 3.11.4
        raise SyntaxError(str(error)) from error


def where(error: BaseException, path: str) -> str:
    """The innermost line of `path` in the error's traceback, `path` alone when there is none."""
    wanted = os.path.abspath(path)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if os.path.abspath(f.filename) == wanted]
    return f"{path}:{lines[-1]}" if lines else path
