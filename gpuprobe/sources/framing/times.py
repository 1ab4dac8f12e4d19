"""Dates and times as logs write them, in several languages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from gpuprobe.clock import Stamp
from gpuprobe.lazy_regex import regex

_NAMES = (
    # English, German, French, Spanish, Italian, Polish (both cases), Czech, Scandinavian, Dutch,
    # Portuguese, Russian, Finnish, Hungarian, Turkish; abbreviations by shortening, see below.
    "january januar jänner janvier enero gennaio styczeń stycznia leden ledna januari janeiro январь января tammikuu tammikuuta január ocak",
    "february februar février febrero febbraio luty lutego únor února februari fevereiro февраль февраля helmikuu helmikuuta február şubat",
    "march märz mars marzo marzec marca březen března mars maart março март марта maaliskuu maaliskuuta március mart",
    "april avril abril aprile kwiecień kwietnia duben dubna апрель апреля huhtikuu huhtikuuta április nisan",
    "may mai mayo maggio maj maja květen května mei maio май мая toukokuu toukokuuta május mayıs",
    "june juni juin junio giugno czerwiec czerwca červen června junho июнь июня kesäkuu kesäkuuta június haziran",
    "july juli juillet julio luglio lipiec lipca červenec července julho июль июля heinäkuu heinäkuuta július temmuz",
    "august août agosto sierpień sierpnia srpen srpna augusti augustus август августа elokuu elokuuta augusztus ağustos",
    "september septembre septiembre settembre wrzesień września září setembro сентябрь сентября syyskuu syyskuuta szeptember eylül",
    "october oktober octobre octubre ottobre październik października říjen října outubro октябрь октября lokakuu lokakuuta október ekim",
    "november novembre noviembre listopad listopada listopadu novembro ноябрь ноября marraskuu marraskuuta kasım",
    "december dezember décembre diciembre dicembre grudzień grudnia prosinec prosince desember dezembro декабрь декабря joulukuu joulukuuta aralık",
)  # fmt: skip
_SHORT = (
    "jan jän janv ene gen sty led янв tammi oca ian",
    "feb fév févr fev febbr lut úno unor фев февр helmi febr şub sub",
    "mar mär mrt mars mrz marz bře мар maalis márc marc",
    "apr avr abr kwi dub апр huhti ápr nis",
    "may mai mag maj kvě kve mei май мая touko máj mayı",
    "jun juin giu cze čer čvn июн kesä jún haz",
    "jul juil lug lip čvc črc июл heinä júl tem",
    "aug aoû août ago sie srp авг elo ağu agu",
    "sep sept set wrz zář zar сен сент syys szept eyl",
    "oct okt ott paź paz out říj rij окт loka eki",
    "nov lis ноя нояб marras kas",
    "dec dez déc dic gru pro des дек joulu ara",
)


def _months() -> dict[str, int]:
    table: dict[str, int] = {}
    for names in (_NAMES, _SHORT):
        for number, words in enumerate(names, start=1):
            for word in words.split():
                table.setdefault(word, number)
    # Czech July begins as its June does.
    table["červenec"] = table["července"] = 7
    for number in range(1, 13):
        table[f"{number}月"] = table[f"{number:02d}月"] = number
        table[f"{number}월"] = number
    return table


MONTHS = _months()
"""Month number by lower-case name, without the full stop of an abbreviation."""

OFFSET = r"(?:Z|[+-]\d\d:?\d\d|[+-]\d\d(?![\d:]))"
ISO = rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?: ?{OFFSET})?"
"""A date and time with the year first. One text, no groups."""

_ISO_PARTS = regex(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T |](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d(?::?\d\d)?))?"
)
_UTC_NAMES = frozenset({"UTC", "GMT", "Z"})


def month_number(word: str) -> int | None:
    """The month that a word names in one of the languages known, or None."""
    return MONTHS.get(word.rstrip(".").lower())


def resolution(fraction: str | None) -> float:
    """How fine a stamp with these decimals is, in seconds, not below a microsecond."""
    return max(10.0 ** -len(fraction), 1e-6) if fraction else 1.0


def zone(text: str | None) -> timezone | None:
    """The zone of `Z`, `UTC`, `+02:00`, `+0200` or `+02`; None for anything else."""
    if not text:
        return None
    if text.upper() in _UTC_NAMES:
        return UTC
    digits = text[1:].replace(":", "")
    if text[0] not in "+-" or not digits.isdecimal():
        return None
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4] or "0"))
    if offset >= timedelta(days=1):
        return None
    return timezone(offset if text[0] == "+" else -offset)


def iso_stamp(text: str, zone_name: str | None = None, raw: str | None = None) -> Stamp | None:
    """A stamp from a date with the year first, or None where the figures are no date.

    Args:
        text: Starts with the date; `2026-09-22T07:44:58.123+02:00`, `2026/09/22 07:44:58`.
        zone_name: Zone that stands apart from it, such as `CEST`; only UTC's names are certain.
        raw: What the stamp is to be called; the matched text when None.
    """
    match = _ISO_PARTS.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        wall = datetime(
            int(year), int(month), int(day), int(hour), int(minute), min(int(second), 59),
            int((fraction or "0")[:6].ljust(6, "0")), tzinfo=zone(offset or zone_name),
        )  # fmt: skip
    except ValueError:
        return None
    return Stamp(raw=raw or match[0], wall=wall, resolution_s=resolution(fraction))


def clock_stamp(
    raw: str,
    month: int,
    day: int,
    clock: str,
    *,
    year: int | None = None,
    zone_name: str | None = None,
) -> Stamp | None:
    """A stamp from its parts, or None where they are no date.

    Args:
        raw: The stamp as it stands.
        month: 1 to 12.
        day: Of the month.
        clock: `07:44:58`, with decimals or without.
        year: None when the log leaves it out; the date then stands in 2000, a leap year.
        zone_name: See `zone`.
    """
    time_text, _, fraction = clock.replace(",", ".").partition(".")
    hour, minute, second = time_text.split(":")
    try:
        wall = datetime(
            year or 2000, month, day, int(hour), int(minute), min(int(second), 59),
            int((fraction or "0")[:6].ljust(6, "0")), tzinfo=zone(zone_name),
        )  # fmt: skip
    except ValueError:
        return None
    return Stamp(
        raw=raw, wall=wall, year_known=year is not None, resolution_s=resolution(fraction or None)
    )


def epoch_stamp(raw: str, seconds: float, fraction: str | None = None) -> Stamp | None:
    """A stamp from seconds since 1970, or None beyond what a date can hold."""
    try:
        wall = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return Stamp(raw=raw, wall=wall, resolution_s=resolution(fraction))


def monotonic_stamp(raw: str, figure: str) -> Stamp:
    """A stamp from seconds since boot, as printed between the brackets."""
    return Stamp(
        raw=raw, monotonic_s=float(figure), resolution_s=resolution(figure.partition(".")[2])
    )
