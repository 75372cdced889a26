"""Who is told when runs end, on both databases; how it is delivered is in the tests with real processes."""

import asyncio
import base64
import hashlib
import hmac
import json
import stat

import pytest
from service import assert_problem
from sqlalchemy import text

from app.runs.deliveries import MAX_ATTEMPTS, wait_s
from app.services.webhook_post import NotDelivered, post, target_of
from app.services.webhook_secrets import key_path, read_key, signature_of
from app.settings import ServiceSettings
from domain.errors import SettingError

HOOKS = "/v1/clusters/c/webhooks"


@pytest.fixture
def hooks(open_service, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    service = open_service(webhook_key_file=key)
    service.cluster()
    service.inventory({"vision": 6, "speech": 2})
    return service


def make(service, url="https://hooks.example.org/a?b=c", **more):
    answer = service.client.post(HOOKS, json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def deliveries(service, hook):
    return service.client.get(f"{HOOKS}/{hook['webhook_id']}/deliveries").json()["items"]


def test_a_secret_is_shown_once_and_not_kept(hooks):
    made = make(hooks)
    secret = made.pop("secret")
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert hooks.client.get(f"{HOOKS}/{made['webhook_id']}").json() == made
    assert hooks.client.get(HOOKS).json() == {"items": [made], "next": None}
    rotated = hooks.client.post(f"{HOOKS}/{made['webhook_id']}/rotate").json()
    assert rotated["secret"] not in (secret, make(hooks)["secret"])
    with hooks.database.engine.connect() as connection:
        kept = repr(connection.execute(text("SELECT * FROM webhooks")).all())
    for shown in (secret, rotated["secret"]):
        assert shown.removeprefix("whsec_") not in kept
    assert hooks.client.delete(f"{HOOKS}/{made['webhook_id']}").status_code == 204
    assert_problem(hooks.client.get(f"{HOOKS}/{made['webhook_id']}"), 404, "unknown-resource")


def test_the_end_of_a_run_and_its_messages_are_one(hooks):
    every, imports = make(hooks), make(hooks, kinds=["import"])
    run_id = hooks.client.post("/v1/clusters/c/replans").json()["run_id"]
    assert deliveries(hooks, every) == []
    hooks.client.post(f"/v1/runs/{run_id}/cancel")
    (told,) = deliveries(hooks, every)
    assert (told["run_id"], told["status"], told["attempts"]) == (run_id, "pending", 0)
    assert deliveries(hooks, imports) == []
    with hooks.database.engine.connect() as connection:
        body = json.loads(connection.execute(text("SELECT body FROM webhook_deliveries")).scalar_one())
    assert body["type"] == "run.finished"
    assert (body["data"]["run_id"], body["data"]["status"]) == (run_id, "cancelled")
    again = hooks.client.post(f"{HOOKS}/{every['webhook_id']}/deliveries/{told['delivery_id']}/redeliver")
    assert (again.status_code, again.json()["delivery_id"]) == (202, told["delivery_id"])
    wrong = f"{HOOKS}/{imports['webhook_id']}/deliveries/{told['delivery_id']}/redeliver"
    assert_problem(hooks.client.post(wrong), 404, "unknown-resource")


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "https://user:word@hooks.example.org/",
        "https://hooks.example.org/#a",
        "https://hooks.example.org/a b",
        "https://hooks.example.org/\r\nX: y",
        "https://hooks.example.org:99999/",
        "https://",
        "ftp://hooks.example.org/",
        "https://10.0.0.1/",
        "https://127.0.0.1/",
        "http://localhost:8000/",
        "https://[::ffff:192.168.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://169.254.169.254/latest",
    ],
)
def test_messages_go_to_https_and_the_public_internet_only(url):
    with pytest.raises(SettingError):
        target_of(url, allows_private=False)


def test_an_operator_may_allow_private_networks_but_not_link_local_ones():
    assert target_of("https://10.0.0.1/x", allows_private=True).path == "/x"
    assert target_of("http://127.0.0.1:81/?a=b", allows_private=True).port == 81
    for url in ("http://10.0.0.1/", "https://169.254.169.254/", "https://[fe80::1]/", "https://0.0.0.0/"):
        with pytest.raises(SettingError):
            target_of(url, allows_private=True)


def test_a_name_that_leads_inside_is_not_followed(monkeypatch):
    """The name is looked up again when a message is sent: what it was before says nothing."""
    target = target_of("https://hooks.example.org/", allows_private=False)

    async def send():
        async def inside(*_, **__):
            return [(2, 1, 6, "", ("93.184.215.14", 443)), (2, 1, 6, "", ("10.0.0.7", 443))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", inside)
        await post(target, {}, b"{}", allows_private=False)

    with pytest.raises(NotDelivered, match=r"hooks.example.org \(10.0.0.7\)"):
        asyncio.run(send())


def test_signatures_are_those_of_the_specification():
    """Its own example; and what a receiver does that knows nothing but the secret."""
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", '{"test": 2432232314}'
    message = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signed = signature_of(secret, message, 1614265330, body)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    key = base64.b64decode(secret[6:])
    again = hmac.new(key, f"{message}.1614265330.{body}".encode(), hashlib.sha256).digest()
    assert signed == "v1," + base64.b64encode(again).decode()


def test_the_key_is_for_nobody_else(tmp_path):
    settings = ServiceSettings(database_url=f"sqlite:///{tmp_path}/a.db")
    key = read_key(settings, may_create=True)
    path = key_path(settings)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (read_key(settings, may_create=True), read_key(settings, may_create=False)) == (key, key)
    assert list(tmp_path.iterdir()) == [path]
    path.chmod(0o640)
    with pytest.raises(SettingError, match="chmod 600"):
        read_key(settings, may_create=False)


def test_waits_grow_and_end():
    waits = [wait_s(attempts, 5.0) for attempts in range(1, MAX_ATTEMPTS)]
    assert waits[:4] == [5.0, 20.0, 80.0, 320.0]
    assert 20 * 3600 < sum(waits) < 30 * 3600
