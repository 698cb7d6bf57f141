"""Times with nanoseconds, as whole numbers since 1970."""

import re
from datetime import datetime, timedelta, timezone

_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Bounds of a datetime in UTC: the years 1 to 9999.
_MIN = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1) * _SECOND
_MAX = ((datetime.max.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1) + 1) * _SECOND - 1
_DATE = r"(?P<year>\d{4})(?:-(?P<month>\d\d)-(?P<day>\d\d)|(?P<month2>\d\d)(?P<day2>\d\d))"
_CLOCK = r"(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
_OFFSET = r"(?P<zulu>[Zz])|(?P<sign>[+-])(?P<offset_hour>\d\d)(?::?(?P<offset_minute>\d\d))?"
_TIME = re.compile(rf"{_DATE}(?:[Tt ]{_CLOCK}(?:{_OFFSET})?)?", re.ASCII)


def parse(text: str) -> int | None:
    """Parses an ISO 8601 date and time. A time without an offset is UTC.

    None if it is not one, or not in the years 1 to 9999 in UTC.
    """
    match = _TIME.fullmatch(text)
    if not match:
        return None
    part = match.groupdict()
    hour, minute, second = (int(part[name] or 0) for name in ("hour", "minute", "second"))
    offset_hour, offset_minute = int(part["offset_hour"] or 0), int(part["offset_minute"] or 0)
    if offset_hour > 25 or offset_minute > 59 or second > 60:
        return None
    try:
        date = datetime(
            int(part["year"]),
            int(part["month"] or part["month2"]),
            int(part["day"] or part["day2"]),
            hour,
            minute,
            min(second, 59),
            tzinfo=timezone.utc,
        )
    except ValueError:
        return None
    offset = timedelta(hours=offset_hour, minutes=offset_minute)
    since = date - _EPOCH + (offset if part["sign"] == "-" else -offset)
    fraction = int((part["fraction"] or "").ljust(9, "0"))
    nanos = (since.days * 86_400 + since.seconds) * _SECOND + fraction
    return nanos if _MIN <= nanos <= _MAX else None


def of_argument(time: str | datetime) -> int:
    """Converts a time that a caller names. Raises ValueError if it is invalid, or a datetime without a time zone."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError("the time has no time zone")
        nanos = (time - _EPOCH) // timedelta(microseconds=1) * 1_000
        if not _MIN <= nanos <= _MAX:
            raise ValueError(f"{time} is not in the years 1 to 9999 in UTC")
        return nanos
    parsed = parse(time)
    if parsed is None:
        raise ValueError(f"{time!r} is not an ISO 8601 date and time in the years 1 to 9999 in UTC")
    return parsed


def text(nanos: int) -> str:
    """Returns the text of a time in UTC with nine decimal places. Texts sort as times.

    A time after the year 9999 becomes the last one inside.
    """
    seconds, fraction = divmod(min(nanos, _MAX), _SECOND)
    # strftime does not pad the year.
    second = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{second}.{fraction:09}Z"
