"""Webhooks: who is told when runs end."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api.auth import AdminDep, require
from app.api.clusters import ClusterPath
from app.api.deps import ClockDep, EngineDep, SettingsDep
from app.schemas.webhooks import DeliveriesOut, DeliveryOut, WebhookIn, WebhookMade, WebhookOut, WebhooksOut
from app.services import webhooks
from app.store.tables import WebhookDeliveryRow, WebhookRow

router = APIRouter(prefix="/v1/clusters/{cluster}/webhooks", tags=["webhooks"])

WebhookPath = Annotated[str, Path(max_length=64, description="the webhook's id")]
BeforeQuery = Annotated[str | None, Query(max_length=64)]
LimitQuery = Annotated[int, Query(ge=1, le=100)]
_ADMINS: Final = [Depends(require("admin"))]


@router.post("", status_code=HTTPStatus.CREATED, summary="Have somebody told when runs end")
def create_webhook(
    cluster: ClusterPath,
    body: WebhookIn,
    caller: AdminDep,
    response: Response,
    engine: EngineDep,
    settings: SettingsDep,
    clock: ClockDep,
) -> WebhookMade:
    """The secret that messages are signed with is shown this once."""
    row, secret = webhooks.create(
        engine, settings, cluster, url=body.url, kinds=body.kinds, created_by=caller.name, clock=clock
    )
    response.headers["Location"] = f"/v1/clusters/{cluster}/webhooks/{row.webhook_id}"
    return _made(row, secret)


@router.get("", dependencies=_ADMINS, summary="Webhooks, the newest first")
def list_webhooks(
    cluster: ClusterPath, engine: EngineDep, before: BeforeQuery = None, limit: LimitQuery = 20
) -> WebhooksOut:
    """A page at a time."""
    found = webhooks.page(engine, cluster, before, limit + 1)
    items = [_out(row) for row in found[:limit]]
    return WebhooksOut(items=items, next=items[-1].webhook_id if len(found) > limit else None)


@router.get("/{webhook_id}", dependencies=_ADMINS, summary="A webhook")
def get_webhook(cluster: ClusterPath, webhook_id: WebhookPath, engine: EngineDep) -> WebhookOut:
    """Without its secret."""
    return _out(webhooks.get(engine, cluster, webhook_id))


@router.delete(
    "/{webhook_id}", dependencies=_ADMINS, status_code=HTTPStatus.NO_CONTENT, summary="Remove a webhook"
)
def remove_webhook(cluster: ClusterPath, webhook_id: WebhookPath, engine: EngineDep) -> None:
    """What it has not been told yet, it is not told any more."""
    webhooks.remove(engine, cluster, webhook_id)


@router.post("/{webhook_id}/rotate", dependencies=_ADMINS, summary="Give a webhook a new secret")
def rotate_webhook(
    cluster: ClusterPath, webhook_id: WebhookPath, engine: EngineDep, settings: SettingsDep
) -> WebhookMade:
    """What is sent from now on is signed with it, also what was to be sent before."""
    return _made(*webhooks.rotate(engine, settings, cluster, webhook_id))


@router.get("/{webhook_id}/deliveries", dependencies=_ADMINS, summary="What a webhook was told, newest first")
def list_deliveries(
    cluster: ClusterPath,
    webhook_id: WebhookPath,
    engine: EngineDep,
    before: BeforeQuery = None,
    limit: LimitQuery = 20,
) -> DeliveriesOut:
    """Also what is still to be delivered, and what was given up."""
    found = webhooks.deliveries(engine, cluster, webhook_id, before, limit + 1)
    items = [_delivery_out(row) for row in found[:limit]]
    return DeliveriesOut(items=items, next=items[-1].delivery_id if len(found) > limit else None)


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/redeliver",
    dependencies=_ADMINS,
    status_code=HTTPStatus.ACCEPTED,
    summary="Deliver a message again",
)
def redeliver(
    cluster: ClusterPath,
    webhook_id: WebhookPath,
    delivery_id: Annotated[str, Path(max_length=64)],
    engine: EngineDep,
    clock: ClockDep,
) -> DeliveryOut:
    """It has the same id as before, so that a receiver can tell."""
    return _delivery_out(webhooks.deliver_again(engine, cluster, webhook_id, delivery_id, clock))


def _out(row: WebhookRow) -> WebhookOut:
    return WebhookOut.model_validate(row.model_dump(exclude={"nonce"}))


def _made(row: WebhookRow, secret: str) -> WebhookMade:
    return WebhookMade.model_validate({**row.model_dump(exclude={"nonce"}), "secret": secret})


def _delivery_out(row: WebhookDeliveryRow) -> DeliveryOut:
    return DeliveryOut.model_validate(row.model_dump(exclude={"webhook_id", "body"}))
