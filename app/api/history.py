"""Job history: uploads and what was found in them."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.api.auth import PlannerDep, require
from app.api.clusters import ClusterPath
from app.api.deps import ClockDep, EngineDep, RunsDep
from app.errors import Invalid
from app.schemas.history import HistoryOut, ImportOut, ImportQueued, UploadOptions
from app.services import import_history
from app.services.import_history import Upload
from app.store.tables import HistoryImportRow

router = APIRouter(prefix="/v1/clusters/{cluster}/history", tags=["history"])

LISTED_FAULTS: Final = 20
"""Faults of each import in a list of imports."""

_READS: Final = [Depends(require("read"))]
_CSV: Final = "text/csv"
_BYTES: Final = "application/octet-stream"
_BODY: Final = {
    "requestBody": {
        "required": True,
        "description": "csv: job_id, pool, submit_s, num_gpus, duration_s and the optional columns; "
        "any other format as it was exported, plain or packed",
        "content": {
            _CSV: {
                "schema": {"type": "string"},
                "example": "job_id,pool,submit_s,num_gpus,duration_s\n1,vision,0,8,3600\n",
            },
            _BYTES: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def _begin(
    cluster: ClusterPath,
    options: Annotated[UploadOptions, Query()],
    request: Request,
    engine: EngineDep,
    clock: ClockDep,
) -> Upload:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _CSV and (kind != _BYTES or options.file_format == import_history.CSV):
        raise Invalid(f"the body has to be {_CSV}, or {_BYTES} for other formats than csv")
    return import_history.begin(
        engine,
        cluster,
        file_format=options.file_format,
        is_lenient=options.lenient,
        origin=options.origin,
        clock=clock,
        tz=options.tz,
    )


@router.post("", status_code=HTTPStatus.ACCEPTED, summary="Upload a file of past jobs", openapi_extra=_BODY)
async def upload_history(
    caller: PlannerDep,  # first: nothing is begun for who may not
    upload: Annotated[Upload, Depends(_begin)],
    request: Request,
    response: Response,
    runs: RunsDep,
) -> ImportQueued:
    """A run reads it; `Location` names that run. Jobs that are known already are left out and reported."""
    is_done = False
    try:
        await _take_all(request, upload)
        row, run = await run_in_threadpool(upload.finish, runs, caller.name)
        is_done = True
    finally:
        if not is_done:
            await run_in_threadpool(upload.abandon)
    response.headers["Location"] = f"/v1/runs/{run.run_id}"
    return ImportQueued(
        import_id=row.import_id, run_id=run.run_id, num_bytes=row.num_bytes, sha256=row.sha256
    )


@router.get("", dependencies=_READS, summary="Imports, the newest first")
def list_imports(
    cluster: ClusterPath,
    engine: EngineDep,
    before: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> HistoryOut:
    """With the first faults of each."""
    found = import_history.found(engine, cluster, before, limit + 1)
    items = [_import_out(row, LISTED_FAULTS) for row in found.imports[:limit]]
    more = len(found.imports) > limit
    return HistoryOut(num_jobs=found.num_jobs, items=items, next=items[-1].import_id if more else None)


@router.get("/{import_id}", dependencies=_READS, summary="An import and its faults")
def get_import(
    cluster: ClusterPath, import_id: Annotated[str, Path(max_length=64)], engine: EngineDep
) -> ImportOut:
    """Every fault that was kept."""
    row = import_history.get(engine, cluster, import_id)
    return _import_out(row, len(row.faults))


async def _take_all(request: Request, upload: Upload) -> None:
    """Whatever size the server's pieces have, the database is asked once per chunk at most."""
    waiting = bytearray()
    async for piece in request.stream():
        waiting += piece
        if len(waiting) >= import_history.CHUNK_BYTES:
            await run_in_threadpool(upload.take, bytes(waiting))
            waiting.clear()
    await run_in_threadpool(upload.take, bytes(waiting))


def _import_out(row: HistoryImportRow, num_faults: int) -> ImportOut:
    kept = row.model_dump(exclude={"cluster", "faults"})
    return ImportOut.model_validate({**kept, "faults": row.faults[:num_faults]})
