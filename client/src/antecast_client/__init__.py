"""Talk to Antecast: what a scheduler needs, and nothing more (httpx only).

from antecast_client import Client, events, read_key

with Client("https://antecast.example:8000", read_key()) as service:
    answer = service.decide("research", [events.submitted("job-7", "vision", 4, uid="job-7 submit")])
    for start in answer["starts"]: ...
"""

from antecast_client import events
from antecast_client.client import DEFAULT_URL, Client
from antecast_client.errors import ClientError, KeyFileError, ProblemError, RunEndedError, UnreachableError
from antecast_client.keys import API_KEY, read_key
from antecast_client.sse import ServerEvent

__all__ = [
    "API_KEY",
    "DEFAULT_URL",
    "Client",
    "ClientError",
    "KeyFileError",
    "ProblemError",
    "RunEndedError",
    "ServerEvent",
    "UnreachableError",
    "events",
    "read_key",
]
