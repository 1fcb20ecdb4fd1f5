"""Malformed expressions, zones and intervals are refused quickly, with a message that says what is wrong."""

import time

import pytest

from taskyard_server import cadence
from taskyard_server.cadence import Every, parse_cron, parse_interval
from taskyard_server.core.errors import BadRequest
from tests.cases import every_case

MINUTE = "the minute must be 0 to 59 with *, lists, ranges and steps"
HOUR = "the hour must be 0 to 23 with *, lists, ranges and steps"
DAY = "the day of the month must be 1 to 31 with *, lists, ranges and steps"
MONTH = "the month must be 1 to 12 or JAN to DEC with *, lists, ranges and steps"
WEEKDAY = "the day of the week must be 0 to 7 or SUN to SAT with *, lists, ranges and steps"
NEVER = "never comes: none of its months has such a day of the month"
FIVE = "must be five fields (minute, hour, day of the month, month, day of the week)"

REFUSED = [
    ("61 * * * *", f'{MINUTE}, got "61"'),
    ("60 * * * *", f'{MINUTE}, got "60"'),
    ("-1 * * * *", f'{MINUTE}, got "-1"'),
    ("+1 * * * *", f'{MINUTE}, got "+1"'),
    ("007 * * * *", f'{MINUTE}, got "007"'),
    ("1_0 * * * *", f'{MINUTE}, got "1_0"'),
    ("1,,2 * * * *", f'{MINUTE}, got "1,,2"'),
    (",1 * * * *", f'{MINUTE}, got ",1"'),
    ("1, * * * *", f'{MINUTE}, got "1,"'),
    ("5-1 * * * *", f'{MINUTE}, got "5-1"'),
    ("1-2-3 * * * *", f'{MINUTE}, got "1-2-3"'),
    ("1-60 * * * *", f'{MINUTE}, got "1-60"'),
    ("*/0 * * * *", f'{MINUTE}, got "*/0"'),
    ("*/ * * * *", f'{MINUTE}, got "*/"'),
    ("*/60 * * * *", f'{MINUTE}, got "*/60"'),
    ("*/90 * * * *", f'{MINUTE}, got "*/90"'),
    ("*/2/3 * * * *", f'{MINUTE}, got "*/2/3"'),
    ("5/10 * * * *", f'{MINUTE}, got "5/10"'),
    ("5-5/10 * * * *", f'{MINUTE}, got "5-5/10"'),
    ("** * * * *", f'{MINUTE}, got "**"'),
    ("*-5 * * * *", f'{MINUTE}, got "*-5"'),
    ("? * * * *", f'{MINUTE}, got "?"'),
    ("H * * * *", f'{MINUTE}, got "H"'),
    ("\u0661 * * * *", rf'{MINUTE}, got "\u0661"'),
    ("\uff11 * * * *", rf'{MINUTE}, got "\uff11"'),
    ("0\u00a0 * * * *", rf'{MINUTE}, got "0\u00a0"'),
    ("0\n * * * *", rf'{MINUTE}, got "0\n"'),
    ("0\x00 * * * *", rf'{MINUTE}, got "0\u0000"'),
    ('" * * * *', rf'{MINUTE}, got "\""'),
    ("jan * * * *", f'{MINUTE}, got "jan"'),
    ("9" * 200 + " * * * *", f'{MINUTE}, got "{"9" * 64}"'),
    ("*/" + "9" * 200 + " * * * *", f'{MINUTE}, got "*/{"9" * 62}"'),
    ("0 24 * * *", f'{HOUR}, got "24"'),
    ("0 */24 * * *", f'{HOUR}, got "*/24"'),
    ("0 0 0 * *", f'{DAY}, got "0"'),
    ("0 0 32 * *", f'{DAY}, got "32"'),
    ("0 0 L * *", f'{DAY}, got "L"'),
    ("0 0 LW * *", f'{DAY}, got "LW"'),
    ("0 0 15W * *", f'{DAY}, got "15W"'),
    ("0 0 mon * *", f'{DAY}, got "mon"'),
    ("0 0 * 0 *", f'{MONTH}, got "0"'),
    ("0 0 * 13 *", f'{MONTH}, got "13"'),
    ("0 0 * mon *", f'{MONTH}, got "mon"'),
    ("0 0 * january *", f'{MONTH}, got "january"'),
    ("0 0 * dec-jan *", f'{MONTH}, got "dec-jan"'),
    ("0 0 * * 8", f'{WEEKDAY}, got "8"'),
    ("0 0 * * 5L", f'{WEEKDAY}, got "5L"'),
    ("0 0 * * L", f'{WEEKDAY}, got "L"'),
    ("0 0 * * 1#2", f'{WEEKDAY}, got "1#2"'),
    ("0 0 * * sat-sun", f'{WEEKDAY}, got "sat-sun"'),
    ("0 0 * * \u017fun", rf'{WEEKDAY}, got "\u017fun"'),
    ("", f'{FIVE}, got ""'),
    (" \t ", rf'{FIVE}, got " \t "'),
    ("* * * *", f'{FIVE}, got "* * * *"'),
    ("0 0 0 * * *", f'{FIVE}, got "0 0 0 * * *"'),
    ("@daily", f'{FIVE}, got "@daily"'),
    ("@reboot", f'{FIVE}, got "@reboot"'),
    ("*\n* * * *", rf'{FIVE}, got "*\n* * * *"'),
    ("* * * * *\u3000", rf'{WEEKDAY}, got "*\u3000"'),
    ("* " * 128, f'{FIVE}, got "{"* " * 32}"'),
    ("*" * 257, "must be at most 256 characters"),
    ("* * * * *" + " " * 248, "must be at most 256 characters"),
    ("9" * 10_000_000, "must be at most 256 characters"),
    ("0 0 30 2 *", NEVER),
    ("0 0 31 2,4,6,9,11 *", NEVER),
    ("0 0 30-31 feb *", NEVER),
    ("0 0 31 4 */2", NEVER),
]


