"""Units and currencies, each by its names and signs."""

from __future__ import annotations

from typing import Final

_UNIT_NAMES: Final = {
    "percent": "% percent percents pct prozent",
    "degree": "degrees degree \u00b0",
    "km": "kilometres kilometers kilometre kilometer kms km",
    "m": "metres meters metre meter m",
    "cm": "centimetres centimeters centimetre centimeter cm",
    "mm": "millimetres millimeters millimetre millimeter mm",
    "mile": "miles mile mi",
    "ft": "feet foot ft",
    "inch": "inches inch",
    "kg": "kilograms kilogram kilogrammes kilos kilo kgs kg",
    "gram": "grams gram grammes",
    "tonne": "tonnes tonne",
    "ton": "tons ton",
    "litre": "litres liters litre liter",
    "pound": "pounds pound lbs lb",
    "dollar": "dollars dollar usd",
    "euro": "euros euro eur",
    "yen": "yen",
    "rupee": "rupees rupee",
    "cent": "cents cent",
    "year": "years year yrs yr",
    "month": "months month",
    "week": "weeks week",
    "day": "days day",
    "hour": "hours hour hrs hr",
    "minute": "minutes minute mins",
    "second": "seconds secs",
    "kmh": "kmh",
    "mph": "mph",
}
UNITS: Final = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
CURRENCIES: Final = {"$": "dollar", "\u20ac": "euro", "\u00a3": "pound", "\u00a5": "yen", "\u20b9": "rupee"}
CODES: Final = {"usd": "dollar", "eur": "euro", "gbp": "pound", "jpy": "yen", "inr": "rupee"}
MONEY_ENDS: Final = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}  # $2.5b