def message(call, *given) -> str:
    """The message of the refusal."""
    with pytest.raises(BadRequest) as refused:
        call(*given)
    return refused.value.message


@every_case(("expression", "problem"), REFUSED, ids=[ascii(expression[:20]) for expression, _ in REFUSED])
def test_a_malformed_expression_is_refused_by_its_field(expression, problem):
    assert message(parse_cron, expression, "UTC") == f"cron: {problem}"


def test_a_refusal_takes_less_than_50_ms():
    took = []
    for expression, _ in REFUSED:
        begin = time.process_time()
        message(parse_cron, expression, "UTC")
        took.append(time.process_time() - begin)
    assert sorted(took)[-3] < 0.05


@every_case(
    ("expression", "kept"),
    [
        ("  0\t9  *\t\t* 1-5 ", "0 9 * * 1-5"),
        ("00 09 01 JAN-jun/2 Mon,wEd", "00 09 01 JAN-jun/2 Mon,wEd"),
        ("5-5 * * * 7-7", "5-5 * * * 7-7"),
        ("*/59 */23 */31 */12 */7", "*/59 */23 */31 */12 */7"),
        ("*,5 1-2/2,7 * * 0-7", "*,5 1-2/2,7 * * 0-7"),
        ("0 0 31 2,4 1", "0 0 31 2,4 1"),
        ("0 0 30 2 1", "0 0 30 2 1"),
        (",".join(["11"] * 82) + " * * * *", ",".join(["11"] * 82) + " * * * *"),
    ],
)
def test_an_expression_is_kept_with_single_spaces(expression, kept):
    cron = parse_cron(expression, "UTC")

    assert cron.expression == kept
    assert cron.next_after(0, 0) is not None


HOSTILE_ZONES = [
    "",
    " ",
    "Mars/Base",
    "europe/berlin",
    "Europe/Berlin ",
    "Europe",
    "Europe/",
    "Europe//Berlin",
    "../../etc/passwd",
    "/etc/passwd",
    "/usr/share/zoneinfo/Europe/Berlin",
    "Europe/../Europe/Berlin",
    "./UTC",
    "UTC\x00",
    "\x00",
    "UTC\n",
    "localtime",
    "posixrules",
    "posix/UTC",
    "right/UTC",
    "tzdata.zi",
    "zone.tab",
    "zones",
    "__init__.py",
    "UTC+1",
    "CET-1CEST",
    "\ud800",
    "\u0395urope/Berlin",
    "C:\\Windows",
    "a" * 100_000,
    "../" * 50_000,
]


@every_case("zone", HOSTILE_ZONES, ids=[ascii(zone[:20]) for zone in HOSTILE_ZONES])
def test_an_unknown_zone_is_refused_before_anything_is_read(zone, monkeypatch):
    parse_cron("* * * * *", "UTC")
    asked = []
    monkeypatch.setattr(cadence, "ZoneInfo", asked.append)
    monkeypatch.setattr(cadence, "files", asked.append)

    said = message(parse_cron, "* * * * *", zone)

    assert said.startswith('timeZone: unknown time zone "')
    assert len(said) < 64 * 6 + 40
    assert said.isprintable()
    assert not asked


def test_an_unknown_zone_is_named():
    assert message(parse_cron, "* * * * *", "Mars/Base") == 'timeZone: unknown time zone "Mars/Base"'


def test_every_zone_of_the_database_is_accepted():
    names = cadence._zones()
    assert len(names) > 400

    for name in names:
        assert parse_cron("30 2 * * *", name).next_after(1.77e9, 0) is not None, name


@every_case(
    ("text", "secs"),
    [
        ("30s", 30),
        ("10m", 600),
        ("2h", 7_200),
        ("1.5h", 5_400),
        ("1d", 86_400),
        ("1s", 1),
        ("1.0s", 1),
        ("1.001s", 1.001),
        ("0.1m", 6),
        ("0.7m", 42),
        ("1.1h", 3_960),
        ("0.000011575d", 1.00008),
        ("000000030s", 30),
        ("3650d", 315_360_000),
        ("315360000s", 315_360_000),
        ("87600.0h", 315_360_000),
    ],
)
def test_an_interval_has_exactly_the_given_length(text, secs):
    assert parse_interval(text) == Every(text, secs)


REFUSED_INTERVALS = [
    "", "s", "30", "30S", "30 s", " 30s", "30s ", "30s\n", "+30s", "-30s", "1e3s", "0x10s", "1h30m", "30ms", "30us",
    "1w", "1y", ".5h", "1.h", "1.5.5h", "1,5h", "1_0s", "inf", "infs", "nans", "NaNs", "0s", "0.999999999s", "0d",
    "3650.000000001d", "3651d", "315360001s", "999999999d", "1000000000s", "1.0000000000s", "\u0663\u0660s", "\uff13s",
    "30\u017f", "30s\x00", "9" * 1_000_000 + "s", "0." + "0" * 1_000_000 + "1d", "PT30S", "@every 30s", "* * * * *",
]  # fmt: skip


@every_case("text", REFUSED_INTERVALS, ids=[ascii(text[:20]) for text in REFUSED_INTERVALS])
def test_a_malformed_interval_is_refused(text):
    said = message(parse_interval, text)

    assert said.startswith("interval: must be from 1s to 3650d, such as 30s, 10m, 1.5h or 1d, got ")
    assert len(said) < 64 * 6 + 80


def test_a_refused_interval_is_quoted():
    assert message(parse_interval, "1h30m").endswith('got "1h30m"')
